"""A training step of a language model on many devices, by the law fitted to published steps."""
