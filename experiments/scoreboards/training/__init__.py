"""Scoreboards of training of language models."""
