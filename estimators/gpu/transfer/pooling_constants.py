"""Fits of machines, and what is fixed in pooling over them and in its bands (`estimators/gpu/transfer`).

version: 7
chosen on: the public times of single operations on GPUs that ``slipstick validate operations`` reads, every machine
    left out in turn. The best of a few round values, or a judgement where the text of a value names no comparison.
refit: none by a command; change a value and score it with ``slipstick validate operations``. What machines count for
    one another, and how errors grow (`fitting/similarity_weights.py`), is fitted by
    ``slipstick validate --refit operations``.
scored on the same data: yes, each machine left out, but these values saw all machines.
"""

from __future__ import annotations

from collections.abc import Mapping

BORDER = 20e-6
"""Seconds that part short operations from long ones."""
LARGEST = 0.6
"""Log errors beyond count as this: an outlier in a hundred is no reason for a band that holds it."""
ROWS = 4.0
"""How many rows of a machine's own its relatives' scatter stands for."""
LEAST_NOISE = 0.03
"""No time is known better: the spread of repeated measurements."""
UNKNOWN = 0.6
"""Standard deviation of the log error of a class that nobody measured: a judgement. The measured classes, by what is
known of kernels in general, err by .38; they are the usual ones."""
CUT = 1.5
"""Log residuals beyond are cut: they are outliers."""
NEIGHBOURS = 6
"""Nearest measured shapes whose residuals are averaged."""
REACH = 0.1
"""Octaves within which neighbouring shapes count alike."""
PRIOR_STRENGTH = 0.3
"""How many residuals of size one a deviation from the prior by one spread stands for."""
SOFT = 0.1
"""Log residual beyond which a row's weight falls, in the fit of a machine and in the trials."""
SHARE = 0.7
"""Share of the residuals at the nearest shapes that repeats from machine to machine, where nothing is known."""
KNOWN_ROTATION = 0.05
"""Spread of the logarithm of `rotation` where the program that measured states it."""
ROTATION_STATED = ("attention", "gemm.bfloat16", "gemm.float8", "gemm.float8_block", "experts")
"""Such classes. The collector of the serving stacks' tables goes over six sets of a product's operands in turn, and
over one of attention's and of a layer of experts, which is two products (ai-dynamo/aiconfigurator,
collector/sglang/collect_gemm.py, collect_attn.py and collect_moe.py)."""
ROTATION_UNSTATED = ("aiter",)
"""Libraries whose programs, of these classes, do not state it."""
GRAPH_LAUNCH = 1.5e-6
"""Seconds of a launch in a recorded graph: below the shortest kernel of those tables, 1.6 us on an L40S."""
SHARE_WIDTH = 1.0
"""Expected width of its logarithm: nobody knows. At .35 few machines could not speak against `SHARE`."""


MEASURED_RANGES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "gemm.float32": {"batch": (1, 65_536), "m": (2, 65_536), "n": (3, 65_536), "k": (1, 500_000)},
    "gemm.bfloat16": {"batch": (1, 1), "m": (32, 65_536), "n": (1, 32_768), "k": (32, 65_536)},
    "gemm.float8_block": {"batch": (1, 1), "m": (128, 65_536), "n": (1, 32_768), "k": (128, 65_536)},
    "elementwise.float32": {"elements": (37, 8.6e9)},
    "softmax.float32": {"rows": (4_096, 4_194_304), "columns": (512, 16_384)},
    "norm.float32": {"groups": (4_096, 4_194_304), "elements": (2.2e6, 8.6e9)},
    "convolution.float32": {
        "batch": (4, 32),
        "channels_in": (1, 2_048),
        "channels_out": (16, 2_048),
        "out_height": (6, 224),
        "out_width": (7, 480),
        "groups": (1, 1),
        "kernel_height": (1, 7),
        "kernel_width": (1, 20),
    },
    "attention.bfloat16": {
        "batch": (1, 2_048),
        "heads": (1, 128),
        "queries": (1, 16_384),
        "keys": (1, 131_072),
        "head_dim": (128, 128),
    },
    "recurrent.float32": {"batch": (8, 128), "hidden": (256, 4_096)},
}
"""Least and largest of each dimension in the rows that the classes were fitted to (those that ``slipstick validate
operations`` reads; recurrent layers: ``validate recurrences``)."""
PER_OCTAVE, FARTHEST_OUT = 0.1, 0.5
"""Scatter (standard deviation of log time) added for each octave beyond a measured range, and at most: a judgement."""
