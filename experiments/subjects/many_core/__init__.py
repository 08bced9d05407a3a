"""Training with many threads on many-core processors."""
