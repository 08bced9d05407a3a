"""Power limits of a fleet."""
