"""Sparse matrix-vector products: reuse, the published network, whole devices."""
