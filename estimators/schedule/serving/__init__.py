"""Continuous batching: requests that share a language model's server, by simulation and by closed form."""
