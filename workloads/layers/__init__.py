"""Layers of networks: forward, and from them the backward pass and the optimizer."""
