"""Scoreboards of TPUs and systolic arrays."""
