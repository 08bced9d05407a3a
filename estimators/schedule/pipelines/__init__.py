"""Pipelines with finite buffers: recurrence, closed form, simulation."""
