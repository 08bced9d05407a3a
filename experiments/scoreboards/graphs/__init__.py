"""Scoreboards of imported graphs and their counts."""
