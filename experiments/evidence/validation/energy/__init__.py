"""Scoreboards: energy and power."""
