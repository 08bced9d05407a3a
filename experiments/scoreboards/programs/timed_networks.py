"""Timed networks: rows of the public table beside the operations of their networks on the row's device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pandas as pd

from slipstick.common.array_types import FloatArray
from slipstick.experiments.scoreboards.programs.image_networks import names
from slipstick.experiments.scoreboards.programs.vision_law import (
    NetworkRow,
    Setting,
    network_row,
)
from slipstick.experiments.scoreboards.programs.vision_rows import setting_of
from slipstick.hwmodels.catalog import aliases, machine
from slipstick.hwmodels.catalog.names import exact


@dataclass(frozen=True, eq=False)
class TimedNetworks:
    """Rows with their networks, None where one was not traced."""

    frame: pd.DataFrame
    networks: tuple[NetworkRow | None, ...]

    @property
    def seconds(self) -> FloatArray:
        """Measured, shape (rows,)."""
        return self.frame["step_s"].to_numpy(dtype=float)


def catalogued(device: str) -> str:
    """The catalogue's name; "" where it has none."""
    return exact(device, aliases()) or ""


@lru_cache(maxsize=2048)
def _network(model: str, pixels: int, batch: int, setting: Setting, device: str) -> NetworkRow | None:
    return network_row(model, pixels, batch, setting, machine(device)) if (model, pixels) in names() else None


def timed_networks(frame: pd.DataFrame) -> TimedNetworks:
    """Rows of one device of the catalogue with their networks."""
    device = catalogued(str(frame["device"].iloc[0]))
    made = tuple(
        _network(str(row["model"]), int(row["image"]), int(row["batch"]), setting_of(row), device)
        for _, row in frame.iterrows()
    )
    return TimedNetworks(frame.reset_index(drop=True), made)


def networks_of(frame: pd.DataFrame) -> TimedNetworks:
    """Rows of one or several devices of the catalogue with their networks."""
    made = [timed_networks(part) for _, part in frame.groupby("device", sort=True)]
    frames = pd.concat([one.frame for one in made], ignore_index=True)
    return TimedNetworks(frames, tuple(network for one in made for network in one.networks))
