"""Wang and others, "TPUPoint: Automatic Characterization of Hardware-Accelerated Machine-Learning Workloads",
ISPASS 2021.

The runs themselves need Cloud TPUs, TensorFlow 1.15 and storage that are not public. What can be checked: sums and
counts of its tables, the numbers of its method against ours, what follows from its averages, and its observations in
the simulated pipeline and on a recorded run.
"""

from __future__ import annotations

from slipstick.experiments.evidence.papers.tpupoint.tpupoint_observations import observations
from slipstick.experiments.evidence.papers.tpupoint.tpupoint_pipeline import averages, reduced_data, tuner
from slipstick.experiments.evidence.papers.tpupoint.tpupoint_predicted import predicted
from slipstick.experiments.evidence.papers.tpupoint.tpupoint_printed import chips, method, table_i, table_ii
from slipstick.experiments.evidence.rows import ReproductionRow


def run() -> list[ReproductionRow]:
    """Every number that the paper states, beside ours."""
    return [
        *table_i(),
        *table_ii(),
        *method(),
        *chips(),
        *averages(),
        *predicted(),
        *reduced_data(),
        *tuner(),
        *observations(),
    ]
