"""Layouts of a training run: a search and its answer."""
