"""Sparse matrix-vector products: reuse, the published network, kernels, whole devices."""
