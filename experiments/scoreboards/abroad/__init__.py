"""Scoreboards of figures published elsewhere."""
