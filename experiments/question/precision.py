"""A workload in a requested data type, as a machine computes it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.base.operation_shares import Parts
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import cached_rewrite
from slipstick.workloads.graph.cost import SIZE_BYTES
from slipstick.workloads.graph.kinds import family_of
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import role_of
from slipstick.workloads.transforms.mixed import HALF, MIXED
from slipstick.workloads.transforms.narrow import (
    as_multiplied,
    computed_in,
    is_narrow,
    narrow_products,
    number_type,
    wide_type,
)

NEURON = "aws-neuron"
"""Families of machines whose compiler casts products of float32 to bfloat16 by default."""


def in_type(workload: Workload, machine: Machine, dtype: str | None) -> Workload:
    """The workload in a data type as the machine computes it: narrow formats that it lacks are those of weights alone.

    Raises InputError where the data type is unknown, or a step that trains needs a format that the machine lacks.
    """
    has = multiplied(machine)
    if dtype is None:
        return as_multiplied(workload, has)
    return cached_rewrite(workload, f"in {dtype} of {sorted(has)}", lambda: computed_in(workload, dtype, has))


def multiplied(machine: Machine) -> Collection[str]:
    """Data types that the machine's matrix engine multiplies."""
    matrix = machine.engines.get("matrix")
    return frozenset(filter(matrix.rated, SIZE_BYTES)) if matrix is not None else frozenset()


def precision(workload: Workload, machine: Machine, dtype: str | None) -> Workload:
    """The workload in a data type, as PyTorch computes it on a GPU: autocast in training, TF32 in convolutions."""
    from slipstick.estimators.roofline.roofline import rounds_convolutions
    from slipstick.workloads.transforms.mixed import autocast, tf32_convolutions

    trains = "optimizer" in workload.kinds
    if dtype in HALF and trains:
        return cached_rewrite(workload, f"autocast {dtype}", lambda: autocast(workload, dtype))
    if dtype is not None and is_narrow(number_type(dtype)) and trains:
        has = multiplied(machine)
        return narrow_products(autocast(workload, wide_type(has)), number_type(dtype), has)
    converted = in_type(workload, machine, dtype)
    rounds = rounds_convolutions(machine) and dtype in (None, "float32")
    if not rounds:
        return converted
    return cached_rewrite(converted, "tf32 convolutions", lambda: tf32_convolutions(converted))


def on_accelerator(workload: Workload, machine: Machine, dtype: str | None) -> Workload:
    """The workload in a data type, as an accelerator's compiler makes it: AWS Neuron's casts products of float32."""
    from slipstick.workloads.transforms.mixed import cast_products

    converted = in_type(workload, machine, dtype)
    casts = (machine.family or "").startswith(NEURON) and dtype in (None, "float32")
    return cast_products(converted) if casts and "tfloat32" in multiplied(machine) else converted


def in_served_type(workload: Workload, machine: Machine, dtype: str | None) -> Workload:
    """A decoder as serving engines quantise it: with a narrow type, its output layer stays in 16 bits.

    Raises InputError where the data type is unknown.
    """
    converted = in_type(workload, machine, dtype)
    if dtype is None or not is_narrow(number_type(dtype)):
        return converted
    wide = {op.name: op for op in in_type(workload, machine, wide_type(multiplied(machine)))}
    return replace(converted, operations=tuple(wide[op.name] if role_of(op) == "output" else op for op in converted))


TENSOR_FLOAT, MATTERS = "tfloat32", 1.5
"""Factor of the time from which a setting of PyTorch's is named with the work."""


def type_settings(workload: Workload, machine: Machine, answer: Estimate) -> list[str]:
    """What PyTorch chose of the types of products, where the other choice moves the time by more than 1.5 x.

    Counted are products that arithmetic bounds, by the ratio of the peaks; a time of which the host is the longer side
    moves where the device becomes it.
    """
    matrix = machine.engines.get("matrix")
    if matrix is None or not matrix.rated(TENSOR_FLOAT):
        return []
    plain = machine.peak("vector", "float32")
    places, firsts = workload.distinct.place.tolist(), workload.distinct.operations
    types = {name: firsts[place].dtype for name, place in zip(workload.names, places, strict=True)}
    seconds: dict[str, float] = {}
    parts = Parts.of(answer.parts)
    products = {kind: family_of(kind).product for kind in set(parts.kinds)}
    columns = parts.names, parts.kinds, parts.bound_by, parts.contributions.tolist()
    for name, kind, bound_by, contribution in zip(*columns, strict=True):
        if bound_by == "compute" and products[kind]:
            named = types.get(name, "")
            seconds[named] = seconds.get(named, 0.0) + contribution
    ratios = {name: machine.peak("matrix", name) / plain for name in seconds if matrix.rated(name)}
    slower = {name: seconds[name] * (ratio - 1) for name, ratio in ratios.items()}
    faster = seconds.get("float32", 0.0) * (1 - plain / machine.peak("matrix", TENSOR_FLOAT))
    device, host = answer.sides.get("device", answer.time), answer.sides.get("host", 0.0)
    cast = sum(seconds for name, seconds in slower.items() if name in HALF and MIXED in workload.metadata)
    moved = {
        "TF32 off": device - faster,
        "TF32 in convolutions": device + slower.get(TENSOR_FLOAT, 0.0),
        "autocast": device + cast,
    }
    changes = {name: abs(math.log(max(other, host) / max(device, host))) for name, other in moved.items()}
    return [name for name, change in changes.items() if change > math.log(MATTERS)]
