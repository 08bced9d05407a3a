"""Xeon Phi: published numbers and ours."""
