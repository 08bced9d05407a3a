"""Speed-ups of one machine over another that was measured, the new one left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from slipstick.estimators.gpu.transfer.anchor_rows import Anchor, taken
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.gpu import gpu_data
from slipstick.experiments.scoreboards.gpu.gpu_scores import ENOUGH, thinned
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.catalog import machine

RATIOS = (("h100-sxm", "a100-pcie-80gb"), ("l4", "t4"))


ANCHORS = (
    Anchor("gemm.float32", {"m": 4096, "n": 4096, "k": 4096}),
    Anchor("elementwise.float32", {"elements": 2**26}),
)
"""Measured on the new machine first, where wanted; the rows nearest to them."""
TITLE = "speed-up, one machine measured"
DIMS = (*gpu_data.GEMM_DIMS, "elements", "reads", "rows", "columns")


def rows(boards: Sequence[OperationBoard]) -> list[ValidationRow]:
    """Speed-up of B over A, with A measured and B left out: errors of the ratio, and who wins."""
    scores = []
    for new, known in RATIOS:
        parts = [part for board in boards for part in _both(board, new, known)]
        if not parts:
            continue
        truth, plain, alone, anchored = (np.concatenate(values) for values in zip(*parts, strict=True))
        base = {"roofline": plain - truth}
        scores += _scores(f"{new} over {known}", new, truth, alone, base)
        base["no anchors"] = alone - truth
        scores += _scores(f"{new} over {known}, one product and one addition measured", new, truth, anchored, base)
    return scores


def _both(board: OperationBoard, new: str, known: str) -> Iterator[tuple[FloatArray, ...]]:
    """Log speed-ups of operations that both machines were measured at: measured, roofline, ours, ours with anchors."""
    if "file" not in board.training or board.kind == "convolution":
        return
    tested = board.training[board.training["file"].str.contains("test")]
    a, b = (tested[tested["machine"] == name] for name in (known, new))
    both = a.merge(b, on=[*(d for d in DIMS if d in tested), "OPName"], suffixes=("", "_new"))
    if len(both) < ENOUGH:
        return
    both = thinned(both)
    measured = both["time"].to_numpy()
    anchors = taken([form for form in board.forms if form.machine.name == machine(new).name], ANCHORS)[1]
    forms = [board.rows(new, both)]
    predicted = [board.forecast(new, (new,), measured_there).predict(forms).time for measured_there in ((), anchors)]
    plain = board.roofline(known, both) / board.roofline(new, both)
    ratios = measured / both["time_new"].to_numpy(), plain, *(measured / time for time in predicted)
    yield tuple(np.log(ratio) for ratio in ratios)


def _scores(
    case: str, new: str, truth: FloatArray, ours: FloatArray, others: Mapping[str, FloatArray]
) -> list[ValidationRow]:
    """Quantiles of the error of log speed-ups, and how often the right machine wins."""
    rows = []
    for share, metric, goal in ((0.5, "median |log ratio|", 0.08), (0.9, "90th percentile |log ratio|", 0.20)):
        error = float(np.quantile(np.abs(ours - truth), share))
        base = {name: float(np.quantile(np.abs(values), share)) for name, values in others.items()}
        rows.append(ValidationRow(TITLE, case, new, len(truth), metric, "1", error, base, goal, error <= goal))
    won = float(np.mean(np.sign(ours) == np.sign(truth)))
    return [*rows, ValidationRow(TITLE, case, new, len(truth), "right winner", "1", won, {}, 0.95, won >= 0.95)]
