"""Traces read, replayed and moved to other machines."""
