"""What devices do together over their links."""
