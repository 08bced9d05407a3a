"""The project's own measurement of bricks: 35 models cut at G = 1, 3 and 5, every brick and every whole, two runs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import of_schema, read_csv_rows, read_json, read_number
from slipstick.common.records import FrozenDict, validated
from slipstick.experiments.measure.bricks.brick_store import Composition, MeasuredBricks
from slipstick.hwmodels.machine import Machine

FOLDER = Path(__file__).parent / "measured"
SMALL = FOLDER / "small_networks"
"""Thirteen networks of docs/own-network, of 0.1 to 10 ms, on another host, cut at G = 1 and 3."""
RUNS = (1, 2)
SCHEMA = "slipstick-bricks-1"


@dataclass(frozen=True)
class BundledBricks:
    """Two runs of the same measurement, and of which bricks the models are made, by granularity."""

    runs: tuple[MeasuredBricks, ...]
    models: FrozenDict[tuple[Composition, ...]]

    def at(self, granularity: int) -> tuple[Composition, ...]:
        """The models at a granularity that was measured (1, 3, 5)."""
        return self.models[str(granularity)]


def own_bricks(folder: Path = FOLDER) -> BundledBricks:
    """Read the measurement that ships with the project.

    Raises InputError where a file is missing or broken.
    """
    facts = of_schema(read_json(folder / "bricks.json"), SCHEMA, folder / "bricks.json")
    machine = validated(Machine, facts["machine"], f"{folder / 'bricks.json'}: machine")
    path = folder / "bricks.csv.gz"
    names: list[str] = []
    times: dict[str, list[float]] = {}
    for line, row in read_csv_rows(path, ["brick"]):
        names.append(row.pop("brick"))
        for column, text in row.items():
            times.setdefault(column, []).append(read_number(text, path, line, column) * 1e-6)
    runs = []
    for run in RUNS:
        references = times[f"reference_{run}_us"]
        middle = statistics.median(references)
        cold, warm = (
            FrozenDict(
                {
                    name: seconds * middle / reference
                    for name, seconds, reference in zip(names, times[f"{state}_{run}_us"], references, strict=True)
                }
            )
            for state in ("cold", "warm")
        )
        runs.append(MeasuredBricks(machine, facts["software"], facts["protocol"], cold, warm))
    return BundledBricks(tuple(runs), _models(folder / "brick_models.csv.gz", names))


def _models(path: Path, names: list[str]) -> FrozenDict[tuple[Composition, ...]]:
    models: dict[str, list[Composition]] = {}
    for line, row in read_csv_rows(path, ["model", "granularity", "whole", "bricks"]):
        try:
            counts = [
                (int(place), int(count or 1)) for place, _, count in (t.partition("x") for t in row["bricks"].split())
            ]
            bricks = FrozenDict({names[place]: count for place, count in counts})
            whole = names[int(row["whole"])]
        except (ValueError, IndexError):
            raise InputError(f"{path}: line {line}: want places of bricks, as '17 4x3'") from None
        models.setdefault(row["granularity"], []).append(Composition(row["model"], whole, bricks))
    return FrozenDict({granularity: tuple(compositions) for granularity, compositions in models.items()})
