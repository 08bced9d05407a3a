"""A step's time from operators profiled on the very device (LLMServingSim's tables): interpolated, nothing fitted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.common.readers import read_csv_rows
from slipstick.estimators.engine_steps.step_amounts import Batch

FloatArray = npt.NDArray[np.float64]
_TWICE = ("layernorm",)
_ONCE = ("embedding", "final_layernorm")
_AXES = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")


class ProfiledStep:
    """Seconds of a step of one model on the profiled device.

    `folder`: of the three tables profile_dense, profile_attention and profile_per_sequence.
    `layers`: of the model.
    """

    def __init__(self, folder: Path, layers: int) -> None:
        self.layers = layers
        dense = _curves(folder / "profile_dense.csv.gz", "tokens")
        self.sequence = _curves(folder / "profile_per_sequence.csv.gz", "sequences")
        tokens = next(iter(dense.values()))[0]
        self.tokens = tokens
        self.each_layer = np.zeros(len(tokens))
        self.whole = np.zeros(len(tokens))
        for name, (at, seconds) in dense.items():
            values = np.interp(tokens, at, seconds)
            if name in _ONCE:
                self.whole += values
            else:
                self.each_layer += values * (2 if name in _TWICE else 1)
        self.attention = _Grid(folder / "profile_attention.csv.gz")

    def seconds(self, batch: Batch) -> float:
        """Seconds of a step."""
        layer = float(np.interp(batch.tokens, self.tokens, self.each_layer))
        whole = float(np.interp(batch.tokens, self.tokens, self.whole))
        scored = batch.decodes + batch.finished
        head = sum(float(np.interp(scored, at, seconds)) for at, seconds in self.sequence.values()) if scored else 0.0
        attention = self.attention.at((batch.prompt, batch.past, batch.decodes, batch.context))
        return self.layers * (layer + attention) + whole + head


def _curves(path: Path, axis: str) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Layer -> sizes and seconds."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for _, row in read_csv_rows(path, ("layer", axis, "time_s")):
        rows.setdefault(row["layer"], []).append((float(row[axis]), float(row["time_s"])))
    return {name: (np.array(sorted(pairs))[:, 0], np.array(sorted(pairs))[:, 1]) for name, pairs in rows.items()}


class _Grid:
    """Attention of a step by chunk and past of its prompts, and by number and context of its decodes.

    Multilinear between points of the profile, in log time over log sizes; where a corner was not profiled, the sum of
    its two halves times what mixing costs at the median.
    """

    def __init__(self, path: Path) -> None:
        rows = [
            tuple(float(row[name]) for name in (*_AXES, "time_s")) for _, row in read_csv_rows(path, (*_AXES, "time_s"))
        ]
        table = np.array(rows)
        self.axes = [np.unique(table[:, i]) for i in range(4)]
        self.values = np.full([len(axis) for axis in self.axes], np.nan)
        self.values[tuple(np.searchsorted(axis, table[:, i]) for i, axis in enumerate(self.axes))] = table[:, 4]
        self._fill()

    def _fill(self) -> None:
        """Points that were not profiled."""
        alone = {0: self.values[0, 0], 1: self.values[:, :, 0, 0]}  # decodes alone, prompts alone
        decodes, prompts = _filled(alone[0]), _filled(alone[1])
        both = prompts[:, :, None, None] + decodes[None, None, :, :]
        ratio = float(np.nanmedian((self.values / both)[1:, :, 1:, :]))
        self.values = np.where(np.isnan(self.values), both * ratio, self.values)
        self.values[0, :, :, :] = decodes[None]
        self.values[:, :, 0, :] = prompts[:, :, None]
        self.logs = np.log(np.maximum(self.values, 1e-9))

    def at(self, point: Sequence[float]) -> float:
        corners: list[list[tuple[int, float]]] = []
        for axis, value in zip(self.axes, point, strict=True):
            place = int(np.clip(np.searchsorted(axis, value) - 1, 0, len(axis) - 2))
            low, high = axis[place], axis[place + 1]
            share = (np.log1p(value) - np.log1p(low)) / (np.log1p(high) - np.log1p(low))
            if low == 0 and value > 0:  # no work and a little work are apart: stay with the least profiled
                share = 1.0
            share = float(np.clip(share, 0.0, 1.2))
            corners.append([(place, 1 - share), (place + 1, share)])
        total = 0.0
        for a, wa in corners[0]:
            for b, wb in corners[1]:
                for c, wc in corners[2]:
                    for d, wd in corners[3]:
                        weight = wa * wb * wc * wd
                        if weight:
                            total += weight * self.logs[a, b, c, d]
        return float(np.exp(total)) if point[0] or point[2] else 0.0


def _filled(table: FloatArray) -> FloatArray:
    """Missing points of a plane from the largest known one before them along its second axis."""
    filled = table.copy()
    for row in filled:
        known = np.flatnonzero(~np.isnan(row))
        row[:] = np.interp(np.arange(len(row)), known, row[known]) if len(known) else 0.0
    return np.asarray(filled, dtype=float)
