"""Continuous batching: requests that share an engine, by simulation and in closed form."""
