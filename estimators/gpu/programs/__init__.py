"""Kernels of PyTorch programs, fitted to whole programs."""
