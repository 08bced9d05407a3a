"""Precision as PyTorch chooses it: automatic mixed precision, and TensorFloat-32 in convolutions.

Sources: PyTorch documentation, "Automatic Mixed Precision package", CUDA ops that autocast to float32 (softmax,
log_softmax, layer_norm, losses), and "CUDA semantics", TensorFloat-32 on Ampere (allowed in convolutions, not in matrix
products, unless requested).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slipstick.hwmodels.files.records import Table
from slipstick.workloads.graph.cost import SIZE_BYTES, Amount, Cost
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.dtype import in_dtype
from slipstick.workloads.transforms.fusion import CAST

KEPT = ("softmax", "norm")
HALF = ("float16", "bfloat16")
MIXED = "precision"
"""The fact of a workload that says which of these rewrites it has."""


def autocast(workload: Workload, dtype: str) -> Workload:
    """A training step under torch.autocast: products in `dtype`; softmax, layer norms and losses in float32.

    What enters or leaves them in the other type is converted by an operation of its own, which a compiler joins with
    its neighbours. Batch norms compute in float32 but read and write `dtype`, without a conversion.

    Raises
    ------
    InputError
        Where the data type is unknown.
    """
    narrow = in_dtype(workload, dtype)
    if dtype not in HALF:
        return narrow
    names: dict[str, tuple[str, str]] = {}
    operations: list[Op] = []
    for wide, small in zip(workload.operations, narrow.operations, strict=True):
        if not _kept(wide):
            operations.append(small)
            continue
        elements = wide.dims["elements"] if "elements" in wide.dims else wide.dims["rows"] * wide.dims["columns"]
        before, after = _converted(wide)
        head = [_cast(wide, elements, dtype, "float32")] if before else []
        tail = [_cast(wide, elements, "float32", dtype)] if after else []
        row = [*head, wide, *tail]
        names[wide.name] = (row[0].name, row[-1].name)
        operations += row
    edges = [(names.get(a, (a, a))[1], names.get(b, (b, b))[0]) for a, b in workload.edges]
    for op in workload.operations:
        if op.name in names:
            first_name, last_name = names[op.name]
            edges += [(first_name, op.name)] if first_name != op.name else []
            edges += [(op.name, last_name)] if last_name != op.name else []
    facts = Table({**narrow.metadata, MIXED: "autocast"})
    return replace(narrow, operations=tuple(operations), edges=tuple(dict.fromkeys(edges)), metadata=facts)


def tf32_convolutions(workload: Workload) -> Workload:
    """The same with float32 convolutions on the matrix units in TensorFloat-32, as PyTorch does where they can."""
    if not any(op.kind == "convolution" and op.dtype == "float32" for op in workload):
        return workload
    operations = tuple(
        in_dtype(Workload("one", (op,)), "tfloat32").operations[0]
        if op.kind == "convolution" and op.dtype == "float32"
        else op
        for op in workload.operations
    )
    facts = Table({**workload.metadata, MIXED: "tf32 convolutions"})
    return replace(workload, operations=operations, metadata=facts)


def precision_notes(facts: Mapping[str, object]) -> tuple[str, ...]:
    """In words, where a workload was rewritten here."""
    match facts.get(MIXED):
        case "autocast":
            return ("mixed precision as torch.autocast has it: softmax, layer norms and losses in float32",)
        case "tf32 convolutions":
            return ("convolutions in TF32, products in float32, as PyTorch by default",)
    return ()


def _kept(op: Op) -> bool:
    return op.kind in KEPT and op.dtype == "float32" and op.attributes.get("function") != "batch"


def _converted(op: Op) -> tuple[bool, bool]:
    """Whether what enters, and what leaves an operation in float32 is converted.

    The residual stream that enters a layer norm is float32 already; a loss takes the float32 of its log-softmax, and
    hands it back in the backward pass.
    """
    back = op.attributes.get("pass") == "backward"
    if op.kind == "norm":
        return back, True
    if str(op.attributes.get("function")).startswith("log_softmax"):
        return not back, back
    return True, True


def _cast(op: Op, elements: Amount, before: str, after: str) -> Op:
    """A conversion of all elements of `op`, on its way in or out."""
    name = f"{op.name}.{'in' if after == op.dtype else 'out'}_{after}"
    kept = {key: value for key, value in op.attributes.items() if key == "phase"}
    dims = {"elements": elements, "reads": elements, "writes": elements}
    made = operation(name, "elementwise", dims, after, {"function": CAST, **kept}, times=op.times)
    sizes = {"read": SIZE_BYTES[before] * elements, "written": SIZE_BYTES[after] * elements}
    return replace(made, cost=Cost({**made.cost, **sizes}))
