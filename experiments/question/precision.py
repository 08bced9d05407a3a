"""A workload in a requested data type, as a machine computes it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import cached_rewrite
from slipstick.workloads.graph.cost import SIZE_BYTES
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import role_of
from slipstick.workloads.transforms.mixed import HALF
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
    from slipstick.estimators.gpu.programs.program_sides import rounds_convolutions
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
