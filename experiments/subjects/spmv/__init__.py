"""Training and using models of sparse products."""
