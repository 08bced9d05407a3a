"""Parameterised builders of well-known networks; no framework needed."""
