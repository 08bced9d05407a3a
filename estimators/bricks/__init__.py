"""A network's time from measured sequences of its layers (DLBricks)."""
