"""Whole products by the published network: seconds of blocks summed, held-out scatter, other processors by reuse."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from slipstick.common.arrays import read_arrays, text_fields
from slipstick.common.errors import InputError
from slipstick.estimators.sparse.reuse_model import LabelKind, label_kind
from slipstick.estimators.sparse.spmv_model import TRAINED, SpmvModel, load_spmv_model, trained_model
from slipstick.estimators.sparse.spmv_network import SpmvNetwork, load_net
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.blocks import network_input
from slipstick.workloads.kernels.sparse import SparseMatrix

HEAD_BYTES = 64_000_000
CHOSEN = "left-out matrices"
"""What the line that compares costs and network begins with."""
SAMPLED_BLOCKS = 4000
"""The network is evaluated at at most so many blocks of a matrix, evenly spread."""


@dataclass(frozen=True, eq=False)
class NetProducts:
    """A network of seconds a non-zero, evaluated for whole matrices.

    The network sees only distances between columns, of whole blocks: what is smaller than a block, and how much slower
    or faster another processor's core is, the reuse model of the same labels says.
    """

    net: SpmvNetwork

    def __post_init__(self) -> None:
        if self.net.quantity != "time":
            raise InputError(f"a network of {self.net.quantity}: products need a network of their time")
        if "unit" in self.net.provenance:
            raise InputError("a network of the published set has labels in the unit of its files, not in seconds")

    @property
    def label(self) -> LabelKind:
        """What a time means: "hot" or "streaming"; streaming where the network does not say."""
        return label_kind(str(self.net.provenance.get("label_kind", "streaming")))

    @property
    def method(self) -> str:
        """What kind of model answers, in a few words."""
        return "network of Table 2"

    @property
    def source(self) -> str:
        """Machine and date of the labels."""
        return f"network of Barreda et al. 2020, Table 2, {self.net.provenance.get('labels', 'labels unknown')}"

    @property
    def matrix_spread(self) -> float | None:
        """Standard deviation of log(predicted / measured) over matrices left out of training; None if none were."""
        known = self.net.provenance.get("matrix_spread")
        return None if known is None else float(known)

    @property
    def block(self) -> int:
        """Non-zeros of a block."""
        return self.net.shape.block

    @cached_property
    def reuse(self) -> SpmvModel:
        """The eight costs of the same kind of label that ship."""
        return trained_model(self.label)

    def matrix_seconds(self, matrix: SparseMatrix, machine: Machine | None = None) -> float:
        """Of one product: T = b sum t_i, the incomplete last block at the mean of the others (Section 4.1).

        With a machine: times what the reuse model says of its core against the one measured.
        Raises InputError where the matrix has fewer than two non-zeros, or the machine no cache.
        """
        blocks = self.reuse.blocks_of(matrix)
        here = self.reuse.reuse.seconds_per_nonzero(blocks)
        ratio = 1.0
        if machine is not None:
            ratio = float(self.reuse.reuse_on(machine).seconds_per_nonzero(blocks).mean() / here.mean())
        if matrix.nonzeros < self.block:
            return float(here.mean() * ratio * matrix.nonzeros)
        inputs = network_input(matrix, self.block)
        if len(inputs) > SAMPLED_BLOCKS:
            inputs = inputs[np.unique(np.linspace(0, len(inputs) - 1, SAMPLED_BLOCKS).astype(np.int64))]
        each = np.maximum(self.net.predict(inputs), 0.0)
        seconds = float(each.mean() * ratio * matrix.nonzeros)
        if not seconds > 0:
            raise InputError(f"matrix {matrix.name!r}: the network says {seconds:g} s: it was not trained on its like")
        return seconds


def shipped_net(label: LabelKind = "hot") -> NetProducts:
    """The network of Table 2 that ships, trained on measured labels.

    Raises InputError where none ships for this kind of label.
    """
    if not has_net(label):
        raise InputError(f"no network ships for {label} labels; train one: slipstick spmv train --method network")
    return NetProducts(load_net(_shipped(label)))


def has_net(label: LabelKind) -> bool:
    """Whether a network ships for this kind of label."""
    return _shipped(label).exists()


def better_of(label: LabelKind) -> tuple[SpmvModel | NetProducts, str]:
    """Of the costs with trees and the network that ship, the one of least held-out error, and a line that says so.

    The error is the standard deviation of log(predicted / measured) over matrices left out. Where no network ships for
    the label, the costs.
    Raises InputError where the label kind is unknown.
    """
    costs = trained_model(label)
    if not has_net(label):
        return costs, ""
    network = shipped_net(label)
    ours, other = costs.matrix_spread, network.matrix_spread
    if ours is None or other is None:
        return costs, ""
    text = f"{costs.method} {100 * ours:.2g} %, {network.method} {100 * other:.2g} %"
    first = network if other < ours else costs
    return first, f"{CHOSEN}, {label}: {text}; the better answers, both are shown"


def _shipped(label: LabelKind) -> Path:
    return TRAINED / f"spmv-net-{label}.npz"


def load_block_model(path: str | Path) -> SpmvModel | NetProducts:
    """A model of 'slipstick spmv train': costs with trees, or a network, whichever the file holds.

    Raises InputError where it is neither.
    """
    arrays = read_arrays(path, HEAD_BYTES, "SpMV model")
    schema = str(text_fields(arrays, "head", path).get("schema"))
    return NetProducts(load_net(path)) if schema.startswith("slipstick-spmv-net") else load_spmv_model(path)
