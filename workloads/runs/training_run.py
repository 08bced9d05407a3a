"""A whole training run of any training step: preparation, then training, validation and testing of images.

Source: Viebke et al. 2019, Figure 4 and Table V. There every thread takes one image at a time through its own instance
of the network; weights are shared. What is called an image is one sample of a batch: a sentence, a row.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Amount, Cost
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_kind import WORK

LANES = ("serial", "image", "parallel", "contended", "exchange")
NOT_FORWARD = ("backward", "optimizer")
LAYOUT = ("data_parallel", "tensor_parallel", "pipeline_parallel", "interleave", "microbatch", "shard")
SWITCHES = ("sequence_parallel", "overlap_gradients")
"""Symbols of a parallel layout: 1 is one device, one sample at a time, nothing shared out, and switched off."""
BACKWARD = (".backward", ".recompute", "_gradient", ".mean", "words.input", "words.weight", "update.")
"""In names of operations of a parallel layout that inference does without."""


def is_training_run(workload: Workload) -> bool:
    """Whether the operations already say how threads share them (attribute `lane`)."""
    return any(op.attributes.get("lane") in LANES for op in workload)


def weights_of(workload: Workload) -> float | None:
    """Weights of the network; None where neither its metadata nor an update of them says how many."""
    stated = workload.metadata.get("parameters")
    if stated is not None and not isinstance(stated, (str, tuple)):
        return float(stated)
    if not any(op.kind == "optimizer" for op in workload):
        return None
    updates = [op.dims["elements"] * op.times for op in workload.bound() if op.kind == "optimizer"]
    return float(sum(map(float, updates)))


def training_run(step: Workload, preparation: float = 0.0, exchanging: str = "") -> Workload:
    """The run of which `step` is one training step (or, without backward operations, one inference).

    Symbols of the run: `images` (trained an epoch), `validation_images`, `test_images`, `epochs`; their defaults make
    the step itself: its batch once, neither validated nor tested. `preparation` is instructions before the first epoch.

    `exchanging`: name of the function by which several nodes sum their weights ("all_reduce"), `exchanges` times an
        epoch over `nodes`; "" for one node.
    Raises InputError where the graph is one device's share of a parallel run and does not say of which layout, or its
    weights are needed and not known.
    """
    if "devices" in step.metadata or any(op.kind == "collective" for op in step):
        step = _of_one_device(step)
    batch = step.defaults.get("batch", 1) if "batch" in step.symbols else 1
    one = step.bind_known({"batch": 1})
    forward = _part(one, "forward", tuple(op for op in one if op.attributes.get("phase") not in NOT_FORWARD))
    trains = len(forward) < len(one)
    name = str(step.metadata.get("network", step.name))
    images, validated, tested = symbol("images"), symbol("validation_images"), symbol("test_images")
    epochs, before = symbol("epochs"), symbol("preparation")
    operations = [
        of_instructions("preparation", before + 2 * tested + 10 * epochs, "serial", name),
        of_instructions("image", 4, "image", name, images),
        of_images(
            "training" if trains else "inference", one, images * epochs, "contended" if trains else "parallel", name
        ),
        of_images("validation", forward, validated * epochs, "parallel", name),
        of_images("testing", forward, tested * epochs, "parallel", name),
    ]
    defaults = {"images": batch, "validation_images": 0, "test_images": 0, "epochs": 1, "preparation": preparation}
    if exchanging:
        operations.append(_exchange(step, epochs, exchanging))
        defaults |= {"nodes": 1, "exchanges": 1}
    names = [op.name for op in operations]
    open_symbols = {name: value for name, value in step.defaults.items() if name != "batch"}
    weights = weights_of(step)
    known = {"parameters": weights} if weights is not None else {}
    facts = {fact: value for fact, value in step.metadata.items() if fact != WORK}  # of the step, which this is not
    return Workload(
        step.name,
        tuple(operations),
        tuple(pairwise(names)),
        FrozenDict({**open_symbols, **defaults}),
        FrozenDict({**facts, **known, "network": name}),
        step.uncounted,
    )


def _of_one_device(step: Workload) -> Workload:
    """A step of many devices as one device does all of it: nothing is shared out, and nothing goes over links.

    The layout is that of the symbols; a graph without them is of data-parallel replicas, if its collectives sum just
    what is updated.
    """
    alone = step.bind_known(dict.fromkeys((*LAYOUT, *SWITCHES), 1))
    if not step.symbols.intersection(LAYOUT):
        replicas = _replicas(step.bound())
        if replicas is None:
            raise InputError(
                f"workload {step.name!r} is one device's share of a parallel run and does not say of which: missing: "
                f"its layout as symbols ({', '.join(LAYOUT[:3])}), or the network without its layout"
            )
        alone = step.bind_known({"batch": replicas * symbol("batch")})
        alone = replace(alone, defaults=FrozenDict({"batch": 1, **step.defaults}))
    kept = tuple(_in_phase(op) for op in alone if op.kind != "collective")
    facts = {name: value for name, value in step.metadata.items() if name in ("parameters", "network")}
    return replace(_part(alone, "one-device", kept), name=step.name, metadata=FrozenDict(facts))


def _replicas(step: Workload) -> int | None:
    """How many replicas sum their gradients: none but sums, of as many elements as are updated."""
    sums = [op for op in step if op.kind == "collective"]
    over = {float(op.dims["participants"]) for op in sums}
    summed = sum(float(op.dims["elements"] * op.times) for op in sums)
    updated = sum(float(op.dims["elements"] * op.times) for op in step if op.kind == "optimizer")
    gradients = all(op.attributes.get("function") == "all_reduce" for op in sums)
    return (
        int(over.pop())
        if gradients and len(over) == 1 and summed == updated and "devices" not in step.metadata
        else None
    )


def _in_phase(op: Op) -> Op:
    """An operation of a parallel layout with its phase, which its name says."""
    if "phase" in op.attributes or not (op.kind == "optimizer" or any(part in op.name for part in BACKWARD)):
        return op
    return replace(op, attributes=FrozenDict({**op.attributes, "phase": "backward"}))


def _part(step: Workload, name: str, operations: tuple[Op, ...]) -> Workload:
    inside = {op.name for op in operations}
    edges = tuple(edge for edge in step.edges if inside.issuperset(edge))
    return replace(step, name=f"{step.name}-{name}", operations=operations, edges=edges)


def of_instructions(name: str, instructions: Amount, lane: str, network: str, times: Amount = 1) -> Op:
    """An operation of so many instructions, in one of `LANES`."""
    facts = FrozenDict[str | int | float | bool | tuple[object, ...] | None](lane=lane, measured_as=f"{network}/{name}")
    return Op(name, "host", cost=Cost({"instructions": instructions}), times=times, attributes=facts)


def of_images(name: str, body: Workload, times: Amount, lane: str, network: str, **counted: float) -> Op:
    """An operation that runs a graph for each image, in one of `LANES`, with amounts that were counted beside it."""
    facts = {"lane": lane, "measured_as": f"{network}/{name}"}
    if lane == "contended":
        facts["contention"] = str(body.metadata.get("contention", network))
    return Op(name, "image", cost=Cost({**body.cost, **counted}), times=times, attributes=FrozenDict(facts), body=body)


def _exchange(step: Workload, epochs: Amount, function: str) -> Op:
    weights = weights_of(step)
    if weights is None:
        raise InputError(
            f"workload {step.name!r}: nodes exchange weights, and neither metadata 'parameters' nor an operation of "
            "kind 'optimizer' says how many there are"
        )
    dims: dict[str, Amount] = {"elements": weights, "participants": symbol("nodes")}
    facts = {"function": function, "lane": "exchange"}
    return operation("exchange", "collective", dims, "float32", facts, times=symbol("exchanges") * epochs)
