"""Scoreboards of layers of experts."""
