"""What was expected of a serving step before a fit, and how strongly a fit is pulled to it (`operation/serving`).

version: 1
chosen on: the measured rows of serving steps that ``slipstick validate serving`` reads (docs/notes/serving.md).
refit: none by a command; change a value and score it with ``slipstick validate serving``, which fits the parameters.
scored on the same data: yes; the fit sees nothing of the models, systems, versions and generations held out, but these
    values saw all rows.
"""

from __future__ import annotations

WEIGHTS = 1.14
EXPERTS = 1.54
CACHE = 1.43
PRODUCTS = 1.54
EXPERT_PRODUCTS = 2.5
SCORES = 2.86
LAYER = 35e-6
EXPERT_LAYER = 25e-6
WIDENED_LAYER = 50e-6
FP8_LAYER = 15e-6
FP4_LAYER = 25e-6
ALL_REDUCE = 4e-6
EXCHANGE = 10e-6
LINK = 2.0
STEP = 0.3e-3
SEQUENCE = 8e-6
PROMPT = 1.0
"""Units and meanings: the fields of `StepParameters`."""
VISITS = 8
"""Experts visited by a token for which `expert_layer` stands."""
FAMILY_ROWS = 2.0
"""Rows of one family (model, engine, version, system, type) count at most as so many."""
SCATTER = 0.2
"""Standard deviation of a row's log time in the fit."""
WIDTH = {
    "weights": 0.08, "experts": 0.25, "cache": 0.25, "products": 0.25, "expert_products": 0.4, "scores": 0.4,
    "layer": 0.3, "expert_layer": 0.5, "widened_layer": 0.7, "fp8_layer": 0.4, "fp4_layer": 0.4, "all_reduce": 0.6,
    "exchange": 0.5, "link": 0.5, "step": 0.7, "sequence": 0.7, "prompt": 0.15,
}  # fmt: skip
"""Standard deviations of log parameters around what is expected (the defaults of `StepParameters`)."""
POOL = {"engines": 0.15, "systems": 0.1, "versions": 0.3}
"""Standard deviations of log factors around one."""
