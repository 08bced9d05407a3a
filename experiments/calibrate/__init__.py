"""Measurements of a user or of the public, fitted."""
