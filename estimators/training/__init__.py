"""A training step of a language model on many devices: time by part, memory and energy."""
