"""Scoreboards of servers of language models."""
