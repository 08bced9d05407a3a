"""Whole products by the kernel that computes them: costs, threads, energy."""
