"""Scoreboards of PyTorch programs."""
