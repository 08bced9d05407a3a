"""What follows from an estimate: throughput in the field's unit, model flop utilisation, memory, what bounds it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from slipstick.estimators.base.estimate import OVERLAP, WAITING, Estimate
from slipstick.estimators.composition.flop_utilisation import utilisation
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.experiments.question.memory_need import MemoryNeed, memory_need
from slipstick.experiments.question.question import Question
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import FLOP, family_of
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import DECODE, FIRST_INPUT, WorkTimed

HOST, INFEED, ARRAY = "host", "infeed", "array"
"""Bounds what a device waits for: the issue of its operations."""


@dataclass(frozen=True)
class Throughput:
    """So many things a question, and how many a second; of tokens also the sequences a second that they make."""

    items: float
    unit: str
    rate: float
    sequences: float | None = None


@dataclass(frozen=True)
class KindShare:
    """Operations of one kind: how many executions, seconds of the whole, share, and what bounds most of it."""

    kind: str
    count: float
    time: float
    share: float
    bound_by: str


@dataclass(frozen=True)
class Facts:
    """See the module; None where it is unknown.

    `mfu`: seconds that the matrix products would take at the peak rates that serve their data types, over the time:
        with one type the usual MFU. `mfu_of` names that peak, or says that they are several. Above 1 where an algorithm
        spares products that are counted: a V100 ran windows of 3 x 3 at 2.5 times its float32 peak (DeepBench).
    `bandwidth`: share of the main memory's bandwidth; None where caches serve what it could not.
    `bounds`: share of the time by what bounds it.
    """

    throughput: Throughput | None
    mfu: float | None
    mfu_of: str
    bandwidth: float | None
    memory: MemoryNeed | None
    groups: tuple[KindShare, ...]
    bounds: tuple[tuple[str, float], ...]


def facts(question: Question, answer: Estimate) -> Facts:
    """What follows from an answer."""
    if question.estimator.alone:  # a time of this host says nothing of the machine that is named
        return Facts(None, None, "", None, None, groups(answer), ())
    if answer.others:  # what a graph of operations would say, the answer says itself
        return Facts(None, None, "", None, None, groups(answer), bounds(answer))
    sizes = {**question.workload.defaults, **question.sizes, **question.run}
    bound = as_compiled(question.workload, question.machine).bind_known(sizes)
    known = not bound.symbols
    graph = question.estimator.model.graph(question.workload, question.machine)
    shared = "cores" in graph.metadata  # one core's share of a step
    work = question.work()
    time = answer.time / work.steps
    alone = shared or graph is question.workload
    whole = bound if alone else graph.bind_known({**graph.defaults, **sizes})  # a run of many steps
    known = known and not whole.symbols
    mfu, peak = utilisation(whole, question.machine, time) if known else (None, "")
    if mfu is not None and mfu > 1 and 0 < answer.least <= answer.time:
        peak += ", counting products that Winograd's transform or a mask spares"
    free = question.machine.runtime.free_kinds
    moved = sum(float(op.cost.bytes_moved * op.times) for op in whole if op.kind not in free) if known else 0.0
    there = question.machine.bandwidth(question.machine.main_memory) * time
    drawn = moved / there if there else 0.0
    return Facts(
        _throughput(question.workload, sizes, work, answer.time) or (_of_work(whole, answer.time) if known else None),
        mfu,
        peak,
        drawn if 0 < drawn <= 1 else None,
        memory_need(bound, question.machine, question.workload.bind_known(sizes)) if known else None,
        groups(answer),
        bounds(answer),
    )


def groups(answer: Estimate) -> tuple[KindShare, ...]:
    """Kinds of operations by their share of the time, largest first."""
    times: dict[str, float] = {}
    counts: dict[str, float] = {}
    sides: dict[str, dict[str, float]] = {}
    for part in answer.parts:
        if part.contribution <= 0:
            continue
        times[part.kind] = times.get(part.kind, 0.0) + part.contribution
        counts[part.kind] = counts.get(part.kind, 0.0) + part.times
        totals = sides.setdefault(part.kind, {})
        totals[part.bound_by or ""] = totals.get(part.bound_by or "", 0.0) + part.contribution
    order = sorted(times, key=lambda kind: -times[kind])
    bound_by = {kind: max(totals, key=totals.__getitem__) for kind, totals in sides.items()}
    return tuple(
        KindShare(kind, counts[kind], times[kind], times[kind] / answer.time, bound_by[kind]) for kind in order
    )


def bounds(answer: Estimate) -> tuple[tuple[str, float], ...]:
    """See `shares`; empty where no part says what bounds it."""
    return shares(answer) if any(part.bound_by for part in answer.parts) else ()


def shares(answer: Estimate) -> tuple[tuple[str, float], ...]:
    """Share of the time by what bounds it, largest first, 1 in all.

    A part of which only the kind is known stands under its kind.
    Where a host issues operations more slowly than the device works, the device's idle share is the host's.
    """
    busy = min(1.0, answer.metrics.get("device_busy", 1.0))
    left = {name: seconds for name, seconds in answer.remainder.items() if seconds > 0}
    if busy < 1.0:
        left.pop(WAITING, None)
    whole = sum(left.values()) + sum(part.contribution for part in answer.parts) or 1.0
    by_bound: dict[str, float] = {}
    for part in answer.parts:
        if part.contribution > 0:
            name = part.bound_by or part.kind
            by_bound[name] = by_bound.get(name, 0.0) + part.contribution
    for name, seconds in left.items():
        by_bound[name] = by_bound.get(name, 0.0) + seconds
    by_bound = {name: busy * seconds / whole for name, seconds in by_bound.items()}
    if busy < 1.0:
        by_bound[HOST] = by_bound.get(HOST, 0.0) + 1.0 - busy
    return tuple(sorted(by_bound.items(), key=lambda entry: -entry[1]))


IN_WORDS = {"collective": "link", "stream": "memory", "gather": "memory", "reading weights": "memory"}
"""What bounds a time, by the words of single models and by kinds of operations that say no more."""
WAITS = 0.05
"""Share of a step from which on a device that waits for its input is bound by it."""


def bound_of(machine: Machine, answer: Estimate) -> str:
    """What bounds most of a time, in one word: host, infeed, array, compute, memory, link ...; "" where nothing says.

    Work beside the longer side (`OVERLAP`) bounds nothing.
    """
    if answer.sides.get("host", 0.0) > answer.sides.get("device", math.inf):
        return HOST
    shares = {name: share for name, share in bounds(answer) if name != OVERLAP}
    if not shares:
        for part in answer.parts:
            shares[part.kind] = shares.get(part.kind, 0.0) + part.contribution / answer.time
    if (waits := answer.metrics.get("infeed", 0.0)) > WAITS:
        shares[INFEED] = max(waits, shares.pop(HOST, 0.0))
    words: dict[str, float] = {}
    engine = machine.engines.get("matrix")
    of_array = engine is not None and engine.rows and engine.columns
    for name, share in shares.items():
        word = "link" if name in machine.links else IN_WORDS.get(name.partition("_")[0], name)
        word = ARRAY if of_array and word == "compute" else word
        words[word] = words.get(word, 0.0) + share
    return max(words, key=words.__getitem__, default="")


def _throughput(workload: Workload, sizes: Mapping[str, float], work: WorkTimed, time: float) -> Throughput | None:
    """What the whole time is for, over it: the batch of a step as often as there are steps, or what a run takes in."""
    batch = sizes.get("batch", sizes.get("decodes"))  # a serving step's sequences that write a token
    batch = work.examples if work.examples is not None else batch
    if time <= 0:
        return None
    if batch is None:
        return _of_first_input(workload, sizes, time)
    batch *= work.steps
    if work.name == DECODE:
        items, unit = batch, "tokens"
    elif "seq_len" in sizes:
        items, unit = batch * sizes["seq_len"], "tokens"
    elif {"convolution", "image"}.intersection(workload.kinds):
        items, unit = batch, "images"
    else:
        items, unit = batch, "samples"
    return Throughput(items, unit, items / time, batch / time if items > batch else None)


def _of_first_input(workload: Workload, sizes: Mapping[str, float], time: float) -> Throughput | None:
    """Of a program whose sizes are fixed or the user's names: the first axis counts, of words every place."""
    text, _, dtype = str(workload.metadata.get(FIRST_INPUT, "")).partition(":")
    shape = [float(size) if size.isdigit() else sizes.get(size) for size in text.split(",")] if text else []
    if not shape or None in shape:
        return None
    known = [size for size in shape if size is not None]
    if dtype.startswith("int") and len(known) == WORDS:
        items, unit = known[0] * known[1], "tokens"
    elif len(known) >= IMAGES and "convolution" in workload.kinds:
        items, unit = known[0], "images"
    else:
        items, unit = known[0] if len(known) > 1 else 1.0, "tokens" if text.startswith("tokens,") else "samples"
    return Throughput(items, unit, items / time)


WORDS, IMAGES = 2, 4
"""Axes of an input of words (sequences, places), and at least of one of images."""


def _of_work(whole: Workload, time: float) -> Throughput | None:
    """Flop of products alone, bytes of streams alone."""
    kinds = {op.kind for op in whole}
    if len(kinds) != 1 or time <= 0:
        return None
    unit = family_of(*kinds).rated_in
    items = sum(float((op.cost.flop if unit == FLOP else op.cost.bytes_moved) * op.times) for op in whole)
    return Throughput(items, unit, items / time) if unit else None


def unit_of(question: Question) -> str:
    """What a question makes: tokens, images, samples; "" where the workload has no batch."""
    work, sizes = question.work(), {**question.workload.defaults, **question.sizes, **question.run}
    if work.examples is None and not {"batch"} & {*question.workload.symbols, *sizes}:
        return ""
    made = _throughput(question.workload, {**sizes, "batch": 1.0}, work, 1.0)
    return made.unit if made else ""


def items_of(question: Question, point: Mapping[str, float]) -> float:
    """How many of them at a point of free quantities (``workload.batch``, ``run.seq_len``)."""
    sizes = {**question.workload.defaults, **question.sizes, **question.run}
    free = {name.partition(".")[2]: value for name, value in point.items() if name.startswith(("workload.", "run."))}
    made = _throughput(question.workload, {**sizes, **free}, question.work(free), 1.0)
    return made.items if made else 0.0
