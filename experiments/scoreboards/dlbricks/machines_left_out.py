"""Whole networks on a machine left out: its sequences composed, and what other machines say of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.bricks.brick_law import (
    ComposedTime,
    TimedSequences,
    WholeLaw,
    call_seconds,
    carried,
    composed,
    repaired,
)
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import QUANTILE
from slipstick.estimators.fitting.group_effects_model import FloatArray, LawRows
from slipstick.estimators.fitting.prediction_bands import stretch
from slipstick.experiments.papers.dlbricks.dlbricks_data import Timings

if TYPE_CHECKING:
    import pandas as pd

SEQUENCE = ["model", "G", "start_index"]


@dataclass(frozen=True)
class TimedMachine:
    """The networks of one machine: composed of their sequences, and the whole ones' seconds."""

    name: str
    composed: dict[str, ComposedTime]
    whole: dict[str, float]

    @property
    def family(self) -> str:
        """Instances of one family are one processor in parts of different sizes: c5 of c5.large."""
        return self.name.partition(".")[0]

    @property
    def networks(self) -> list[str]:
        """Those both composed and measured as a whole."""
        return sorted(set(self.composed) & set(self.whole))


@dataclass(frozen=True, eq=False)
class ComposedModels:
    """Of one machine's networks: predicted seconds and half of the 80 % band of log time, beside the measured ones."""

    networks: list[str]
    seconds: FloatArray
    half: FloatArray
    measured: FloatArray


def machine_of(judged: Timings, name: str, references: pd.DataFrame) -> TimedMachine:
    """A machine's networks; sequences that failed are found by those of other machines (of any but itself)."""
    mine = judged.sequences[judged.sequences.instance == name]
    typical = _typical(references[references.instance != name]).reindex(_index(mine))
    seconds, elsewhere = (np.asarray(column, dtype=np.float64) for column in (mine.seconds, typical))
    mine = mine.assign(seconds=repaired(seconds, elsewhere, mine.model.tolist()))
    layers = mine.groupby(["model", "G"]).layers.transform("sum")
    whole = mine[layers == layers.groupby(mine.model).transform("max")]
    networks = {str(model): _timed(rows) for model, rows in whole.groupby("model")}
    call = call_seconds(list(networks.values()))
    measured = judged.end_to_end[judged.end_to_end.index.get_level_values(0) == name].droplevel(0).dropna()
    return TimedMachine(
        name,
        {model: composed(timed, call) for model, timed in networks.items()},
        {str(model): float(seconds) for model, seconds in measured.items()},
    )


def answers(target: TimedMachine, known: Sequence[TimedMachine]) -> ComposedModels:
    """The target's networks from what is known of other machines; its own whole networks are not read.

    The band holds what is unknown of the network, the family and the instance, and how far the granularities disagree;
    each known machine left out in turn says by which factor that falls short (`bands.stretch`).
    """
    seconds, half = _predicted(target, known)
    inner: list[tuple[TimedMachine, FloatArray, FloatArray]] = []
    for one in known if len(known) > 1 else ():
        inner.append((one, *_predicted(one, [other for other in known if other.name != one.name])))
    if inner:
        half = half * stretch(
            np.concatenate([seconds for _, seconds, _ in inner]),
            np.concatenate([width for _, _, width in inner]),
            np.concatenate([_measured(one) for one, _, _ in inner]),
            [one.name for one, _, _ in inner for _ in one.networks],
        )
    return ComposedModels(target.networks, seconds, half, _measured(target))


def _predicted(target: TimedMachine, known: Sequence[TimedMachine]) -> tuple[FloatArray, FloatArray]:
    law, rows, wanted = WholeLaw(), _rows(known), _rows([target])
    made = fit(law, rows)
    rest = np.log(rows.seconds / made.seconds(law, rows.columns, rows.groups))
    scatter, names = max(made.scatter.values()), np.array(rows.cluster)
    particular = np.array([carried(rest[names == network], scatter) for network in target.networks])
    errors = np.array([target.composed[network].error for network in target.networks])
    half = np.hypot(made.half_width(law, wanted.columns, wanted.groups), QUANTILE * errors)
    return made.seconds(law, wanted.columns, wanted.groups) * np.exp(particular), np.asarray(half)


def _rows(machines: Sequence[TimedMachine]) -> LawRows:
    cells = [(one, network) for one in machines for network in one.networks]
    return LawRows(
        {"composed": np.array([one.composed[network].seconds for one, network in cells])},
        {
            "family": [one.family for one, _ in cells],
            "instance": [one.name for one, _ in cells],
        },
        [network for _, network in cells],
        np.array([one.whole[network] for one, network in cells]),
        ["" for _ in cells],
    )


def _timed(rows: pd.DataFrame) -> TimedSequences:
    first = rows.start_index.to_numpy(dtype=np.intp)
    return TimedSequences(
        rows.G.to_numpy(dtype=np.intp),
        first - first.min(),
        rows.layers.to_numpy(dtype=np.intp),
        rows.seconds.to_numpy(dtype=float),
    )


def _measured(one: TimedMachine) -> FloatArray:
    return np.array([one.whole[network] for network in one.networks])


def _typical(others: pd.DataFrame) -> pd.Series[float]:
    """Geometric mean of the machines' times of each sequence."""
    return np.exp(np.log(others.seconds).groupby([others[name] for name in SEQUENCE]).mean())  # type: ignore[no-any-return]


def _index(sequences: pd.DataFrame) -> pd.MultiIndex:
    import pandas as pd

    return pd.MultiIndex.from_frame(sequences[SEQUENCE])
