"""Sparse products measured on this host, and the labels that ship."""
