"""What devices do together over their links: collectives and their libraries."""
