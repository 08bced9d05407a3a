"""Scoreboards of extrapolations."""
