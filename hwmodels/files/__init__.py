"""Bounded readers of files that may come from strangers, and the records that they fill."""
