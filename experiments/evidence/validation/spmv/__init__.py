"""Scoreboards: spmv."""
