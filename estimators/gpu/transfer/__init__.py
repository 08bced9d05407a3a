"""Kernel parameters of measured GPUs, pooled over families, for a machine that nobody measured."""
