"""Scoreboard of workload graphs: imports against closed forms, torch's own counter and a published table of models.

Imported image models beside the published table of their parameters and FLOPs, in the table's convention.

Names of image models in the published table of parameters and FLOPs, as pytorchcv's own names.
"""

from __future__ import annotations

import csv
import io
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression, sp
from slipstick.common.readers import read_text
from slipstick.common.size_column import SizeColumn
from slipstick.experiments.calibrate.public_data import scored_file, why_missing
from slipstick.experiments.scoring.score import Board, Data, MissingError, Score
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.workloads.graph.compare import matrix_flop
from slipstick.workloads.graph.workload import Op, Workload

if TYPE_CHECKING:
    from slipstick.experiments.measure.bricks.model_population import Entry


SUFFIX: Mapping[str, str] = {
    "ImageNet-1K": "",
    "CIFAR-10": "_cifar10",
    "CIFAR-100": "_cifar100",
    "SVHN": "_svhn",
    "CUB-200-2011": "_cub",
}


_WIDTH: Mapping[str, str] = {
    "0.2": "wd5",
    "0.25": "wd4",
    "0.5": "wd2",
    "0.75": "w3d4",
    "1.0": "w1",
    "1.25": "w5d4",
    "1.5": "w3d2",
    "2.0": "w2",
}


def _regnet(m: re.Match[str]) -> str:
    hundreds = round(float(m[2]) * (1 if m[3] == "M" else 1000) / 100)
    return f"regnet{m[1].lower()}{hundreds:03d}"


# Families whose printed names do not follow from pytorchcv's by dropping spaces and dashes.
_FAMILIES: Mapping[str, Callable[[re.Match[str]], str]] = {
    r"PyramidNet-(\d+) \(a=(\d+).*": lambda m: f"pyramidnet{m[1]}_a{m[2]}" + ("_bn" if int(m[1]) > 110 else ""),
    r"(X-)?DenseNet-BC-(\d+)(-\d)? \(k=(\d+)\)": lambda m: (
        f"{'x' if m[1] else ''}densenet{m[2]}{(m[3] or '').replace('-', '_')}_k{m[4]}_bc"
    ),
    r"CondenseNet-74 \(C=G=(\d)\)": lambda m: f"condensenet74_c{m[1]}_g{m[1]}",
    r"Air(Ne[Xx]?t)(\d+)-(\w+) \(r=(\d+)\)": lambda m: f"air{m[1].lower()}{m[2]}_{m[3]}_r{m[4]}",
    r"RegNet([XY])-([\d.]+)([MG])F": _regnet,
    r"(\d+)-MENet-(\d+)x1 \(g=(\d)\)": lambda m: f"menet{m[1]}_{m[2]}x1_g{m[3]}",
    r"([\d.]+)-SqNxt-23(v5)?": lambda m: f"sqnxt23{m[2] or ''}_{_WIDTH.get(m[1], '?')}",
    r"ShuffleNet x([\d.]+) \(g=(\d)\)": lambda m: f"shufflenet_g{m[2]}_{_WIDTH.get(m[1], '?')}",
    r"WRN-(\d+)-(\d+)": lambda m: f"wrn{m[1]}_{m[2]}",
    r"RoR-3-(\d+)": lambda m: f"ror3_{m[1]}",
    r"Shake-Shake-ResNet-(\d+)-(\w+)": lambda m: f"shakeshakeresnet{m[1]}_{m[2]}",
    r"DLA-X(\d?)-(\d+)(-C)?": lambda m: f"dla{m[2]}x{m[1]}{(m[3] or '')[1:].lower()}",
    r"DRN-([CD])-(\d+)": lambda m: f"drn{m[1].lower()}{m[2]}",
    r"MobileNetV3 ([LS])/224/([\d.]+)": lambda m: (
        f"mobilenetv3_{'large' if m[1] == 'L' else 'small'}_{_WIDTH.get(m[2], '?')}"
    ),
    r"HRNetV2-W(\d+)": lambda m: f"hrnetv2_w{m[1]}",
    r"HRNet-W(\d+) Small V(\d)": lambda m: f"hrnet_w{m[1]}_small_v{m[2]}",
    r"NASNet-A (\d)@(\d+)": lambda m: f"nasnet_{m[1]}a{m[2]}",
    r"PNASNet-5-Large": lambda m: "pnasnet5large",
    r"DiracNetV2-(\d+)": lambda m: f"diracnet{m[1]}v2",
    r"ResNe(S?)t\(([AD])\)-(BC-)?(\d+)(b?)": lambda m: (
        f"resne{m[1].lower()}t{m[2].lower()}{'bc' if m[3] else ''}{m[4]}{m[5]}"
    ),
}


def model_name(section: str, printed: str) -> str | None:
    """The name in pytorchcv of a printed name in a section (a data set); None where the section has no such rule.

    The rule knows nothing of parameters or FLOPs. Whether pytorchcv has the name is for the caller to see.
    """
    if section not in SUFFIX:
        return None
    name = printed.strip().strip('"').rstrip("*").strip()
    for pattern, make in _FAMILIES.items():
        match = re.fullmatch(pattern, name)
        if match:
            return make(match) + SUFFIX[section]
    name = name.lower()
    name = re.sub(r" \((\d+x\d+d)\)", r"_\1", name)
    name = re.sub(r" x([\d.]+)$", lambda m: "_" + _WIDTH.get(m[1], "?"), name)
    name = re.sub(r" v(\d)\.(\d)", r"_v\1_\2", name).replace("(bn)", "bn")
    name = re.sub(r"^ibn\(b\)-", "ibnb_", name)
    name = re.sub(r"^(ibn|bam|cbam|bn)-", r"\1_", name)
    name = re.sub(r"^efficientnet-(b\d|edge)", r"efficientnet_\1", name)
    name = re.sub(r"edge-(\w+)-b$", r"edge_\1_b", name)
    name = re.sub(r"^(mixnet|mnasnet)-", r"\1_", name)
    name = re.sub(r"[- ]", "", "nin" if name.startswith("nin") else name)
    return name + SUFFIX[section]


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
    """One symbolic import bound to 200 lengths at once beside 200 static imports: equal, and how much faster."""
    from slipstick.experiments.measure.bricks.model_population import population
    from slipstick.workloads.catalog import workload
    from slipstick.workloads.importers.torch.arguments import Input

    models = {entry.name: entry for entry in population()}
    recurrent, speech = models["gru-language-model"].build(), models["deepspeech2"].build()
    rows = [
        *symbolic_case("transformer block", models["qanet-block"].build(), lambda n: Input((2, n, 128)), 10),
        *symbolic_case("recurrent", recurrent, lambda n: Input((2, n), "int64"), 2),
        *symbolic_case("convolutional-recurrent", speech, lambda n: Input((2, 1, 161, n)), 20),
    ]
    network = workload("gnmt")
    start = time.thread_time()
    _ = network.bind(batch=64, seq_len=np.arange(10.0, 10 + LENGTHS).view(SizeColumn)).cost
    each = (time.thread_time() - start) / LENGTHS
    case = "one of 200 lengths, bound together"
    rows.append(ValidationRow("gnmt", case, "", LENGTHS, "thread CPU time", "s", each, goal=1e-3, ok=each < 1e-3))
    return rows


def symbolic_case(name: str, model: Any, shape: Callable[[Any], Any], shortest: int) -> list[ValidationRow]:
    """Rows of one model: `shape` gives its input for a length, or for the name of one."""
    from slipstick.workloads.importers.torch.importer import import_torch

    start = time.thread_time()
    graph = import_torch(model, [shape("seq_len")], name, hints={"seq_len": 83})
    once = time.thread_time() - start
    lengths = np.arange(shortest, shortest + LENGTHS)
    start = time.thread_time()
    bound = graph.bind(seq_len=lengths.astype(np.float64).view(SizeColumn)).cost
    fast = time.thread_time() - start
    start = time.thread_time()
    wrong = []
    for index, length in enumerate(progress(lengths.tolist(), name)):
        cost = import_torch(model, [shape(length)], name).cost
        if any(float(cost[resource]) != np.broadcast_to(amount, LENGTHS)[index] for resource, amount in bound.items()):
            wrong.append(str(length))
    slow = time.thread_time() - start
    ratio = ValidationRow(
        f"symbolic {name}",
        "static imports / binding, the one import left out",
        "",
        LENGTHS,
        "ratio of CPU times",
        "1",
        slow / fast,
        {"with the one import": slow / (once + fast)},
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
        copies: dict[int, Any] = {}
        tensors = {}
        for name, tensor in (
            *model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False),
        ):
            tensors[name] = copies.setdefault(
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
