"""The estimators that ship, by name."""
