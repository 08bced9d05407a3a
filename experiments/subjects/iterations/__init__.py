"""Logs of training iterations."""
