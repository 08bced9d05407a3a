"""Scoreboards of traces moved between GPUs."""
