"""Scoreboards of sparse products."""
