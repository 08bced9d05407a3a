"""Scaling laws: their terms, families, fits and choice."""
