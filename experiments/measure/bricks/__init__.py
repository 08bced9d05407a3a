"""Bricks measured on this host."""
