"""From a torch callable to a `Workload`: sizes named, calls read, edges drawn, specialised sizes interpolated.

Sizes that hang on values: how many tokens an expert gets, how many places a mask picks.

A trace without values gives each such size a symbol of its own (``u0``). Here each is the share of the mask that an
equal choice gives: what ``n`` masks of one size pick (one for each expert) is 1/n of it, times a load that stays open.

Sizes of torch's symbolic tracing as plain sympy over the user's own names.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.expressions import is_symbolic, sp, symbol
from slipstick.common.lazy_packages import torch
from slipstick.common.optional_packages import require_packages
from slipstick.common.records import FrozenDict
from slipstick.common.renamed_arguments import checked
from slipstick.workloads.graph.assembly import Assembly, ImportedNode, Piece, Tensor, assemble
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.work import product
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_kind import FIRST_INPUT, WORK, program_kind
from slipstick.workloads.importers.torch.arguments import Input, as_text, described, without_constants
from slipstick.workloads.importers.torch.aten import Call, read_call
from slipstick.workloads.importers.torch.fake_sizes import CompilerWantedError, FakeSizes
from slipstick.workloads.importers.torch.named_program import own_failure
from slipstick.workloads.importers.torch.recorder import (
    RecordedNode,
    as_on_gpus,
    before_compilation,
    fake_subject,
    make_recorder,
)
from slipstick.workloads.importers.torch.recurrent import recurrent_macros
from slipstick.workloads.importers.torch.value_branches import Branches, decided_branches

LOAD, SHARE = "expert_load", "selected_share"
"""Tokens of each expert over an equal share of them; places that a single mask picks over all of them."""
NOTES = {
    LOAD: "experts take equal shares of the tokens (expert_load = 1; the busiest: --expert-load 1.5)",
    SHARE: "masks pick every place (selected_share = 1; half of them: --selected-share 0.5)",
}
_OPEN = re.compile(r"u\d+$")


def counts(nodes: Sequence[RecordedNode]) -> dict[str, sp.Expr]:
    """What stands for each size that hangs on values, in the sizes of the trace and `LOAD` or `SHARE`."""
    picked: dict[str, Any] = {}
    for node in nodes:
        if node.call is None:
            continue
        for result in _tensors(node.call.results):
            for name in {str(size) for size in result.shape if _OPEN.match(str(size))} - set(picked):
                picked[name] = _places(node.call.arguments)
    known = {name: places for name, places in picked.items() if places is not None and not _is_open(places)}
    alike = Counter(known.values())
    return {
        name: sp.ceiling(symbol(LOAD if alike[places] > 1 else SHARE) * places / alike[places])
        for name, places in known.items()
    }


def open_loads(sizes: Mapping[str, sp.Expr]) -> tuple[str, ...]:
    """Which of `LOAD` and `SHARE` stand in the sizes."""
    names = {str(one) for size in sizes.values() for one in size.free_symbols}
    return tuple(name for name in (LOAD, SHARE) if name in names)


def _places(arguments: Any) -> Any:
    """Elements of the mask among the arguments, else of the first tensor; None where there is no tensor."""
    tensors = _tensors(arguments)
    masks = [one for one in tensors if one.dtype == "bool"] or tensors
    return sp.sympify(product(masks[0].shape), strict=True) if masks else None


def _is_open(places: Any) -> bool:
    return any(_OPEN.match(str(one)) for one in places.free_symbols)


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [one for part in value for one in _tensors(part)] if isinstance(value, (tuple, list)) else []


_TORCH: Mapping[str, Callable[..., Any]] = {
    "FloorDiv": lambda a, b: sp.floor(a / b),
    "CleanDiv": lambda a, b: a / b,
    "IntTrueDiv": lambda a, b: a / b,
    "FloatTrueDiv": lambda a, b: a / b,
    "ModularIndexing": lambda a, b, c: sp.Mod(sp.floor(a / b), c),
    "PythonMod": lambda a, b: sp.Mod(a, b),
    "Mod": lambda a, b: sp.Mod(a, b),
    "Max": lambda *sides: sp.Max(*sides),
    "Min": lambda *sides: sp.Min(*sides),
    "CeilToInt": lambda a: sp.ceiling(a),
    "FloorToInt": lambda a: sp.floor(a),
    "TruncToInt": lambda a: sp.floor(a),
    "RoundToInt": lambda a: sp.floor(a + sp.Rational(1, 2)),
    "ToFloat": lambda a: a,
    "Identity": lambda a: a,
    "PowByNatural": lambda a, b: sp.Pow(a, b),
}


class Sizes:
    """Translates expressions of one ShapeEnv: replacements applied, symbols renamed, torch's functions made sympy's."""

    def __init__(self, environment: Any, names: Mapping[str, str | sp.Expr]) -> None:
        self._environment = environment
        self._names = names
        self._plain: dict[Any, Any] = {}
        self._final: dict[Any, Any] = {}

    def __call__(self, value: Any) -> Any:
        """An int, or a sympy expression over the user's names."""
        if not is_symbolic(value):
            return value
        if value not in self._final:
            self._final[value] = self.plain(sp.sympify(self._environment.replace(value), strict=True))
        return self._final[value]

    def plain(self, expression: Any) -> Any:
        """As `__call__`, without replacements."""
        if expression not in self._plain:
            self._plain[expression] = self._translate(expression)
        return self._plain[expression]

    def _translate(self, expression: Any) -> Any:
        if expression.is_Symbol:
            name = self._names.get(expression.name, expression.name)
            return symbol(name) if isinstance(name, str) else self._translate(name)
        if expression.is_Integer:
            return int(expression)
        if expression.is_number or expression in (sp.true, sp.false):
            return expression
        parts = [sp.sympify(self.plain(part), strict=True) for part in expression.args]
        name = type(expression).__name__
        if name in _TORCH:
            return _TORCH[name](*parts)
        plain = (sp.Add, sp.Mul, sp.Pow, sp.floor, sp.ceiling, sp.core.relational.Relational, sp.And, sp.Or, sp.Not)
        if isinstance(expression, plain):
            return expression.func(*parts)
        raise InputError(f"size {expression}: function {name} of torch is not known here")


# Sizes to trace with where the user names none: primes, so that no layer has the same by chance.
HINTS = (5, 37, 41, 43, 47, 53)
MAX_ASSUMPTIONS = 20


@dataclass(frozen=True)
class Recording:
    """What one pass over the callable gave."""

    nodes: tuple[ImportedNode, ...]
    parameters: int
    parameter_bytes: int
    specialised: Mapping[str, int]
    assumptions: tuple[str, ...]


@checked
def import_torch(
    model: Any,
    inputs: Sequence[object] | Mapping[str, object],
    name: str = "",
    *,
    purpose: str = "training",
    optimizer: str | None = "sgd",
    train: str | None = None,
    loss: Any = None,
    hints: Mapping[str, int] | None = None,
) -> Workload:
    """A torch module (or any callable of tensors) as a workload, symbolic in the named sizes of its inputs.

    Nothing is computed and no weights are needed: build large models under ``torch.device("meta")``.

    Parameters
    ----------
    inputs
        The arguments by position or by name: tensors, ``(torch.zeros(8, 3, 224, 224),)``, or shapes and types,
        ``[Input(("batch", 3, 224, 224))]``, whose named sizes stay open.
    purpose
        "training" (forward, backward, optimizer) or "inference" (forward, in evaluation mode under ``no_grad``).
        Parameters need gradients as the module says in both, since PyTorch chooses kernels by that: a dense layer
        behind a transpose is one product where its weight may be trained, and one a position where it is frozen.
        A module that went through ``torch.compile`` has ``metadata["execution"] == "compiled"``.
    optimizer
        "sgd", "momentum", "adam", "adamw", ...; None leaves the update out.
    train
        The optimizer by the word of ``--train``: the same as `purpose` "training" with that `optimizer`.
    loss
        Makes a scalar of the outputs; without it the backward pass starts from gradients of all outputs.
    hints
        Example values of the names; conditions on sizes are decided by them, and listed in ``metadata["assumptions"]``.
        A branch on values is recorded both ways; where they differ, that of more work stands and is listed there too.

    Raises
    ------
    InputError
        Where torch is not installed, or the callable cannot run on fake tensors: the message carries torch's reason.
    """
    if train is not None:
        if purpose != "training":
            raise InputError(f"train = {train!r} and purpose = {purpose!r}: give one of them")
        optimizer = train
    if purpose not in ("training", "inference"):
        raise InputError(f"purpose = {purpose!r}: want 'training' or 'inference'")
    require_packages(("torch",))
    model, compiled = before_compilation(model)
    label = name or getattr(type(model), "__name__", "callable")
    if isinstance(inputs, (list, tuple, Mapping)):
        model, inputs = without_constants(model, inputs)
    given = described(inputs, f"import_torch({label})")
    keyed = dict(given) if isinstance(given, Mapping) else {str(i): value for i, value in enumerate(given)}
    names = list(dict.fromkeys(s for given in keyed.values() for s in given.shape if isinstance(s, str)))
    values = {n: HINTS[i % len(HINTS)] for i, n in enumerate(names)} | {
        n: v for n, v in (hints or {}).items() if n in names
    }
    options = {
        "training": purpose == "training",
        "optimizer": optimizer,
        "loss": loss,
        "positional": not isinstance(given, Mapping),
    }
    first, way, branches = decided_branches(lambda way: _record(model, keyed, values, (), way, **options), values)
    graph = assemble(first.nodes)
    notes: list[str] = [*branches, *first.assumptions]
    fixed = dict(first.specialised)
    if fixed:
        name_again = next(iter(fixed))
        again = _interpolate(model, keyed, values, name_again, tuple(fixed), way, options)
        if again is not None:
            graph = again
            notes = [*branches, *(note for note in first.assumptions if name_again not in note)]
            notes.append(f"{name_again}: interpolated, checked at {fixed.pop(name_again)} and three other values")
    notes += [f"{n} = {value} (specialised by torch)" for n, value in fixed.items()]
    return Workload(
        label,
        graph.operations,
        graph.edges,
        FrozenDict({n: float(v) for n, v in (values | {LOAD: 1, SHARE: 1}).items() if _open(graph.operations, n)}),
        FrozenDict(
            {
                "parameters": first.parameters,
                "parameter_bytes": first.parameter_bytes,
                "purpose": purpose,
                WORK: program_kind(graph.operations),
                "source": f"torch {_torch_version()}",
                **({"execution": "compiled"} if compiled else {}),
                **({FIRST_INPUT: as_text(next(iter(keyed.values())))} if keyed else {}),
                "assumptions": tuple(notes[:MAX_ASSUMPTIONS]),
            }
        ),
        graph.uncounted,
    )


def _torch_version() -> str:
    return str(torch.__version__)


def _open(operations: Sequence[Op], name: str) -> bool:
    return any(name in op.symbols for op in operations)


def _record(
    model: Any, inputs: Mapping[str, Input], values: Mapping[str, int], *rest: Any, **options: Any
) -> Recording:
    """One pass; another with torch's compiler where the program uses that in a pass without it."""
    try:
        return _one_pass(model, inputs, values, *rest, **options)
    except CompilerWantedError:
        import torch._dynamo  # noqa: F401  # it stands in its place from here on

        return _one_pass(model, inputs, values, *rest, **options)


def _one_pass(
    model: Any,
    inputs: Mapping[str, Input],
    values: Mapping[str, int],
    fixed: Sequence[str],
    way: Branches,
    *,
    training: bool,
    optimizer: str | None,
    loss: Any,
    positional: bool,
) -> Recording:
    from torch.utils._pytree import tree_leaves

    with contextlib.ExitStack() as stack:
        stack.enter_context(_quiet())
        fake = FakeSizes(stack, values, fixed)
        recorder = make_recorder(fake, way.read)
        arguments = {
            k: torch.empty(
                [fake.sizes[s] if isinstance(s, str) else s for s in given.shape], dtype=getattr(torch, given.dtype)
            )
            for k, given in inputs.items()
        }
        subject = fake_subject(model, recorder, stack, training=training)
        for block in (as_on_gpus(), recurrent_macros(recorder), recorder, torch.set_grad_enabled(training)):
            stack.enter_context(block)
        try:
            out = subject.call(*arguments.values()) if positional else subject.call(**arguments)
            out = loss(out) if loss is not None else out
            if training:
                recorder.phase = "backward"
                leaves = tree_leaves(out.to_tuple() if hasattr(out, "to_tuple") else out)
                starts = [t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad]
                if not starts:
                    raise InputError(
                        "no output needs a gradient: nothing to train (import it with purpose='inference')"
                    )
                with recorder.pause():
                    gradients = [torch.empty_like(t) for t in starts]
                torch.autograd.backward(starts, gradients)
                _update(recorder, subject.parameters, optimizer)
        except Exception as error:  # whatever a user's model raises
            if fake.uses_compiler:
                raise CompilerWantedError from error
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{type(model).__name__} cannot be recorded ({recorder.phase}): {own_failure(error)}{_mend(error)}"
            ) from error
        if fake.uses_compiler:
            raise CompilerWantedError
    return _finish(recorder, subject, fake)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Torch's own trace of an error on the way, which the one line of ours repeats, is not shown."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _mend(error: Exception) -> str:
    """What usually mends an error of torch; "" where nothing is known."""
    if "scalar types: Long, Int" in str(error) or "must be Long" in str(error):
        wanted = "--input NAME=batch,seq_len:int64, or torch.zeros(batch, seq_len, dtype=torch.int64)"
        return f"; an input that holds indices is of whole numbers: {wanted}"
    if "data-dependent" in str(error):
        return "; nothing is computed here, so no branch may hang on values: hand over a function without that branch"
    return ""


def _update(recorder: Any, parameters: Mapping[str, Any], optimizer: str | None) -> None:
    recorder.phase = "optimizer"
    recorder.layers.clear()
    for name, parameter in parameters.items():
        if optimizer and parameter.grad is not None:
            piece = Piece("optimizer", {"elements": parameter.numel()}, {"function": optimizer})
            recorder.add(f"{name}.update", None, [piece], (parameter.grad, parameter), (parameter,))


def _finish(recorder: Any, subject: Any, fake: FakeSizes) -> Recording:
    loads, variables = counts(recorder.nodes), fake.variables
    size = Sizes(fake.environment, {**variables, **loads})

    def settle(value: Any) -> Any:
        if isinstance(value, Tensor):
            strides = None if value.strides is None else tuple(map(size, value.strides))
            return Tensor(tuple(map(size, value.shape)), value.dtype, strides)
        return tuple(map(settle, value)) if isinstance(value, tuple) else size(value)

    nodes = [_settled(node, settle) for node in recorder.nodes]
    by_name = {str(key): size(key) for key in (fake.environment.replacements if fake.environment else ())}
    specialised = {name: by_name[v] for v, name in variables.items() if isinstance(by_name.get(v), int)}
    equal = [
        f"{name} = {by_name[v]}" for v, name in variables.items() if v in by_name and not isinstance(by_name[v], int)
    ]
    guards = [
        str(size.plain(guard.expr))
        for index, guard in enumerate(fake.guards)
        if index not in recorder.kernel_choices and not isinstance(guard.expr, sp.Ne)
    ]
    opened = [NOTES[name] for name in open_loads(loads)]
    return Recording(
        tuple(nodes), subject.count, subject.size_bytes, specialised, tuple(dict.fromkeys([*opened, *equal, *guards]))
    )


def _settled(node: RecordedNode, settle: Callable[[Any], Any]) -> ImportedNode:
    """The node with sizes in the user's names, its call read."""
    if node.call is None:
        pieces = [
            replace(piece, dims={k: settle(v) for k, v in piece.dims.items()}, times=settle(piece.times))
            for piece in node.pieces
        ]
        reads = (Tensor((), node.dtype),)
        return ImportedNode(node.name, node.phase, node.layer, reads, pieces=pieces, before=node.before)
    call = Call(node.call.name, settle(node.call.arguments), settle(node.call.results), node.call.tags)
    return ImportedNode(
        node.name, node.phase, node.layer, tuple(call.tensors()), call.results, read_call(call), node.before
    )


def _interpolate(
    model: Any,
    inputs: Mapping[str, Input],
    values: Mapping[str, int],
    name: str,
    fixed: Sequence[str],
    way: Branches,
    options: Mapping[str, Any],
) -> Assembly | None:
    """The operations with a specialised size made symbolic again: quadratics through three sizes, checked at a fourth.

    None where the operations differ between sizes or the check fails.
    """
    base = values[name]
    points = (base, base + 1, base + 2, 2 * base + 3)
    try:
        traces = [
            assemble(_record(model, inputs, {**values, name: point}, fixed, Branches(way.met), **options).nodes)
            for point in points
        ]
    except InputError:
        return None
    if len({tuple((op.name, op.kind) for op in trace.operations) for trace in traces}) > 1:
        return None
    x = symbol(name)
    fitted = []
    for ops in zip(*(trace.operations for trace in traces), strict=True):
        dims = {
            dim: _quadratic(x, points, [sp.sympify(op.dims[dim], strict=True) for op in ops]) for dim in ops[0].dims
        }
        times = _quadratic(x, points, [sp.sympify(op.times, strict=True) for op in ops])
        if times is None or any(amount is None for amount in dims.values()):
            return None
        fitted.append(operation(ops[0].name, ops[0].kind, dims, ops[0].dtype, ops[0].attributes, times=times))
    return Assembly(tuple(fitted), traces[0].edges, traces[0].uncounted)


def _quadratic(x: sp.Symbol, points: Sequence[int], at: Sequence[Any]) -> Any:
    if all(value == at[0] for value in at):
        return int(at[0]) if at[0].is_Integer else at[0]
    through = sp.expand(sp.interpolate(list(zip(points[:3], at[:3], strict=True)), x))
    return through if sp.expand(through.subs(x, points[3]) - at[3]) == 0 else None
