"""Scoreboard of workload graphs: imports against closed forms, torch's own counter and a published table of models."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from slipstick.common.expressions import parse_expression
from slipstick.common.lazy_sympy import sp
from slipstick.experiments.scoreboards.graphs.published_flops import exact_row, progress, table
from slipstick.experiments.scoring.score import Board, Data, MissingError, Score
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.workloads.graph.compare import matrix_flop

if TYPE_CHECKING:
    from slipstick.experiments.measure.bricks.model_population import Entry

LENGTHS = 200


def _imported(part: Callable[[], list[ValidationRow]]) -> Score:
    """A part whose models may need a collection that is not installed; there is no file of it to score."""

    def rows(data: Data) -> list[ValidationRow]:
        if data.scored is not None:
            return []
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
    from slipstick.experiments.scoreboards.graphs.workload_arrays import compile_workload
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

    from slipstick.experiments.scoreboards.graphs.workload_arrays import compile_workload
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


BOARD = Board(
    "Does an imported network count the flop that others count?",
    {
        "anchors": _imported(anchors),
        "built_in_against_imported": _imported(built_in_against_imported),
        "symbolic_lengths": _imported(symbolic_lengths),
        "population_rows": _imported(population_rows),
        "pytorchcv table": lambda data: table(data.scored),
    },
)
