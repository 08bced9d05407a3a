"""Scoreboards: parallel."""
