"""Profiles that XLA writes: of TPUs, of JAX, of TensorFlow."""
