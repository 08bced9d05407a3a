"""Scoreboards of ratios of two machines."""
