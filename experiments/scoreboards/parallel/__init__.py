"""Scoreboards of collectives and parallel steps."""
