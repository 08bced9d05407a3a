"""Profilers' traces as workloads and graphs."""
