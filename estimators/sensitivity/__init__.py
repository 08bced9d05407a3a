"""What a time depends on: elasticities, crossovers, and shares of a difference."""
