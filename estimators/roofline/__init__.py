"""What every device shares: arithmetic against traffic, measured tables, and physical bounds."""
