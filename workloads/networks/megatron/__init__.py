"""Transformers on many devices, as Megatron lays them out."""
