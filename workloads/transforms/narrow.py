"""Narrow number formats as the field uses them: the operands of products of weights, or the weights alone.

FP8, MXFP8 and FP4 are formats of the operands of linear layers (NVIDIA Transformer Engine user guide, "FP8 and FP4
primer"; OCP Microscaling Formats specification v1.0; vLLM documentation, "Quantization", W8A8 and W4A4): both operands
of a product are narrow, the accumulated result leaves with 16 bits, and attention, softmax, norms, activations and
convolutions stay in 16 bits. What rounds activations is taken to be part of the operation before, as compilers and
serving engines have it. Where no engine multiplies the format, and for int4 everywhere, weights alone are stored in it
and widened on the way into a 16-bit product (W4A16, W8A16: Frantar et al., MARLIN, PPoPP 2025).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import BLOCK_SCALED, RATED_AS, SIZE_BYTES, Cost, is_floating, result_bytes
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.dtype import (
    DTYPES,
    OPERANDS,
    SPELLINGS,
    STORED,
    WIDE,
    dtype_name,
    in_dtype,
    rewritten,
)

OPERAND_TYPES = ("float8", "float8_block", *BLOCK_SCALED)
"""Formats of both operands of a product."""
WEIGHTS = "_weights"
"""Ends the name of a format that weights alone are stored in."""
WEIGHT_TYPES = (*(f"{name}{WEIGHTS}" for name in OPERAND_TYPES), "int4")
_SPELLINGS = {
    **{short: name for short, name in SPELLINGS.items() if name == "float8"},
    "float8": "float8",
    "fp8_block": "float8_block",
    "fp4": "nvfp4",
    "float4": "nvfp4",
    "int4_weights": "int4",
    "fp8_weights": "float8_weights",
    "fp8_block_weights": "float8_block_weights",
}
PLAIN_WEIGHTS = ("bf16", "fp16", "fp32")


def number_type(text: str) -> str:
    """The name of a data type to compute in, narrow formats included: ``fp4`` is nvfp4, ``bf16`` bfloat16.

    Raises InputError where it is unknown.

    Examples
    --------
    >>> number_type("fp8_block"), number_type("INT4"), number_type("bf16")
    ('float8_block', 'int4', 'bfloat16')
    """
    name = _SPELLINGS.get(text.lower(), text.lower())
    if name in OPERAND_TYPES or name in WEIGHT_TYPES:
        return name
    try:
        return dtype_name(text)
    except InputError:
        known = dict.fromkeys([*DTYPES, *OPERAND_TYPES, *WEIGHT_TYPES, *SPELLINGS, *_SPELLINGS])
        raise unknown_name("data type", text, list(known)) from None


def is_narrow(dtype: str) -> bool:
    """Whether a data type (by its name) is one of operands or weights of products alone."""
    return dtype in OPERAND_TYPES or dtype in WEIGHT_TYPES


def computed_in(workload: Workload, dtype: str, has: Collection[str] | None = None) -> Workload:
    """The workload in any data type: all of it in a plain one (`in_dtype`), products of weights in a narrow one.

    `has`: data types that the machine's matrix engine multiplies; None where no machine is known.
    Raises InputError where the data type is unknown or cannot be used for this workload (see `narrow_products`).

    Examples
    --------
    >>> from slipstick.workloads.layers.single import gemm
    >>> dict(computed_in(Workload("product", (gemm("a", 64, 32, 16),)), "nvfp4").cost)
    {'flop.matrix.nvfp4': 65536, 'read': 864.0, 'written': 4096, 'launches': 1}
    """
    name = number_type(dtype)
    if not is_narrow(name):
        return in_dtype(workload, name)
    return narrow_products(in_dtype(workload, wide_type(has)), name, has)


def wide_type(has: Collection[str] | None = None) -> str:
    """The 16-bit type of everything that stays wide: bfloat16 but where an engine has float16 alone."""
    return "float16" if has is not None and "bfloat16" not in has and "float16" in has else "bfloat16"


def narrow_products(workload: Workload, dtype: str, has: Collection[str] | None = None) -> Workload:
    """A workload in 16 bits with the products of its weights in a narrow format (see the module).

    `workload`: in a 16-bit type already (`in_dtype`, `autocast`).
    `dtype`: a name of `number_type`.
    `has`: as of `computed_in`; where the format is not among them, weights alone are stored in it.
    Raises InputError where weights alone are narrow in a step that trains, or the workload's file stores them narrow
    already.
    """
    stored = dtype.removesuffix(WEIGHTS)
    given = workload.metadata.get("weights", "bf16")
    if given not in PLAIN_WEIGHTS:
        raise InputError(f"data type {dtype} for {workload.name!r}: its weights are stored in {given} already")
    lacks = dtype in OPERAND_TYPES and has is not None and RATED_AS.get(dtype, dtype) not in has
    alone = lacks or dtype in WEIGHT_TYPES
    if alone and any(op.kind == "optimizer" for op in workload):
        known = ", ".join(sorted(has or ())) or "none"
        reason = f"no engine of the machine multiplies {stored} (known: {known})" if lacks else "weights alone"
        raise InputError(f"data type {dtype} for {workload.name!r}: {reason}; a step that trains needs both operands")
    operations = tuple(_narrow(op, stored, alone=alone) for op in workload.operations)
    count = sum(new is not old for new, old in zip(operations, workload.operations, strict=True))
    facts = {"dtype": dtype, STORED: stored, WIDE: wide_type(has), OPERANDS: f"{count}"}
    if lacks:
        facts[OPERANDS] += f", no engine here multiplies {stored}"
    return replace(workload, operations=operations, metadata=FrozenDict({**workload.metadata, **facts}))


def as_multiplied(workload: Workload, has: Collection[str]) -> Workload:
    """A workload written down with narrow products (a served model's): those that a machine lacks become wide.

    Float32 weights of a served model, multiplied in TF32, are multiplied in float32 where the machine lacks that.
    """
    wide = wide_type(has)
    if workload.metadata.get("weights") == "fp32" and "tfloat32" not in has:
        other = {"tfloat32": "float32", "bfloat16": wide}
        plain = (rewritten(op, other[op.dtype]) if op.dtype in other else op for op in workload.operations)
        return replace(workload, operations=tuple(plain))
    lacked = {
        op.dtype
        for op in workload.distinct.operations
        if op.dtype in OPERAND_TYPES and RATED_AS.get(op.dtype, op.dtype) not in has
    }
    if not lacked:
        return workload
    operations = tuple(_widened(op, wide) if op.dtype in lacked else op for op in workload.operations)
    count, stored = sum(op.dtype in lacked for op in workload), min(lacked)
    facts = {"dtype": f"{stored}{WEIGHTS}", STORED: stored, WIDE: wide}
    facts[OPERANDS] = f"{count}, no engine here multiplies {stored}"
    return replace(workload, operations=operations, metadata=FrozenDict({**workload.metadata, **facts}))


def _widened(op: Op, wide: str) -> Op:
    rated = RATED_AS.get(op.dtype, op.dtype)
    cost = Cost({name.replace(f".{rated}", f".{wide}"): amount for name, amount in op.cost.items()})
    return replace(op, dtype=wide, cost=cost, attributes=FrozenDict({**op.attributes, "weights": op.dtype}))


def multiplies_weights(op: Op) -> bool:
    """Whether an operation is a product with weights: several products at once are those of attention or experts."""
    return op.kind == "gemm" and is_floating(op.dtype) and (op.dims["batch"] == 1 or "expert" in op.name)


def _narrow(op: Op, stored: str, *, alone: bool) -> Op:
    if op.body is not None or not multiplies_weights(op):
        return op
    d, before = op.dims, SIZE_BYTES[op.dtype]
    saved = before - SIZE_BYTES[stored]
    weights, inputs = d["batch"] * d["m"] * d["k"], d["batch"] * d["k"] * d["n"]
    amounts = dict(op.cost)
    amounts["read"] = amounts["read"] - saved * (weights if alone else weights + inputs)
    if alone:
        return replace(op, cost=Cost(amounts), attributes=FrozenDict({**op.attributes, "weights": stored}))
    amounts["written"] = amounts["written"] - (before - result_bytes(stored)) * (d["batch"] * d["m"] * d["n"])
    rated = RATED_AS.get(stored, stored)
    renamed = {
        name.replace(f".{op.dtype}", f".{rated}") if name.startswith("flop.") else name: amount
        for name, amount in amounts.items()
    }
    return replace(op, dtype=stored, cost=Cost(renamed))
