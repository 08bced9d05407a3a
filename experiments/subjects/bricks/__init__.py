"""Models composed from measured bricks."""
