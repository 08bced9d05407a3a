"""A network on a GPU: kernels and the host that issues them, with their bands."""
