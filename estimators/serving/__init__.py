"""Servers of language models: a deployment under requests, its answer, its power and its limits."""
