"""Public figures of whole models: the question, what was measured, and where that stands."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.common.readers import read_json, read_yaml
from slipstick.common.records import Record, validated
from slipstick.experiments.scoring.score import Data

if TYPE_CHECKING:
    import pandas as pd

FILE = Path(__file__).with_name("published_times.yaml")
MODES = {"eager": "eager", "compiled": "compiled", "graphs": "graph_replay"}


class Row(Record):
    """A row of the public measurements: the one where columns have given values, or the kernels of a trace.

    `column`, `scale`: where seconds stand, after multiplying.
    `rate_of`: the column is a rate [1/s] of so many things a question.
    `kernels`: "sum": seconds of all kernels of a trace.
    """

    file: str
    where: dict[str, str | float | int] = Field(default_factory=dict)
    column: str = ""
    scale: float = 1.0
    rate_of: float = 0.0
    kernels: Literal["", "sum"] = ""


class Figure(Record):
    """One published figure; see the head of figures.yaml."""

    id: str
    group: str
    workload: str
    machine: str
    source: str
    dtype: str | None = None
    mode: Literal["eager", "compiled", "graphs"] | None = None
    attention: Literal["flash"] | None = None
    set: dict[str, float] = Field(default_factory=dict)
    generate: tuple[int, int] | None = None
    seconds: float = 0.0
    rate: float = 0.0
    of: float = 0.0
    unit: str = ""
    data: Row | None = None

    def settings(self) -> list[str]:
        """What the question sets, as the command line writes it."""
        runtime = [f"machine.runtime.mode={MODES[self.mode]}"] if self.mode else []
        return [*(f"{name}={value:g}" for name, value in self.set.items()), *runtime]

    def measured(self, scored: Path | None = None) -> float:
        """Seconds.

        Raises InputError where its file or its row is missing.
        """
        if self.data is None and scored is not None:
            raise InputError("published; no file of it to score")
        if self.data is None:
            return self.seconds or self.of / self.rate
        path = Data(scored).judged(self.data.file)
        if self.data.kernels:
            events = read_json(path)["traceEvents"]
            return sum(float(event["dur"]) for event in events if event.get("cat") == "kernel") * 1e-6
        table = _table(path)
        for name, value in self.data.where.items():
            table = table[table[name] == value]
        if len(table) != 1:
            raise InputError(f"{self.data.file}: {len(table)} rows for {self.id}")
        value = float(table.iloc[0][self.data.column])
        return self.data.rate_of / value if self.data.rate_of else value * self.data.scale


class Source(Record):
    """Where a figure was published; `left_out` says why its figures are not scored, "" where they are."""

    name: str
    url: str
    left_out: str = ""


class Figures(Record):
    """The whole list."""

    schema_: Literal["slipstick-figures-1"] = Field(alias="schema")
    sources: dict[str, Source]
    figures: tuple[Figure, ...]


@cache
def figures() -> Figures:
    """The list as it was committed."""
    document: Any = read_yaml(FILE)
    return validated(Figures, document, str(FILE))


@cache
def _table(path: Path) -> pd.DataFrame:
    return csv_frame(path)
