"""Accuracy on public measurements, a folder a subject: its rows, its question, its baselines."""
