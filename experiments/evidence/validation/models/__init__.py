"""Scoreboards: models."""
