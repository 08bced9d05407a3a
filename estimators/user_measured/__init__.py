"""Estimators that are held to what a user measured: whole times, steps and operations."""
