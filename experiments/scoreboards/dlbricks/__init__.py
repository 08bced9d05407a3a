"""Scoreboards of networks from bricks."""
