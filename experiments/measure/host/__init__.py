"""Rates of this host's cores, caches and memory."""
