"""A workload in another data type, as a rewrite of its operations."""

from __future__ import annotations

from dataclasses import replace

from slipstick.common.expressions import is_symbolic, sp
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount, Cost
from slipstick.workloads.graph.kinds import KINDS
from slipstick.workloads.graph.workload import Op, Workload

DTYPES = ("float64", "float32", "tfloat32", "bfloat16", "float16", "float8", "int8")
"""What a workload may compute in; tfloat32 is a format of matrix products alone, the rest is float32."""
SPELLINGS = {
    "fp64": "float64",
    "f64": "float64",
    "double": "float64",
    "fp32": "float32",
    "f32": "float32",
    "float": "float32",
    "single": "float32",
    "tf32": "tfloat32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "fp8": "float8",
    "f8": "float8",
    "e4m3": "float8",
    "e5m2": "float8",
    "i8": "int8",
}
"""Short names of data types, and what they mean."""
STORED, WIDE, OPERANDS = "narrow", "wide", "narrow_products"
"""Facts of a workload in a narrow format: which, what the rest is in, and how many products have it (`narrow`)."""
SCALED = ("read", "written", "link", "host.bytes")


def in_dtype(workload: Workload, dtype: str) -> Workload:
    """The workload with its floating-point operations in another data type, those inside macro operations too.

    Work is counted as that type's and bytes scale with its size. Updates of parameters stay as they are: frameworks
    keep master weights and optimizer state in float32 (Micikevicius et al., "Mixed Precision Training", ICLR 2018).
    Indices keep their size, integers and complex numbers their type.
    Raises InputError where the data type is unknown.

    Examples
    --------
    >>> from slipstick.workloads.layers.single import gemm
    >>> dict(in_dtype(Workload("product", (gemm("a", 8, 4, 2),)), "bfloat16").cost)
    {'flop.matrix.bfloat16': 128, 'read': 48, 'written': 64, 'launches': 1}
    """
    dtype = dtype_name(dtype)
    once = [rewritten(op, dtype) for op in workload.distinct.operations]
    places = workload.distinct.place.tolist()
    operations = tuple(
        replace(once[place], name=op.name, times=op.times)
        for op, place in zip(workload.operations, places, strict=True)
    )
    return replace(workload, operations=operations, metadata=FrozenDict({**workload.metadata, "dtype": dtype}))


def dtype_name(text: str) -> str:
    """A data type by its name or a short one: ``bf16``, ``fp8``, ``tf32``.

    Raises InputError where it is unknown.
    """
    name = SPELLINGS.get(text.lower(), text.lower())
    if name not in DTYPES:
        raise unknown_name("data type", text, [*DTYPES, *SPELLINGS])
    return name


def dtype_notes(workload: Workload) -> tuple[str, ...]:
    """In words, where a workload was rewritten: the data type, and that of the updates."""
    dtype = workload.metadata.get("dtype")
    if dtype is None:
        return ()
    updates = sorted({op.dtype for op in workload.distinct.operations if op.kind == "optimizer"})
    if STORED in workload.metadata:
        return (_narrow_note(workload),)
    return (f"in {dtype}" + (f", updates of master weights in {', '.join(updates)}" if updates else ""),)


def _narrow_note(workload: Workload) -> str:
    facts = workload.metadata
    stored, wide = str(facts[STORED]), str(facts[WIDE])
    count, _, why = str(facts[OPERANDS]).partition(", ")
    bits = f"{8 * SIZE_BYTES[stored]:.4g} bits a number with scales"
    products = f"{count} product{'s' * (count != '1')} of weights"
    if why or facts["dtype"] != stored or stored == "int4":
        return f"weights alone in {stored} ({products}, {bits}), widened and multiplied in {wide}" + (
            f": {why}" if why else ""
        )
    updates = sorted({op.dtype for op in workload if op.kind == "optimizer"})
    kept = f", updates of master weights in {', '.join(updates)}" if updates else ""
    return f"in {stored}: both operands of {products} ({bits}), results and all else in {wide}{kept}"


def rewritten(op: Op, dtype: str) -> Op:
    """One operation in another data type, by its name: see `in_dtype`."""
    body = in_dtype(op.body, dtype) if op.body else None
    if op.kind == "optimizer" or "float" not in op.dtype:
        return replace(op, body=body) if body else op
    indices = _index_bytes(op)
    amounts: dict[str, Amount] = {}
    for name, amount in op.cost.items():
        if name.startswith("flop."):
            name = _counted_as(name, op.dtype, dtype)
        elif name.startswith(SCALED):
            kept = indices if name == "read" else 0
            amount = _scaled(amount - kept, SIZE_BYTES[op.dtype], SIZE_BYTES[dtype]) + kept
        amounts[name] = amounts.get(name, 0) + amount
    return replace(op, dtype=dtype, cost=Cost(amounts), body=body)


def _index_bytes(op: Op) -> Amount:
    """Bytes of indices among those that an operation reads, as far as its kind says so."""
    kind = KINDS.get(op.kind)
    if kind is None or not set(kind.dims) <= set(op.dims):
        return 0
    work = kind.work(op.dims, op.attributes)
    return work.index_bytes if op.cost["read"] == work.cost(op.dtype)["read"] else 0


def _counted_as(name: str, before: str, dtype: str) -> str:
    """flop.UNIT.DTYPE in another data type; what is counted in a type of its own keeps it."""
    _, unit, counted = name.split(".")
    if counted != before and not (before == "tfloat32" and counted == "float32"):
        return name
    return f"flop.{unit}.{'float32' if dtype == 'tfloat32' and unit != 'matrix' else dtype}"


def _scaled(amount: Amount, before: float, after: float) -> Amount:
    if is_symbolic(amount):
        return amount * sp.Rational(after) / sp.Rational(before)
    scaled = amount * after / before
    return int(scaled) if isinstance(amount, int) and scaled == int(scaled) else scaled
