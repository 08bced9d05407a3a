"""Power, energy and voltage of a machine at work."""
