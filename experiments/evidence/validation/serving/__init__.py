"""Serving of language models against public measurements."""
