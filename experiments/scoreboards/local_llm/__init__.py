"""Scoreboards of language models on one's own machine."""
