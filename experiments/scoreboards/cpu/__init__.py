"""Scoreboards of CPUs: bandwidth, loops and layers."""
