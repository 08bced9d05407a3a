"""Rewrites of a workload graph: fusion, data types, parallel copies, bricks."""
