"""Scoreboards of a few rows of a new machine."""
