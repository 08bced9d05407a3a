"""How much measurements of one machine count for another (`estimators/core/kinship.py`).

version: 1
chosen on: the public times of single operations on GPUs that ``slipstick validate operations`` reads, every machine
    left out in turn. The best of a few round values. The costs of sparse products use them as they are.
refit: none by a command; change a value and score it with ``slipstick validate operations``.
scored on the same data: yes, each machine left out, but these values saw all machines; ``slipstick validate spmv``
    scores them on data that they were not chosen on.
"""

from __future__ import annotations

RELATIVES = (0.1, 0.5, 5.0, 30.0)
"""Weight of a machine with which 0, 1, 2, 3 words of the family are shared (vendor, generation, chip): the best of a
few round ones over all public collections, every machine left out."""
PRIOR_WEIGHT = 0.2
"""Weight of the prior, as of one more machine."""
