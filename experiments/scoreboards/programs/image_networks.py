"""Operations of timm's image networks, for any batch: traced once with torch and timm, kept here as numbers.

`python -m slipstick.experiments.scoreboards.programs.image_networks TABLE.csv.gz` traces the networks of a table
that are not kept yet (it needs timm and torch; no weights are loaded: networks are built on torch's meta device).
Source of the networks: huggingface/pytorch-image-models (timm 1.0.31, Apache-2.0).
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.common.readers import read_json
from slipstick.common.writer import atomic_write
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Workload

KEPT = Path(__file__).parent / "image_networks.json.gz"
LIMIT_BYTES = 200_000_000
BATCHES = (2, 5)
"""Batches of the two traces: every dimension of an image network is affine in the batch."""


@lru_cache(maxsize=1)
def _kept() -> Mapping[str, Any]:
    document: Mapping[str, Any] = read_json(KEPT, LIMIT_BYTES)
    return document


def names() -> frozenset[tuple[str, int]]:
    """The networks that are kept: (name, pixels of a side)."""
    return frozenset((name, int(size)) for name, _, size in (key.rpartition("@") for key in _kept()["networks"]))


def image_network(name: str, pixels: int, batch: int) -> Workload:
    """The forward pass of a network, in float32 and evaluation mode, at a batch.

    Raises InputError where the network is not kept at that size.
    """
    known = _kept()["networks"]
    if (key := f"{name}@{pixels}") not in known:
        raise InputError(f"network {name!r} at {pixels} pixels: not traced")
    shapes = _kept()["shapes"]
    operations = []
    for place, (index, times, *called) in enumerate(known[key]["operations"]):
        kind, dtype, dims, attributes = shapes[index]
        sizes = {dim: ends[0] + (ends[1] - ends[0]) * (batch - BATCHES[0]) // 3 for dim, ends in dims.items()}
        facts = {fact: tuple(value) if isinstance(value, list) else value for fact, value in attributes.items()}
        operations.append(operation(f"{place}.{called[0] if called else kind}", kind, sizes, dtype, facts, times=times))
    edges = tuple((operations[a].name, operations[b].name) for a, b in known[key]["edges"])
    return Workload(name, tuple(operations), edges)


def pack(traces: Iterable[tuple[str, Sequence[Any], Sequence[tuple[str, str]]]]) -> dict[str, Any]:
    """Traces (key, operations, edges) as a document in which equal operations stand once.

    An operation is (name, kind, dtype, dims at both `BATCHES`, attributes, times). What it was called is kept where it
    works in place, since autograd saves less there.
    """
    shapes: dict[str, int] = {}
    networks = {}
    for key, operations, edges in traces:
        place = {entry[0]: at for at, entry in enumerate(operations)}
        listed = []
        for name, kind, dtype, dims, attributes, times in operations:
            shape = json.dumps([kind, dtype, dims, attributes], sort_keys=True)
            called = name.rpartition(".")[2].partition("#")[0]
            place_of = shapes.setdefault(shape, len(shapes))
            listed.append([place_of, times, *([called] if kind == "elementwise" and called.endswith("_") else ())])
        networks[key] = {"operations": listed, "edges": [[place[a], place[b]] for a, b in edges]}
    return {"shapes": [json.loads(shape) for shape in shapes], "networks": networks}


def traced(name: str, pixels: int) -> tuple[str, Sequence[Any], Sequence[tuple[str, str]]]:
    """One network as `pack` takes it: recorded at both batches, without weights.

    Raises InputError where timm is not installed, has no such network, or its operations differ between the two
    batches.
    """
    try:
        timm = import_module("timm")  # not among the dependencies: only tracing needs it
        import torch
    except ImportError as error:
        raise InputError(f"tracing image networks needs timm and torch: {error}") from None
    from slipstick.workloads.importers.torch.arguments import Input
    from slipstick.workloads.importers.torch.importer import import_torch

    with torch.device("meta"):
        model = timm.create_model(name)
        patches = getattr(model, "patch_embed", None)
        if getattr(patches, "img_size", None) not in (None, (pixels, pixels)):
            model = timm.create_model(name, img_size=pixels)
    one, other = (
        import_torch(model, [Input((batch, 3, pixels, pixels))], name, purpose="inference") for batch in BATCHES
    )
    if [op.name for op in one] != [op.name for op in other] or one.uncounted:
        raise InputError(f"network {name!r}: operations differ between batches, or are not counted: {one.uncounted}")
    operations = [
        (a.name, a.kind, a.dtype, {d: [int(a.dims[d]), int(b.dims[d])] for d in a.dims}, dict(a.attributes), a.times)
        for a, b in zip(one, other, strict=True)
    ]
    return f"{name}@{pixels}", operations, one.edges


def save(document: Mapping[str, Any], path: Path = KEPT) -> None:
    """Write a packed document; the same document gives the same bytes."""
    with atomic_write(path, "wb") as stream:
        stream.write(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))


def main() -> None:
    """Trace what a table names and is not kept yet; what cannot be traced is named on stderr."""
    frame = csv_frame(Path(sys.argv[1]))
    missing = sorted({(str(m), int(i)) for m, i in zip(frame["model"], frame["image"], strict=True)} - names())
    document = _kept()
    kept = [(key, *_unpacked(document, key)) for key in document["networks"]]
    for name, pixels in missing:
        try:
            kept.append(traced(name, pixels))
        except (InputError, RuntimeError) as error:
            print(f"{name} at {pixels}: {error}", file=sys.stderr)
    save(pack(kept))


def _unpacked(document: Mapping[str, Any], key: str) -> tuple[Sequence[Any], Sequence[tuple[str, str]]]:
    listed = document["networks"][key]
    operations = [
        (f"{at}.{called[0] if called else ''}", *document["shapes"][index], times)
        for at, (index, times, *called) in enumerate(listed["operations"])
    ]
    return operations, [(str(a), str(b)) for a, b in listed["edges"]]


if __name__ == "__main__":
    main()
