"""Scoreboards of default answers and their remarks."""
