"""Sparse products on a user's own matrices and machines."""
