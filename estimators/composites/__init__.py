"""Estimators put together from parts: an operation model under a schedule, with what a run uses up."""
