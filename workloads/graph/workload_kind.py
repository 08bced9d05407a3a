"""What kind of work a graph is of, whatever it is called: which models were made for it, what a time of it is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast, get_args

from slipstick.common.formatting import typed_shown
from slipstick.common.readers import unknown_name

if TYPE_CHECKING:
    from slipstick.workloads.graph.workload import Op, Workload

WorkloadKind = Literal[
    "kernel", "loop", "sparse product", "collective", "pipeline parallel", "data parallel", "requests", "training",
    "step", "training program", "program",
]  # fmt: skip
WHOLE: tuple[WorkloadKind, ...] = ("requests", "training")
"""Kinds of work that a law answers whole, without its operations."""
WORK = "work"
"""Field of the metadata in which a catalogue, an importer or a builder declares the kind."""
ROLE = "role"
"""Attribute of an operation: what it is in a step of a language model (output, router, experts.up, state)."""


def workload_kind(workload: Workload) -> WorkloadKind:
    """What the workload declares itself to be; where it declares nothing, what its operations show.

    "kernel" is timed by itself, "pipeline parallel" one device's share of a run that names its stages, "data parallel"
    one device's share of other work that speaks to others, "requests" what a language model's users send, "training" a
    step of training a language model under a layout, "step" one of serving it, "training program" a step of training
    that a runtime issues, and "program" all else.

    Raises InputError where it declares a kind that is none of these.
    """
    declared = workload.metadata.get(WORK)
    if declared is None:
        return _by_operations(workload)
    if declared not in get_args(WorkloadKind):
        kinds = sorted(get_args(WorkloadKind))
        raise unknown_name(f"kind of work in metadata {WORK!r} of workload {workload.name!r}", str(declared), kinds)
    return cast("WorkloadKind", declared)


def role_of(op: Op) -> str:
    """The part of a step that an operation plays: output, router, experts, state; "" where it declares none."""
    return str(op.attributes.get(ROLE, "")).partition(".")[0]


def program_kind(operations: Iterable[Op]) -> WorkloadKind:
    """What an importer declares of a program: whether it speaks to other devices, and whether it trains."""
    known = tuple(operations)
    if any(op.kind == "collective" for op in known):
        return "data parallel"
    trains = any(op.kind == "optimizer" or op.attributes.get("phase") == "backward" for op in known)
    return "training program" if trains else "program"


def _by_operations(workload: Workload) -> WorkloadKind:
    """The kind of a workload that declares none.

    A step of serving looks words up, multiplies, and finds the keys and values of all its attention in a cache.
    """
    from slipstick.workloads.graph.footprint import attends_to_cache  # not to list names

    operations = workload.distinct.operations
    kinds = {op.kind for op in operations}
    if operations and all("loop" in op.attributes for op in operations):
        return "loop"
    if "spmv" in kinds:
        return "sparse product"
    if kinds == {"collective"}:
        return "collective"
    if "pipeline_parallel" in workload.symbols | set(workload.defaults):
        return "pipeline parallel"
    cached = all(attends_to_cache(op) for op in operations if op.kind == "attention")
    kind = program_kind(operations)
    return "step" if kind == "program" and cached and {"gather", "gemm", "attention"} <= kinds else kind


def network_of(workload: Workload) -> str:
    """The network that a graph is a part or a run of: what its metadata says, else its name."""
    return str(workload.metadata.get("network", workload.name))


FIRST_INPUT = "first_input"
"""Field of a program's metadata: shape and type of its first input, as ``--input`` takes it."""
RUNS = {"training step": "training run"}
"""Many steps, where they have a word."""
MODES = {"graph_replay": "graphs"}
"""Modes of a runtime by the word that users write, where it is another."""


@dataclass(frozen=True)
class WorkTimed:
    """What a time is for, as the workload and the estimator say it.

    `name`: in the field's words: "training step", "forward pass", "decode step", "training run".
    `sizes`: how much of it, in words: "8 x 1,024 tokens".
    `types`: data types of its products.
    `examples`: how many examples it takes in; None where they are the batch.
    `steps`: how often the time holds what the workload says.
    `issued`: whether a runtime issues it operation by operation, so that its mode has a say.
    """

    name: str
    sizes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    examples: float | None = None
    steps: float = 1.0
    issued: bool = False

    def repeated(self, steps: float) -> WorkTimed:
        """The same so many times, as one run."""
        return self if steps == 1 else replace(self, name=RUNS.get(self.name, self.name), steps=steps)

    def text(self, mode: str = "", devices: int = 1) -> str:
        """In a line: ``training step, 8 x 1,024 tokens, float32, eager``.

        >>> WorkTimed("training step", ("8 x 1,024 tokens",), ("bfloat16",), issued=True).text("graph_replay", 8)
        'training step, 8 x 1,024 tokens, bfloat16, graphs, 8 devices'
        """
        run = (f"{typed_shown(self.steps)} steps of",) if self.steps != 1 else ()
        sizes = (" ".join((*run, *self.sizes[:1])), *self.sizes[1:]) if run else self.sizes
        how = (MODES.get(mode, mode),) if self.issued and mode else ()
        many = (f"{devices:,} devices",) if devices > 1 else ()
        return ", ".join((self.name, *sizes, *filter(None, [" and ".join(self.types)]), *how, *many))


def work_of(workload: Workload, numbers: Mapping[str, float]) -> WorkTimed:
    """One execution of a workload, at the sizes and numbers of the run that are known."""
    known = {**workload.defaults, **numbers}
    kind, operations = workload_kind(workload), workload.distinct.operations
    kinds = {op.kind for op in operations}
    if kind == "requests":
        return WorkTimed("requests", _lengths(known), _types(workload))
    if "image" in kinds:
        return _run_of_images(workload, known)
    if kind in ("kernel", "loop", "collective", "sparse product"):
        return WorkTimed({"loop": "kernel"}.get(kind, kind), _others(known), _types(workload))
    name = _pass(workload, kind)
    return WorkTimed(name, _amounts(workload, known, name), _types(workload), issued=kind != "training")


DECODE, PREFILL = "decode step", "prefill"


def _pass(workload: Workload, kind: WorkloadKind) -> str:
    """A training step, a decode step, the reading of prompts, or a forward pass: by the operations."""
    from slipstick.workloads.graph.footprint import attends_to_cache  # not to list names

    operations = workload.distinct.operations
    if kind == "training" or program_kind(op for op in operations if op.kind != "collective") == "training program":
        return "training step"
    if kind == "step" and any(map(attends_to_cache, operations)):
        return DECODE
    return PREFILL if "weights" in workload.metadata else "forward pass"


def _amounts(workload: Workload, known: Mapping[str, float], name: str) -> tuple[str, ...]:
    """The batch and the tokens of each of its sequences; of a program of fixed sizes its first input."""
    batch, length = known.get("batch", known.get("decodes")), known.get("seq_len", known.get("context"))
    length = length or known.get("prompt") or _stated(workload, "seq_len")
    if batch is None:
        shape = str(workload.metadata.get(FIRST_INPUT, "")).partition(":")[0]
        axes = [typed_shown(known[axis]) if axis in known else axis for axis in shape.split(",")]
        fixed = (f"input {' x '.join(axes)}",) if shape else _others(known) if length is None else ()
        return fixed or ((f"{typed_shown(length)} tokens",) if length else ())
    if not length:
        return (f"batch {typed_shown(batch)}",)
    if name == DECODE:
        return (f"batch {typed_shown(batch)}", f"{typed_shown(length)} tokens in cache")
    return (f"{typed_shown(batch)} x {typed_shown(length)} tokens",)


def _stated(workload: Workload, name: str) -> float | None:
    value = workload.metadata.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _lengths(known: Mapping[str, float]) -> tuple[str, ...]:
    """Tokens of a request, read and made, and how many users send them."""
    ends = [typed_shown(known[name]) for name in ("input_tokens", "output_tokens") if name in known]
    users = known.get("concurrency")
    whose = (_counted(users, "user"),) if users else ()
    whose = (f"{typed_shown(known['rate'])} requests/s",) if "rate" in known else whose
    return (*((f"{' + '.join(ends)} tokens each",) if ends else ()), *whose)


def _run_of_images(workload: Workload, known: Mapping[str, float]) -> WorkTimed:
    """A run over images, which its operations count: as often as there are epochs."""
    trains = any(op.attributes.get("lane") == "contended" for op in workload.distinct.operations)
    images, epochs = known.get("images", 1.0), known.get("epochs", 1.0)
    sizes = [f"{_counted(images, 'image')} x {_counted(epochs, 'epoch')}"]
    sizes += [f"{typed_shown(known['threads'])} threads"] if "threads" in known else []
    return WorkTimed("training run" if trains else "inference run", tuple(sizes), examples=images * epochs)


def _counted(count: float, name: str) -> str:
    return f"{typed_shown(count)} {name}{'s' * (count != 1)}"


def _others(known: Mapping[str, float]) -> tuple[str, ...]:
    """Sizes that have no words, by their names."""
    return tuple(f"{name} {typed_shown(value)}" for name, value in known.items())


def _types(workload: Workload) -> tuple[str, ...]:
    """Data types of the products, of all operations where there are none; how a step's weights are stored."""
    for stored in ("training", "weights"):
        if stored in workload.metadata:
            return (str(workload.metadata[stored]) + (" weights" if stored == "weights" else ""),)
    from slipstick.workloads.graph.kinds import family_of

    operations = workload.distinct.operations
    products = [op for op in operations if family_of(op.kind).product] or operations
    return tuple(dict.fromkeys(op.dtype for op in products if op.dtype))
