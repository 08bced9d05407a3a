"""Scoreboards of representative iterations."""
