"""How far a few measured rows move a machine's parameters (`estimators/gpu/transfer`).

version: 1
chosen on: the public times of single operations on GPUs, eight rows of a class drawn at random, machine and generation
    left out (docs/notes/gpu-operations.md).
refit: none by a command; change a value and score it with ``slipstick validate anchors``.
scored on the same data: yes, each machine and generation left out, but these values saw all machines.
"""

from __future__ import annotations

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Of the way to the most likely parameters."""
FALLS, OTHER_FALLS = 0.95, 0.6
"""What is left of the left-out error where anchors are believed at all, and where another software stack is."""
CAPPED = 0.7
"""Log errors beyond count as this."""
STACKS = {"overhead": 1.5, "memory_efficiency": 0.25, "compute_efficiency": 0.25}
"""How far (standard deviation of the log) a software stack that no measured machine runs may be from theirs: tried
where the rows predict each other better so."""
NOISE, LEAST_NOISE = 2.5, 0.1
"""The noise of an anchor over the scatter of the sources' own fits, and the least: those fits saw hundreds of rows."""
LENGTH = 2.0
"""Octaves of time beyond the anchors' within which what they say still counts (a Gaussian's standard deviation)."""
