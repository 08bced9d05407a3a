"""Power, energy and voltage of a machine at work, and what a power cap does."""
