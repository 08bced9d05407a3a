"""Estimators put together of an operation model and a schedule, compiled, with energy and cost."""
