"""Scoreboards: tpu."""
