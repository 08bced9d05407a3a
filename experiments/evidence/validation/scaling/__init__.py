"""Scoreboards: scaling."""
