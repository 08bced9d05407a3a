"""DLBricks on a user's own networks."""
