"""Scoreboards of image networks."""
