"""Branches of a model on the values of tensors, which nothing here computes: both ways are recorded and compared.

A warning about padding (``if (ids == pad).any(): warn()``) does the same work either way. A mask left out where all of
it is one, a layer dropped at random, do not: then the way of more work stands, and an assumption names the branch.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import torch
from slipstick.workloads.graph.assembly import ImportedNode, assemble
from slipstick.workloads.graph.workload import Workload

MAX_READS = 500  # of one recording: 64 layers read once each; more is a loop that ends by values
MAX_BRANCHES = 8  # places in the code, each of which costs one recording more
DECIDED = "condition on values"
"""How an assumption about such a branch begins."""


class BranchRecording(Protocol):
    """What one recording gives."""

    @property
    def nodes(self) -> tuple[ImportedNode, ...]:
        """Its operations."""


R = TypeVar("R", bound=BranchRecording)


class Branches:
    """The truth values given to one recording, by place in the code ("model.py:12"); False where nothing is decided."""

    def __init__(self, decided: Mapping[str, bool] | None = None) -> None:
        self._decided = dict(decided or {})
        self._reads = 0
        self.met: dict[str, bool] = {}

    def read(self) -> bool:
        """What a truth value read in the code that runs now is taken for.

        Raises InputError where one recording reads so many that it is a loop.
        """
        self._reads += 1
        place = _place()
        if self._reads > MAX_READS:
            raise InputError(
                f"a loop at {place} ends by values of tensors, which are not computed here: give it a fixed length"
            )
        return self.met.setdefault(place, self._decided.get(place, False))


def decided_branches(record: Callable[[Branches], R], values: Mapping[str, int]) -> tuple[R, Branches, tuple[str, ...]]:
    """The recording of most work among the ways of a model's branches on values, its branches, and assumptions.

    Each branch is turned by itself. A way that the model ends by an error of its own is none (a check of the inputs).

    `record`: records the model with the given truth values.
    `values`: example sizes, at which the work of two ways is compared (flop, then bytes).
    Raises InputError where a way cannot be recorded for another reason, or there are more than `MAX_BRANCHES` branches.
    """
    best, way = _first_way(record)
    turned: set[str] = set()
    notes: dict[str, str] = {}
    while left := [place for place in way.met if place not in turned]:
        place = left[0]
        turned.add(place)
        if len(turned) > MAX_BRANCHES:
            raise InputError(
                f"more than {MAX_BRANCHES} branches on the values of tensors ({', '.join(sorted(turned))}): "
                "hand over a function without them"
            )
        other_way = Branches({**way.met, place: not way.met[place]})
        try:
            with _silent():
                other = record(other_way)
        except InputError as error:
            if not _of_the_model(error):
                raise
            notes[place] = "else the model ends in an error"
            continue
        if other.nodes == best.nodes:
            continue
        if _work(other, values) > _work(best, values):
            best, way = other, other_way
        notes[place] = "the way of more work"
    met = way.met
    return best, way, tuple(f"{DECIDED} at {p} is {met[p]} ({why})" for p, why in notes.items() if p in met)


def _first_way(record: Callable[[Branches], R]) -> tuple[R, Branches]:
    """A way that the model does not end by an error: the last undecided branch before one is turned."""
    decided: dict[str, bool] = {}
    while True:
        way = Branches(decided)
        try:
            with _silent() if decided else contextlib.nullcontext():
                return record(way), way
        except InputError as error:
            undecided = [place for place in way.met if place not in decided]
            if not undecided or len(decided) >= MAX_BRANCHES or not _of_the_model(error):
                raise
            decided = {**way.met, undecided[-1]: True}


def _of_the_model(error: InputError) -> bool:
    """Whether the model raised it itself: not torch for want of values, nor the recorder."""
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        UnsupportedFakeTensorException,
        UnsupportedOperatorException,
    )
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    for_want_of_values = (
        DataDependentOutputException,
        DynamicOutputShapeException,
        UnsupportedFakeTensorException,
        UnsupportedOperatorException,
        GuardOnDataDependentSymNode,
    )
    return error.__cause__ is not None and not isinstance(error.__cause__, for_want_of_values)


def _work(recording: BranchRecording, values: Mapping[str, int]) -> tuple[float, float]:
    """Flop and bytes at the example sizes."""
    graph = assemble(recording.nodes)
    cost = Workload("way", graph.operations, graph.edges, uncounted=graph.uncounted).bind_known(values).cost
    return float(cost.flop), float(cost["read"] + cost["write"])


def _place() -> str:
    """File and line of the code that reads a value: the innermost that is neither torch's nor the recorder's."""

    beneath: Sequence[Path] = (Path(torch.__file__).parent, Path(__file__).parent)
    frame = sys._getframe(1)
    while frame.f_back is not None and any(Path(frame.f_code.co_filename).is_relative_to(p) for p in beneath):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """What a model has to say of values that it does not have is not shown."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
