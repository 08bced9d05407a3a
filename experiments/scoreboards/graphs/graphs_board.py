"""Scoreboard of workload graphs: imports against closed forms, torch's own counter and a published table of models.

Imported image models beside the published table of their parameters and FLOPs, in the table's convention.

A workload as arrays: its amounts compiled once, then bound to many sizes at once.
"""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression, sp
from slipstick.common.readers import read_text, unknown_name
from slipstick.estimators.symbolic.lambdified import compiled
from slipstick.experiments.calibrate.public_data import scored_file, why_missing
from slipstick.experiments.scoreboards.graphs.model_names import model_name
from slipstick.experiments.scoring.score import Board, Data, MissingError, Score
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.workloads.graph.compare import matrix_flop
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Op, Workload

if TYPE_CHECKING:
    from slipstick.experiments.measure.bricks.model_population import Entry


TABLE = "graphs/zoo_params_flops.csv"
MAX_TABLE_MODELS = 90
"""Models of the table that are imported, in its order."""
MAX_PARAMETERS = 120_000_000
GOAL_MODELS = 60


def exact_row(dataset: str, case: str, n: int, wrong: list[str]) -> ValidationRow:
    """The row of what must be exact: the share that is, and what is not."""
    share = 1 - len(wrong) / n if n else None
    return ValidationRow(
        dataset, case, "closed forms", n, "share exact", "1", share, goal=1.0, ok=not wrong if n else None,
        reason=f"not exact: {', '.join(wrong)}" if wrong else "",
    )  # fmt: skip


def progress(items: list[Any], what: str) -> Iterator[Any]:
    """The items, counted on standard error."""
    for index, item in enumerate(items):
        if index % 10 == 0:
            print(f"\r{what}: {index}/{len(items)} ", end="", file=sys.stderr, flush=True)
        yield item
    print(f"\r{what}: {len(items)}/{len(items)} ", file=sys.stderr, flush=True)


def table(scored: Path | None) -> list[ValidationRow]:
    """Parameters and FLOPs of image models against the table of their authors, in its convention."""
    from slipstick.experiments.measure.bricks.model_population import pytorchcv_model
    from slipstick.workloads.importers.torch.arguments import Input
    from slipstick.workloads.importers.torch.importer import import_torch

    path = scored_file(TABLE, scored)
    if path is None:
        return [skipped("pytorchcv table", why_missing(TABLE, scored))]
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""))
    listed = [row for row in rows if row.get("params") and row.get("flops_half_M")]
    named: dict[str, tuple[int, float]] = {}
    for row in listed:
        name = model_name(row["section"], row["model"])
        if name and int(row["params"]) <= MAX_PARAMETERS:
            named.setdefault(name, (int(row["params"]), 2e6 * float(row["flops_half_M"])))
    errors: dict[str, float] = {}
    bare: dict[str, float] = {}
    wrong_parameters: list[str] = []
    failed: list[str] = []
    for name in progress(list(named)[: 2 * MAX_TABLE_MODELS], "published table"):
        if len(errors) + len(failed) >= MAX_TABLE_MODELS:
            break
        parameters, flop = named[name]
        try:
            model = pytorchcv_model(name)
        except Exception:  # pytorchcv has no such name, or cannot build it beside today's torch
            continue
        try:
            graph = import_torch(model, [Input((1, 3, *model.in_size))], name, purpose="inference")
        except InputError as error:
            failed.append(f"{name} ({str(error)[:60]})")
            continue
        if graph.metadata["parameters"] != parameters:
            wrong_parameters.append(name)
        errors[name] = abs(table_flop(graph) / flop - 1)
        bare[name] = abs(float(matrix_flop(graph, "forward")) / flop - 1)
    n = len(errors)
    exact = n - len(wrong_parameters)
    beyond = sorted((name for name in errors if errors[name] > 0.01), key=lambda name: -errors[name])
    within = n - len(beyond)
    notes = [f"beyond 1 %: {', '.join(f'{name} {errors[name]:.1%}' for name in beyond[:12])}"] if beyond else []
    notes += [f"not imported: {', '.join(failed[:5])}"] if failed else []
    changed = f"not those of the table in the installed collection: {', '.join(wrong_parameters)}"
    parameters_row = ValidationRow(
        "pytorchcv table",
        "parameters",
        "nothing is fitted",
        n,
        "models exact",
        "1",
        exact,
        goal=GOAL_MODELS,
        ok=exact >= GOAL_MODELS if n >= GOAL_MODELS else None,
        reason=changed if wrong_parameters else "",
    )
    flops_row = ValidationRow(
        "pytorchcv table",
        "FLOPs in the table's convention, which is documented",
        "nothing is fitted",
        n,
        "models within 1 %",
        "1",
        within,
        {"products and convolutions alone": float(sum(error <= 0.01 for error in bare.values()))},
        goal=GOAL_MODELS,
        ok=within >= max(GOAL_MODELS, 0.95 * n) if n >= GOAL_MODELS else None,
        reason="; ".join(notes),
    )
    return [parameters_row, flops_row]


def table_flop(graph: Workload) -> float:
    """flop of a bound forward pass in the table's convention.

    Its authors count whole modules: two flop a multiply-add, 4 an element of a norm, the window of each pooled
    element, activations by the element (ReLU 1, sigmoid 4, leaky ReLU 2, PReLU 3, swish 5, hard swish 2), shuffles of
    channels 1; additions
    between branches, bilinear taps and transposed convolutions beyond 4 an input element are not counted.
    Source: osmr/imgclsmob, pytorch/utils.py, measure_model.
    """
    gates = {op.name: op.dims["elements"] for op in graph if op.attributes.get("function") in ("sigmoid", "sigmoid_")}
    layers = {op.name.rpartition(".")[0] for op in graph}
    parts = [layer.split(".") for layer in layers]
    if not str(graph.metadata.get("source", "")).startswith("torch"):
        parts = []  # builders name layers, not modules
    # Modules that hold others: what they call themselves is no module of its own, and is not counted there.
    inner = frozenset(".".join(words[:depth]) for words in parts for depth in range(1, len(words)))
    return float(sum(_table_flop(op, graph, gates, inner) for op in graph))


# flop an element in the table.
_ACTIVATIONS: Mapping[str, int] = {
    "relu": 1,
    "hardtanh": 1,
    "clamp": 1,
    "hardsigmoid": 1,
    "hardswish": 2,
    "leaky_relu": 2,
    "prelu": 3,
    "_prelu_kernel": 3,
    "elu": 3,
    "sigmoid": 4,
    "silu": 5,
}


def _table_flop(op: Op, graph: Workload, gates: dict[str, Any], inner: frozenset[str]) -> float:
    d: Any = op.dims
    if op.kind == "convolution" and op.attributes.get("transposed"):
        return float(4 * d["batch"] * d["channels_in"] * d["in_height"] * d["in_width"])
    if op.kind in ("gemm", "convolution"):
        # Without a bias the first addition of a sum is none; the table takes one off a weight of a convolution.
        first = d["m"] * d["n"] if op.kind == "gemm" else d["channels_in"] * d["channels_out"] // d["groups"]
        return float(op.cost["flop.matrix.float32"] - (0 if op.attributes.get("bias") else first))
    if op.kind == "norm" or op.attributes.get("function") == "batch_norm":
        return float(4 * d["elements"])
    if op.kind == "pool":
        return float(d["outputs"] * d["window"])
    if op.kind == "upsample":
        return float(4 * d["inputs"])
    if op.kind == "move" and "shuffle" in op.name:
        return float(d["writes"])
    if op.kind == "elementwise" and op.name.rpartition(".")[0] not in inner:
        function = str(op.attributes.get("function"))
        if function == "mul":
            # Swish is written as x times its own sigmoid: five an element together.
            gated = any(gates.get(before) == d["elements"] for before in graph.graph.predecessors(op.name))
            return float(d["elements"]) if gated else 0.0
        return float(_ACTIVATIONS.get(function, 0) * d["elements"])
    return 0.0


@dataclass(frozen=True, eq=False)
class CompiledWorkload:
    """The amounts of a workload as one function of its open names.

    A graph of a thousand operations holds a few dozen different expressions: each is evaluated once.

    `operations`: names of the operations: the last axis of every array.
    `symbols`: the open names, all to be given.

    Examples
    --------
    >>> from slipstick.workloads.catalog import workload
    >>> compiled = compile_workload(workload("gnmt"))
    >>> compiled.bind(batch=64, seq_len=[9, 94])["flop.matrix.float32"].shape
    (2, 193)
    """

    operations: tuple[str, ...]
    symbols: tuple[str, ...]
    _evaluate: Callable[..., Any] = field(repr=False)
    _slots: Mapping[str, npt.NDArray[np.intp]] = field(repr=False)

    def bind(self, **values: Any) -> dict[str, FloatArray]:
        """Arrays by amount: "times", "dims.NAME" and the resources of the cost, shape (..., operations).

        Values are numbers or arrays that broadcast together; counts are exact up to 2**53.
        Raises InputError where a name is missing or unknown.
        """
        for name in values:
            if name not in self.symbols:
                raise unknown_name("symbol of the compiled workload", name, self.symbols)
        missing = [name for name in self.symbols if name not in values]
        if missing:
            raise InputError(f"compiled workload: give a value for {', '.join(missing)}")
        given = [np.asarray(values[name], dtype=np.float64) for name in self.symbols]
        shape = np.broadcast_shapes(*(array.shape for array in given))
        results = self._evaluate(*given)
        table = np.empty((*shape, len(results)))
        for index, result in enumerate(results):
            table[..., index] = result
        return {name: table[..., slots] for name, slots in self._slots.items()}

    def totals(self, **values: Any) -> dict[str, FloatArray]:
        """The cost of the whole workload by resource, each operation as often as it is done; shape (...)."""
        bound = self.bind(**values)
        times = bound.pop("times")
        return {name: (array * times).sum(axis=-1) for name, array in bound.items() if not name.startswith("dims.")}


def compile_workload(workload: Workload) -> CompiledWorkload:
    """Compile all amounts of a workload (dims, cost, times) for `CompiledWorkload.bind`."""
    expressions: dict[Amount, int] = {0: 0}
    slots: dict[str, list[int]] = {"times": [0] * len(workload)}
    for index, op in enumerate(workload):
        amounts: dict[str, Amount] = {"times": op.times, **op.cost}
        amounts |= {f"dims.{name}": amount for name, amount in op.dims.items()}
        for name, amount in amounts.items():
            slots.setdefault(name, [0] * len(workload))[index] = expressions.setdefault(amount, len(expressions))
    symbols = tuple(sorted(workload.symbols))
    evaluate = compiled(sp.Tuple(*(sp.sympify(expression, strict=True) for expression in expressions)), symbols)
    indices = {name: np.array(positions, dtype=np.intp) for name, positions in slots.items()}
    return CompiledWorkload(tuple(op.name for op in workload), symbols, evaluate, indices)


LENGTHS = 200


def _imported(part: Callable[[], list[ValidationRow]]) -> Score:
    """A part whose models may need a collection that is not installed."""

    def rows(_: Data) -> list[ValidationRow]:
        try:
            return part()
        except ImportError as error:
            raise MissingError(" ".join(str(error).split())[:200]) from None

    return rows


def installed(entry: Entry) -> Any:
    """The model, or which collection it would need."""
    try:
        return entry.build()
    except ImportError as error:
        return " ".join(str(error).split())[:200]


# Anchors


def anchors() -> list[ValidationRow]:
    """Imported transformers against closed forms written by hand."""
    from slipstick.experiments.measure.bricks.model_population import population
    from slipstick.workloads.importers.torch.importer import import_torch

    forms = {
        "bert-base": ("36864*batch*seq_len**2 + 217930752*batch*seq_len", 109_514_298),
        "gpt2": ("36864*batch*seq_len**2 + 247064064*batch*seq_len", 124_439_808),
    }
    rows = []
    for entry in population():
        if entry.name in forms:
            model = installed(entry)
            if isinstance(model, str):
                rows.append(skipped(entry.name, model))
                continue
            graph = import_torch(model, entry.inputs, entry.name, hints=entry.hints)
            form, parameters = parse_expression(forms[entry.name][0]), forms[entry.name][1]
            wrong = [
                name
                for name, difference in {
                    "forward": matrix_flop(graph, "forward") - form,
                    "backward": matrix_flop(graph, "backward") - 2 * form,
                    "parameters": sp.sympify(graph.metadata["parameters"], strict=True) - parameters,
                }.items()
                if sp.expand(difference) != 0
            ]
            rows.append(exact_row(entry.name, "closed form: forward, backward = 2 x forward, parameters", 3, wrong))
    return rows


def built_in_against_imported() -> list[ValidationRow]:
    """Built-in networks beside the same networks imported from model collections."""
    from slipstick.experiments.measure.bricks.model_population import population
    from slipstick.workloads.catalog import workload
    from slipstick.workloads.importers.torch.importer import import_torch

    # pytorchcv's resnet50b has its strides in the 3 x 3 convolutions, as frameworks ship the network.
    pairs = {"resnet50b": "resnet50", "vgg16": "vgg16", "bert-base": "bert-base"}
    rows = []
    for entry in population():
        if entry.name not in pairs:
            continue
        model = installed(entry)
        if isinstance(model, str):
            rows.append(skipped(entry.name, model))
            continue
        start = time.thread_time()
        graph = import_torch(model, entry.inputs, entry.name)
        seconds = time.thread_time() - start
        built = workload(pairs[entry.name])
        values = {name: {"batch": 8, "seq_len": 128}[name] for name in graph.symbols}
        worst = 0.0
        for phase in ("forward", "backward"):
            ours = matrix_flop(built.bind_known(values), phase)
            worst = max(worst, abs(float(ours) / float(matrix_flop(graph.bind(**values), phase)) - 1))
        worst = max(worst, abs(float(built.metadata["parameters"]) / float(graph.metadata["parameters"]) - 1))  # type: ignore[arg-type]
        rows.append(
            ValidationRow(entry.name, "built-in beside imported: flop and parameters", "another implementation", 3,
                          "largest relative difference", "1", worst, goal=0.01, ok=worst <= 0.01)
        )  # fmt: skip
        if entry.name == "resnet50b":
            rows.append(
                ValidationRow("resnet50", "import: forward, backward, optimizer", "", 1, "thread CPU time", "s",
                              seconds, goal=10.0, ok=seconds < 10)
            )  # fmt: skip
    return rows


# Symbolic lengths


def symbolic_lengths() -> list[ValidationRow]:
    """One symbolic import bound to 200 lengths beside 200 static imports: equal, and how much faster."""
    from slipstick.experiments.measure.bricks import small_models
    from slipstick.workloads.catalog import workload
    from slipstick.workloads.importers.torch.arguments import Input

    rows = [
        *symbolic_case("transformer block", small_models.qanet_block(), lambda n: Input((2, n, 128)), 10),
        *symbolic_case("recurrent", small_models.language_model("GRU"), lambda n: Input((2, n), "int64"), 2),
        *symbolic_case("convolutional-recurrent", small_models.deepspeech2(), lambda n: Input((2, 1, 161, n)), 20),
    ]
    compiled = compile_workload(workload("gnmt"))
    start = time.thread_time()
    for length in range(10, 10 + LENGTHS):
        compiled.bind(batch=64, seq_len=length)
    each = (time.thread_time() - start) / LENGTHS
    case = "bind one length after compilation"
    rows.append(ValidationRow("gnmt", case, "", LENGTHS, "thread CPU time", "s", each, goal=1e-3, ok=each < 1e-3))
    return rows


def symbolic_case(name: str, model: Any, shape: Callable[[Any], Any], shortest: int) -> list[ValidationRow]:
    """Rows of one model: `shape` gives its input for a length, or for the name of one."""
    import numpy as np

    from slipstick.workloads.importers.torch.importer import import_torch

    start = time.thread_time()
    compiled = compile_workload(import_torch(model, [shape("seq_len")], name, hints={"seq_len": 83}))
    once = time.thread_time() - start
    lengths = np.arange(shortest, shortest + LENGTHS)
    start = time.thread_time()
    bound = compiled.totals(seq_len=lengths)
    fast = time.thread_time() - start
    start = time.thread_time()
    wrong = []
    for index, length in enumerate(progress(lengths.tolist(), name)):
        cost = import_torch(model, [shape(length)], name).cost
        if any(float(cost[resource]) != array[index] for resource, array in bound.items()):
            wrong.append(str(length))
    slow = time.thread_time() - start
    ratio = ValidationRow(
        f"symbolic {name}",
        "static imports / binding, the one import and compilation left out",
        "",
        LENGTHS,
        "ratio of CPU times",
        "1",
        slow / fast,
        {"with the one import and compilation": slow / (once + fast)},
        goal=100.0,
        ok=slow / fast >= 100,
    )
    return [exact_row(f"symbolic {name}", "bound cost = static import, 200 lengths", LENGTHS, wrong), ratio]


# The population


def population_rows() -> list[ValidationRow]:
    """Over eighty models of eight tasks: how many import, and whether forward equals torch's counter."""
    from slipstick.experiments.measure.bricks.model_population import population
    from slipstick.workloads.importers.torch.importer import import_torch

    failed: list[str] = []
    absent: list[str] = []
    unequal: list[str] = []
    compared = 0
    uncounted: set[str] = set()
    everything = population()
    for entry in progress(everything, "population"):
        try:
            model = installed(entry)
            if isinstance(model, str):
                absent.append(f"{entry.name} ({model})")
                continue
            graph = import_torch(model, entry.inputs, entry.name, hints=entry.hints)
        except Exception as error:  # a model that cannot be built counts as one that cannot be imported
            failed.append(f"{entry.name} ({' '.join(str(error).split())[-90:]})")
            continue
        uncounted |= set(graph.uncounted)
        sizes = {name: entry.hints.get(name, {"batch": 2, "seq_len": 24}[name]) for name in graph.symbols}
        try:
            counted = torch_counter(model, entry.inputs, sizes)
        except Exception:  # the counter runs the model its own way, and fails on some
            continue
        if counted is not None:
            compared += 1
            ours = float(matrix_flop(graph.bind(**sizes), "forward"))
            if ours != counted:
                unequal.append(f"{entry.name} {ours / counted - 1:+.2%}")
    tried = len(everything) - len(absent)
    share = 1 - len(failed) / tried if tried else None
    equal = 1 - len(unequal) / compared if compared else None
    left_out = [f"left out, not installed: {', '.join(absent)}"] if absent else []
    imported = ValidationRow(
        "population",
        "imported with forward, backward and optimizer",
        "nothing is fitted",
        tried,
        "share",
        "1",
        share,
        goal=0.95,
        ok=share is not None and share >= 0.95 if tried >= 65 else None,
        reason="; ".join([*failed, *left_out, f"uncounted operations: {', '.join(sorted(uncounted)) or 'none'}"]),
    )
    agreed = ValidationRow(
        "population",
        "forward = torch's flop counter where that is right",
        "another implementation",
        compared,
        "share equal",
        "1",
        equal,
        goal=1.0,
        ok=not unequal if compared >= 40 else None,
        reason="; ".join(unequal),
    )
    return [imported, agreed]


def torch_counter(model: Any, inputs: Any, sizes: dict[str, int]) -> int | None:
    """Forward flop by torch's own counter on fake tensors; None with LSTMs, which it counts as nothing on a CPU."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    if any(isinstance(module, torch.nn.LSTM) for module in model.modules()):
        return None
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        twins: dict[int, Any] = {}
        tensors = {}
        for name, tensor in (
            *model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False),
        ):
            tensors[name] = twins.setdefault(
                id(tensor), torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            )
        keyed = inputs if isinstance(inputs, dict) else dict(enumerate(inputs))
        given = {
            key: torch.empty(
                [sizes[s] if isinstance(s, str) else s for s in value.shape], dtype=getattr(torch, value.dtype)
            )
            for key, value in keyed.items()
        }
        model.train()
        with FlopCounterMode(display=False) as counter:
            if isinstance(inputs, dict):
                torch.func.functional_call(model, tensors, (), given)
            else:
                torch.func.functional_call(model, tensors, tuple(given.values()))
    return int(counter.get_total_flops())


IMPORTED = (anchors, built_in_against_imported, symbolic_lengths, population_rows)
BOARD = Board(
    "Does an imported network count the flop that others count?",
    {
        **{part.__name__: _imported(part) for part in IMPORTED},
        "pytorchcv table": lambda data: table(data.scored),
    },
    closed={part.__name__: "models of installed collections; there is no file to score" for part in IMPORTED},
)
