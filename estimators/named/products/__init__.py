"""Sparse products: by what was learned from blocks, by kernel, on whole devices."""
