"""Training steps and runs measured on this host."""
