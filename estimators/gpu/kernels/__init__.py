"""Single kernels of a GPU: tiles, waves, levels of memory, classes of operations."""
