"""Scoreboards: gpu."""
