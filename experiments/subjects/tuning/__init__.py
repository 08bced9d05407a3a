"""Profiling and tuning the input pipeline of a running job."""
