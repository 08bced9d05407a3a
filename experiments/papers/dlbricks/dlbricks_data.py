"""The DLBricks authors' own timings as tables (rai-project/synthetic_benchmark; read through SLIPSTICK_DATA)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.common.readers import read_json
from slipstick.experiments.calibrate.public_data import scored_file, training_file

if TYPE_CHECKING:
    import pandas as pd

SEQUENCES = "dlbricks/sequences.csv.gz"
END_TO_END = "dlbricks/end_to_end.csv"
LAYERS = "dlbricks/layers_c5.2xlarge.csv.gz"
FIGURE_3 = "dlbricks/figure3_and_10_c5.2xlarge.json"
SEQUENCE_COLUMNS = ("instance", "G", "model", "rep", "start_index", "end_index", "trimmed_mean_us")


@dataclass(frozen=True, eq=False)
class Timings:
    """Composed and measured latencies in seconds.

    `composed`: rows (instance, model), one column a granularity: the sum of the sequences' trimmed means.
    `end_to_end`: by (instance, model): the whole model's trimmed mean.
    `single_layers`: the sequences of one layer: instance, model, start_index, seconds.
    `sequences`: all sequences: instance, model, G, start_index, layers, seconds.
    """

    composed: pd.DataFrame
    end_to_end: pd.Series[float]
    single_layers: pd.DataFrame
    sequences: pd.DataFrame


def timings(scored: Path | None = None) -> Timings | None:
    """The first sweep of every instance, without the one that has no name; None where a file is missing.

    Raises InputError where a column is missing.
    """
    import pandas as pd

    sequence_path, model_path = scored_file(SEQUENCES, scored), scored_file(END_TO_END, scored)
    if sequence_path is None or model_path is None:
        return None
    sequences, models = csv_frame(sequence_path), csv_frame(model_path)
    for path, frame, wanted in (
        (sequence_path, sequences, SEQUENCE_COLUMNS),
        (model_path, models, ("instance", "model")),
    ):
        missing = [name for name in wanted if name not in frame]
        if missing:
            raise InputError(f"{path}: no column {missing[0]!r} (columns: {', '.join(frame.columns)})")
    sequences = sequences[sequences.rep == 0]
    if "in_paper_50" in models:
        named = set(models[models.in_paper_50 == 1].model)
        sequences = sequences[sequences.model.isin(named)]
    models = models[models.instance != "unlabelled_root"]
    seconds = sequences.trimmed_mean_us * 1e-6
    grouped = seconds.groupby([sequences.instance, sequences.model, sequences.G]).sum()
    single = sequences[sequences.G == 1]
    return Timings(
        composed=grouped.unstack("G"),
        end_to_end=(models.set_index(["instance", "model"]).trimmed_mean_us * 1e-6).groupby(level=[0, 1]).first(),
        single_layers=pd.DataFrame(
            {
                "instance": single.instance,
                "model": single.model,
                "start_index": single.start_index,
                "seconds": single.trimmed_mean_us * 1e-6,
            }
        ),
        sequences=sequences[["instance", "model", "G", "start_index"]].assign(
            layers=sequences.end_index - sequences.start_index + 1, seconds=seconds
        ),
    )


def layers() -> pd.DataFrame | None:
    """The layers of the paper's 50 models: model_name, layer_index, kind, topology_hash, input_form."""

    path, models = training_file(LAYERS), training_file(END_TO_END)
    if path is None or models is None:
        return None
    table, named = csv_frame(path), csv_frame(models)
    return table[table.model_name.isin(set(named[named.in_paper_50 == 1].model))]


def figure_3() -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] | None:
    """Sequential and critical-path latency over end-to-end latency of the 50 models (Figures 3 and 10)."""
    path = training_file(FIGURE_3)
    if path is None:
        return None
    points = read_json(path)
    measured = np.array([point["mxnetTime"] for point in points])
    return {
        "sequential": np.array([point["seqentialTime"] for point in points]) / measured,
        "critical path": np.array([point["parallelTime"] for point in points]) / measured,
    }
