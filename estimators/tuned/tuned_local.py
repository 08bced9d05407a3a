"""What is expected of llama.cpp on one device before a fit, how strongly a fit is pulled to it, what an anchor does.

version: 1
chosen on: the 289 runs of local_llm/localscore.csv that ``slipstick validate local-llm`` reads (docs/notes/serving.md).
refit: none by a command; change a value and score it with ``slipstick validate local-llm``, which fits the parameters.
scored on the same data: yes; the fit sees nothing of the accelerators held out, but these values saw all rows.
"""

from __future__ import annotations

WEIGHTS = 1.3
LAYER = 15e-6
ARITHMETIC = 2.0
TOKEN = 2e-4
PROMPT_MATRIX = 2.0
PROMPT_PLAIN = 0.5
PROMPT_TOKEN = 30e-6
"""Units and meanings: the fields of `LocalParameters`."""
FAMILY_ROWS = 1.0
"""Runs of one accelerator, model and type of weights count as so many."""
SCATTER = 0.25
"""Standard deviation of a run's log time in the fit."""
WIDTH = {
    "weights": 0.3, "layer": 0.8, "arithmetic": 0.8, "token": 1.0,
    "prompt_matrix": 0.8, "prompt_plain": 0.8, "prompt_token": 1.5,
}  # fmt: skip
"""Standard deviations of log parameters around what is expected (the defaults of `LocalParameters`)."""
ANCHORED = 0.5
"""How much of the band is left where one run of another model on the machine is known."""
