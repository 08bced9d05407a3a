"""Subjects with a method of their own: bricks, sparse products, tuning, iterations."""
