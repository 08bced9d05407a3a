"""Scoreboards: cpu."""
