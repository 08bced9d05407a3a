"""Wudenhe and Tseng, "TPUPoint: Automatic Characterization of Hardware-Accelerated Machine-Learning Behavior",
ISPASS 2021.

The runs themselves need Cloud TPUs, TensorFlow 1.15 and storage that are not public. What can be checked: sums and
counts of its tables, the numbers of its method against ours, what follows from its averages, and its observations in
the simulated pipeline and on a recorded run.
"""

from __future__ import annotations

from slipstick.experiments.papers.tpupoint.tpupoint_observations import observations
from slipstick.experiments.papers.tpupoint.tpupoint_pipeline import averages, reduced_data, tuner
from slipstick.experiments.papers.tpupoint.tpupoint_predicted import predicted
from slipstick.experiments.papers.tpupoint.tpupoint_printed import chips, method, table_i, table_ii
from slipstick.experiments.scoring.annotations import Mark, marked
from slipstick.experiments.scoring.score_rows import ReproductionRow

PIPELINE = "a simulated pipeline with the printed averages"
MARKS = (
    Mark("I", "workloads", "echo", "Table I, typed in"),
    Mark("I", "ResNet-50: 112,590 .*", "computed", "Table I, images of ImageNet"),
    Mark("II", "(columns|sum of|the most frequent|layout copies).*", "echo", "Tables I and II as printed"),
    Mark(
        "III-A|IV-A|Fig. 5",
        ".*(events|longest|dimensions|smallest|largest k|step|shown|threshold).*",
        "echo",
        "Sections III and IV, typed into the method",
    ),
    Mark("II-A", "memory .*|TPU v3 over v2.*", "echo", "our catalogue"),
    Mark("II-A", "TPU v. chip", "computed", "our catalogue: clock times cells"),
    Mark("VI-B", "step time .*|MXU share v3 over v2", "computed", "Fig. 11's averages"),
    Mark("Fig. 10", "mean idle share, v3, from v2's", "computed", PIPELINE),
    Mark("Fig. 1[01]|VI-B", ".*predicted.*", "computed", "networks and data sets as published, our model of the chip"),
    Mark("VII-C", ".*", "one-sided", PIPELINE),
    Mark("Obs. [12]", ".*: (a limited|the three) .*", "one-sided", "a recorded run of our own"),
    Mark("Obs. 3", ".*", "echo", "Table II as printed"),
)


def run() -> list[ReproductionRow]:
    """Every number that the paper states, beside ours."""
    return marked(
        [
            *table_i(),
            *table_ii(),
            *method(),
            *chips(),
            *averages(),
            *predicted(),
            *reduced_data(),
            *tuner(),
            *observations(),
        ],
        MARKS,
    )
