"""Counters of kernels and regions: time, floating-point operations, bytes of main memory, and what else was counted."""
