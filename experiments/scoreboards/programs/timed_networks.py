"""Timed networks: rows of the public table beside the operations of their networks on the row's device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.programs.image_networks import names
from slipstick.experiments.scoreboards.programs.vision_law import (
    NetworkRow,
    Setting,
    fitted,
    network_row,
    packed,
)
from slipstick.experiments.scoreboards.programs.vision_rows import setting_of
from slipstick.hwmodels.catalog import aliases, machine
from slipstick.hwmodels.catalog.names import exact

ENOUGH = 30
"""Networks below which no law is fitted."""


@dataclass(frozen=True, eq=False)
class TimedNetworks:
    """Rows of one device and mode with their networks; `traced` marks those that have one."""

    frame: pd.DataFrame
    networks: tuple[NetworkRow | None, ...]

    @property
    def traced(self) -> npt.NDArray[np.bool_]:
        """Whether each row has a network, shape (rows,)."""
        return np.array([network is not None for network in self.networks], dtype=bool)

    @property
    def seconds(self) -> FloatArray:
        """Measured, shape (rows,)."""
        return self.frame["step_s"].to_numpy(dtype=float)

    def only(self, chosen: npt.NDArray[np.bool_]) -> TimedNetworks:
        """Those rows of which `chosen` is true."""
        kept = tuple(network for network, yes in zip(self.networks, chosen, strict=True) if yes)
        return TimedNetworks(self.frame[chosen].reset_index(drop=True), kept)

    def law(self) -> tuple[tuple[str, ...], LawFit] | None:
        """Fitted to those that have a network; None where none has."""
        there = self.only(self.traced)
        known = [network for network in there.networks if network is not None]
        return (
            fitted(known, there.seconds, there.frame["family"].astype(str).tolist()) if len(known) >= ENOUGH else None
        )

    def roofline(self) -> FloatArray:
        """Seconds by the roofline of each operation; not a number without a network."""
        known = [network for network in self.networks if network is not None]
        made = np.full(len(self.networks), np.nan)
        if known:
            made[self.traced] = packed(known).roofline()
        return made


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
