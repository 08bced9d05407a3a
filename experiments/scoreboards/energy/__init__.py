"""Scoreboards of power and energy."""
