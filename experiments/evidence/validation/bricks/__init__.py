"""Scoreboards: bricks."""
