"""Measurements of language-model servers that their own benchmarks write."""
