"""Which fits of public measurements ship, by name."""
