"""Scoreboards of single kernels of GPUs."""
