"""Mixing several predictions of a machine that nobody measured (`estimators/calibration/mixing.py`).

version: 1
chosen on: KernelBench v0.1 (programs), layers of experts and latent attention of public serving stacks, every device
    and its family left out (docs/notes/programs.md, docs/notes/gpu-operations.md). Round values.
refit: none by a command; change a value and score it with ``slipstick validate programs`` and ``experts``.
scored on the same data: yes, devices left out, but these values saw all of them.
"""

from __future__ import annotations

SOFT = 0.15
"""Log error beyond which a row counts less."""
STRENGTH = 0.1
"""What the expected weights count for: a weight off by one costs as much as a log error of so much in one group."""
OTHER_CLOSENESS = 0.1
"""Weight of a group whose nearest known relative is nearer or farther than the target's."""
PROGRAMS_STRANGER = {"formula": 0.5, "others over the formula": 0.4, "nearest by roofline": 0.1}
PROGRAMS_RELATIVE = {"formula": 0.1, "others over the formula": 0.8, "nearest by roofline": 0.1}
"""Weights expected for programs: no device of the generation is known, and one is."""
