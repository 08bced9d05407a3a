"""A training step as one of several data-parallel cores does it, with what feeds it.

The batch is divided among the cores; gradients are summed over them; the host hands in features and labels.
"""

from __future__ import annotations

from itertools import pairwise

from slipstick.common.errors import InputError
from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.graph.workload_kind import WORK

SYMBOLS = ("layers", "width", "inputs", "outputs", "batch")


def data_parallel_mlp(cores: int = 8, optimizer: str = "adam", dtype: str = "float32") -> Workload:
    """A multilayer perceptron, `layers` hidden layers of equal `width`, trained on `cores` cores.

    Symbols: layers, width, inputs, outputs, batch (the global one). The family is that of ParaDnn (Wang, Wei, Brooks,
    "Benchmarking TPU, GPU, and CPU Platforms for Deep Learning", 2019). Operations are those of one core and step:
    three products a layer (the first needs no gradient of its input), the sum of gradients over the cores, their
    mean, and the optimizer; features and labels (one-hot) come from the host for all cores.
    Raises InputError where `cores` is below 1.
    """
    if cores < 1:
        raise InputError(f"data_parallel_mlp: cores = {cores}: want at least 1")
    layers, width, inputs, outputs, batch = (symbol(name) for name in SYMBOLS)
    share = batch / cores
    operations: list[Op] = []
    edges: list[tuple[str, str]] = []
    for data, elements in (("features", inputs), ("labels", outputs)):
        facts = {"function": "infeed", "data": data}
        operations.append(operation(f"infeed.{data}", "host", {"elements": batch * elements}, dtype, facts))
    for name, k, m, times in (
        ("first", inputs, width, 1),
        ("hidden", width, width, layers - 1),
        ("classifier", width, outputs, 1),
    ):
        operations += _layer(name, k, m, share, times, cores, optimizer, dtype)
    names = [op.name for op in operations]
    forward = [name for name in names if name.endswith(".forward")]
    edges += [(f"infeed.{data}", "first.forward") for data in ("features", "labels")]
    edges += list(pairwise(forward))
    edges += [(forward[-1], "classifier.weight_gradient"), (forward[-1], "classifier.input_gradient")]
    edges += [("classifier.input_gradient", f"hidden.{part}") for part in ("input_gradient", "weight_gradient")]
    edges += [("hidden.input_gradient", "first.weight_gradient")]
    for layer in ("first", "hidden", "classifier"):
        chain = [f"{layer}.{part}" for part in ("weight_gradient", "all_reduce", "mean", "update")]
        edges += list(pairwise(chain))
    defaults = FrozenDict[float](layers=8, width=1024, inputs=2000, outputs=1000, batch=1024)
    return Workload("data-parallel-mlp", tuple(operations), tuple(edges), defaults, FrozenDict({WORK: "data parallel"}))


def _layer(
    name: str, k: Amount, m: Amount, batch: Amount, times: Amount, cores: int, optimizer: str, dtype: str
) -> list[Op]:
    """The operations of one fully connected layer in a training step of one core."""
    weights = k * m
    products = {"forward": (m, batch, k), "weight_gradient": (m, k, batch)}
    if name != "first":
        products["input_gradient"] = (k, batch, m)
    made = [
        operation(f"{name}.{part}", "gemm", {"batch": 1, "m": rows, "n": n, "k": inner}, dtype, times=times)
        for part, (rows, n, inner) in products.items()
    ]
    mean = {"elements": weights, "reads": weights, "writes": weights}
    return [
        *made,
        operation(
            f"{name}.all_reduce",
            "collective",
            {"elements": weights, "participants": cores},
            dtype,
            {"function": "all_reduce"},
            times=times,
        ),
        operation(f"{name}.mean", "elementwise", mean, dtype, {"function": "mul"}, times=times),
        operation(f"{name}.update", "optimizer", {"elements": weights}, dtype, {"function": optimizer}, times=times),
    ]
