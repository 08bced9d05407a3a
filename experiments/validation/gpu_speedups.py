"""Speed-ups of one machine over another that was measured, the new one left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from estimators.formula import FloatArray
from experiments.rows import ValidationRow
from experiments.validation import gpu_data
from experiments.validation.gpu_boards import Board
from experiments.validation.gpu_scores import ENOUGH, thinned

RATIOS = (("h100-sxm", "a100-pcie-80gb"), ("l4", "t4"))


def rows(boards: Sequence[Board]) -> list[ValidationRow]:
    """Speed-up of B over A, with A measured and B left out: errors of the ratio, and who wins."""
    found = []
    for new, known in RATIOS:
        errors: list[FloatArray] = []
        plain: list[FloatArray] = []
        wins: list[FloatArray] = []
        for board in boards:
            if "file" not in board.training or board.kind == "convolution":
                continue
            dims = [
                d for d in board.training.columns if d in (*gpu_data.GEMM_DIMS, "elements", "reads", "rows", "columns")
            ]
            tested = board.training[board.training["file"].str.contains("test")]
            a, b = (tested[tested["machine"] == name] for name in (known, new))
            both = a.merge(b, on=[*dims, "OPName"], suffixes=("", "_new"))
            if len(both) < ENOUGH:
                continue
            both = thinned(both)
            truth = np.log(both["time"].to_numpy() / both["time_new"].to_numpy())
            speedup = np.log(both["time"].to_numpy() / board.predict(new, both, (new,)).time)
            errors.append(np.abs(speedup - truth))
            plain.append(np.abs(np.log(board.roofline(known, both) / board.roofline(new, both)) - truth))
            wins.append(np.sign(speedup) == np.sign(truth))
        if not errors:
            continue
        error, base, won = (np.concatenate(values) for values in (errors, plain, wins))
        title, case = "speed-up, one machine measured", f"{new} over {known}"
        for share, metric, goal in ((0.5, "median |log ratio|", 0.08), (0.9, "90th percentile |log ratio|", 0.20)):
            ours, baseline = float(np.quantile(error, share)), {"roofline": float(np.quantile(base, share))}
            found.append(ValidationRow(title, case, new, len(error), metric, "1", ours, baseline, goal, ours <= goal))
        share_won = float(np.mean(won))
        found.append(
            ValidationRow(title, case, new, len(won), "right winner", "1", share_won, {}, 0.95, share_won >= 0.95)
        )
    return found
