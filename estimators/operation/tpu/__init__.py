"""Systolic arrays and training steps on them."""
