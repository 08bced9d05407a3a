"""Bytes that lie in memory at the fullest moment of a training step, as PyTorch allocates and frees them.

A result is freed when nothing reads it any more and autograd did not save it; what was saved is freed after the last
backward operation that needs it; a gradient lives from the operation that makes it to the one that takes it.
Parameters, their gradients and the optimizer's state are not counted here: they lie there all the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from slipstick.common.size_column import Sized, largest
from slipstick.workloads.graph.saved import Taped, result_bytes, tape
from slipstick.workloads.graph.workload import Workload


def passing_bytes(workload: Workload) -> Sized:
    """Bytes of results at most at once where nothing is kept for a backward pass, as under ``no_grad``."""
    entries = tape(workload)
    sizes = {entry.made: result_bytes(entry.op) for entry in entries if entry.made}
    return _forward([replace(entry, saves={}) for entry in entries], sizes, {})[0]


def peak_bytes(workload: Workload) -> Sized:
    """Bytes of results, saved storages and gradients of results at most at once; sizes must be known, or columns.

    Examples
    --------
    Two dense layers: both inputs are saved (128 and 256 numbers); beside them lie the result and its gradient (32 each)
    and the gradient of the second's input (256).

    >>> from slipstick.workloads.layers.single import dense
    >>> two = Workload("two", (dense("a", 8, 16, 32), dense("b", 8, 32, 4)), (("a", "b"),))
    >>> peak_bytes(two) / 4
    704.0
    """
    entries = tape(workload)
    sizes = {entry.made: result_bytes(entry.op) for entry in entries if entry.made}
    kept: dict[str, Sized] = {}
    released: defaultdict[int, list[str]] = defaultdict(
        list
    )  # by the first operation that saved it: its backward is last
    for place, entry in enumerate(entries):
        for name, size in entry.saves.items():
            if name not in kept:
                released[place].append(name)
            kept[name] = size
    forward, alive = _forward(entries, sizes, kept)
    return largest(forward, _backward(entries, sizes, alive, released))


def _forward(
    entries: Sequence[Taped], sizes: Mapping[str, Sized], kept: Mapping[str, Sized]
) -> tuple[Sized, dict[str, Sized]]:
    """The most of the forward pass, and what is alive at its end."""
    last = {name: place for place, entry in enumerate(entries) for name in (*entry.reads, entry.made)}
    freed: defaultdict[int, list[str]] = defaultdict(list)
    for name, place in last.items():
        if name not in kept and name in entries[place].reads:  # what nobody reads is the answer, which stays
            freed[place].append(name)
    alive: dict[str, Sized] = {}
    live: Sized = 0.0
    most: Sized = 0.0
    for place, entry in enumerate(entries):
        new = {name: size for name, size in entry.saves.items() if name not in sizes and name not in alive}
        if entry.made:
            new[entry.made] = sizes[entry.made]
        alive |= new
        live = live + sum(new.values())
        most = largest(most, live)
        live = live - sum(alive.pop(name, 0.0) for name in freed[place])
    return most, alive


def _backward(
    entries: Sequence[Taped],
    sizes: Mapping[str, Sized],
    alive: dict[str, Sized],
    released: Mapping[int, Sequence[str]],
) -> Sized:
    """The most of the backward pass, which begins with what is alive at the end of the forward pass."""
    read = {name for entry in entries for name in entry.reads}
    gradients = {entry.made for entry in entries if entry.made and entry.made not in read and entry.saves}
    live = most = sum(alive.values()) + sum(sizes[name] for name in gradients)
    for place in reversed(range(len(entries))):
        entry = entries[place]
        if entry.op.kind == "view":
            continue
        made = [name for name in entry.grows if name not in gradients]
        added = (sizes[name] for name in entry.grows if name in gradients)  # to what is there
        again = reduce(largest, added, 0.0)
        live = live + sum(sizes[name] for name in made)
        gradients.update(made)
        most = largest(most, live + again)
        live = live - sum(alive.pop(name, 0.0) for name in released.get(place, ()))
        if entry.made in gradients:
            gradients.discard(entry.made)
            live = live - sizes[entry.made]
    return most
