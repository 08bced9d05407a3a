"""Operation models of GPUs: tiles, waves, kernel classes."""
