"""TPUs and other systolic arrays: array, memory layout, on-chip buffer, infeed."""
