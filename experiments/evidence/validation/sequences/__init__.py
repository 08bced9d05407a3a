"""Scoreboards: sequences."""
