"""Timelines of profilers as events: kernels, copies, calls and ranges with their start and duration."""
