"""What one run of another model on the machine does to the band of a local model (`operation/serving/local_step`).

version: 2
chosen on: the runs of local_llm/localscore.csv that ``slipstick validate local-llm`` reads (docs/notes/serving.md).
refit: none by a command; the law itself is fitted by ``slipstick validate --refit llama-cpp``.
scored on the same data: yes, by the row "14B from 8B on one machine".
"""

from __future__ import annotations

ANCHORED = 0.5
"""How much of the band is left where one run of another model on the machine is known."""
