"""Torch models as layers that run on their own: exported, cut into bricks, each brick a module with synthetic input.

Layers are the operations of `torch.export` (forward, no weights' values are looked at); views, permutations and
selections cost nothing of their own and stay with the layer after them. Identity is what the layer computes: target,
scalar arguments, and shape, strides and dtype of every tensor; weights' values are drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import fx, torch
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.transforms.bricks import Brick

if TYPE_CHECKING:
    from slipstick.workloads.importers.torch.arguments import Input, Inputs

FREE = (
    *("view", "reshape", "flatten", "unflatten", "permute", "transpose", "t.", "squeeze", "unsqueeze", "expand"),
    *("select", "slice", "split", "chunk", "unbind", "getitem", "dropout", "detach", "alias", "sym_", "narrow"),
    *("numpy_T", "_assert"),
)


@dataclass(frozen=True, eq=False)
class LayerModel:
    """A model as a workload of layers, and the exported nodes behind each."""

    name: str
    workload: Workload
    nodes: FrozenDict[Any]
    module: Any


def layer_model(name: str, model: Any, example: Sequence[Any] | Mapping[str, Any]) -> LayerModel:
    """Export a torch module (on the CPU, any weights) and name its layers; `example`: its inputs, by place or by name.

    Raises InputError where torch cannot export it.
    """

    places, names = ((), dict(example)) if isinstance(example, Mapping) else (tuple(example), None)
    try:
        with torch.no_grad():
            module = torch.export.export(model.eval(), places, names, strict=False).module()
    except Exception as error:  # torch.export raises dozens of kinds, all of them mean the same here
        raise InputError(
            f"model {name!r}: torch.export cannot export it ({type(error).__name__}: {str(error)[:120]})"
        ) from error
    graph = module.graph
    groups: dict[str, tuple[Any, ...]] = {}
    pending: list[Any] = []
    home: dict[Any, str] = {}
    several = {node for node in graph.nodes if isinstance(node.meta.get("val"), (tuple, list))}
    for node in graph.nodes:
        called = node.op in ("call_function", "call_module", "call_method")
        if not called or (_tensor_of(node) is None and not _is_free(node)):
            continue
        maker = next((before for before in node.all_input_nodes if before in several and before in home), None)
        if maker is not None and _is_free(node):  # one of several results is picked by the layer that makes them
            groups[home[maker]] = (*groups[home[maker]], node)
            home[node] = home[maker]
            continue
        pending.append(node)
        if not _is_free(node):
            key = f"layer{len(groups)}"
            groups[key] = tuple(pending)
            home |= dict.fromkeys(pending, key)
            pending = []
    if not groups:
        raise InputError(f"model {name!r}: no layer to measure")
    if pending:
        last = list(groups)[-1]
        groups[last] = (*groups[last], *pending)
        home |= dict.fromkeys(pending, last)
    operations: list[Op] = []
    edges: dict[tuple[str, str], None] = {}
    for key, nodes in groups.items():
        operations.append(Op(key, "layer", attributes=FrozenDict({"does": _text(nodes)})))
        for node in nodes:
            for before in node.all_input_nodes:
                if before in home and home[before] != key:
                    edges[home[before], key] = None
    return LayerModel(name, Workload(name, tuple(operations), tuple(edges)), FrozenDict(groups), module)


def brick_module(model: LayerModel, brick: Brick) -> tuple[Any, tuple[Any, ...]]:
    """The brick as a torch module of its own and synthetic inputs for it.

    Weights and buffers are drawn anew; nothing of the model but the brick's own layers is in it.
    Raises InputError where a constant or an input is no tensor.
    """

    nodes = [node for layer in brick.layers for node in model.nodes[layer]]
    inside = set(nodes)
    graph, root = fx.Graph(), torch.nn.Module()
    made: dict[Any, Any] = {}
    inputs: list[Any] = []

    def outside(node: Any) -> Any:
        if node in made:
            return made[node]
        if node.op == "get_attr":
            value = _attribute(model.module, node.target)
            if isinstance(value, torch.Tensor):
                name = f"constant{len(made)}"
                root.register_buffer(name, synthetic(value))
                made[node] = graph.get_attr(name)
                return made[node]
            raise InputError(f"brick {brick.begin}: constant {node.target} is no tensor")
        example = _tensor_of(node)
        if example is None:
            raise InputError(f"brick {brick.begin}: input {node.name} is no tensor")
        made[node] = placeholders[node] = graph.placeholder(f"input{len(inputs)}")
        inputs.append(synthetic(example))
        made[node].meta["made"] = inputs[-1]
        return made[node]

    placeholders: dict[Any, Any] = {}
    for node in nodes:  # placeholders first: fx wants them at the head of a graph
        for before in node.all_input_nodes:
            if before not in inside and before.op != "get_attr":
                outside(before)
    for node in nodes:
        made[node] = graph.node_copy(node, lambda before: made[before] if before in made else outside(before))
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    users = [node for node in outputs if isinstance(node.meta.get("val"), torch.Tensor)] or nodes[-1:]
    graph.output(tuple(made[node] for node in users))
    module = fx.GraphModule(root, graph)
    module.eval()
    return module, tuple(inputs)


def task(module: Any, inputs: tuple[Any, ...]) -> Callable[[], object]:
    """One forward run, as the timing wants it (inside `torch.inference_mode`)."""
    forward = module.forward  # past the hooks of torch.nn.Module.__call__, which a layer inside a model does not pay

    def once() -> object:
        return forward(*inputs)

    return once


def touch(inputs: tuple[Any, ...]) -> Callable[[], object]:
    """Reads and writes the inputs in place, as the layer before would have written them."""
    writable = [
        value for value in inputs if value.is_floating_point() and (0 not in value.stride() or value.numel() <= 1)
    ]

    def once() -> object:
        for value in writable:
            value.mul_(1)
        return None

    return once


def save_brick(module: Any, inputs: tuple[Any, ...], path: Path) -> None:
    """The brick as an exported program on disk (`torch.export.load` reads it back)."""

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    torch.export.save(torch.export.export(module, inputs, strict=False), str(temporary))
    temporary.replace(path)


def _is_free(node: Any) -> bool:
    name = getattr(node.target, "__name__", str(node.target))
    return node.op == "call_function" and any(name.startswith(word) for word in FREE)


def _tensor_of(node: Any) -> Any:
    """The example tensor that a node gives; None where it gives none (or several)."""

    value = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) else (value if isinstance(value, (tuple, list)) else None)


def synthetic(example: Any) -> Any:
    """A tensor of the same shape, strides and dtype with drawn values (small, positive: also fit for a variance).

    Raises InputError where the example is no tensor.
    """

    if not isinstance(example, torch.Tensor):
        raise InputError(f"want a tensor, got {type(example).__name__}")
    shape, strides = tuple(int(n) for n in example.shape), tuple(int(n) for n in example.stride())
    if example.dtype.is_floating_point:
        return torch.empty_strided(shape, strides, dtype=example.dtype).uniform_(0.1, 1.0)
    return torch.ones(shape, dtype=example.dtype)


def _attribute(module: Any, target: str) -> Any:
    for part in target.split("."):
        module = getattr(module, part)
    return module


def _text(nodes: Sequence[Any]) -> str:
    """What a layer computes, in words that distinguish two different ones."""
    place = {node: f"%{i}" for i, node in enumerate(nodes)}
    return "; ".join(
        f"{node.target}({', '.join(_argument(a, place) for a in node.args)}{_keywords(node, place)})" for node in nodes
    )


def _keywords(node: Any, place: dict[Any, str]) -> str:
    return "".join(f", {key}={_argument(value, place)}" for key, value in sorted(node.kwargs.items()))


def _argument(value: Any, place: dict[Any, str]) -> str:
    if isinstance(value, fx.Node):
        if value in place:
            return place[value]
        example = value.meta.get("val")
        if isinstance(example, torch.Tensor):
            return f"{example.dtype}{list(example.shape)}/{list(example.stride())}"
        return str(value.op)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_argument(entry, place) for entry in value)}]"
    return repr(value)


def at_batch(name: str, batch: int) -> str:
    """The name under which a model at this batch is kept."""
    return name if batch == 1 else f"{name}, batch {batch}"


def batched(name: str, inputs: Inputs, batch: int) -> Inputs:
    """The inputs with their first size at `batch` where it is 1; a symbol as the first size is left to its value.

    Raises InputError where `batch` is below 1, or a batch above 1 is wanted of inputs whose first sizes are other
    numbers.
    """
    if batch < 1:
        raise InputError(f"--batch {batch}: want a whole number >= 1")
    if batch == 1:
        return inputs

    def made(wanted: Input) -> Input:
        first, *others = wanted.shape or (0,)
        if isinstance(first, str):
            return wanted
        if first != 1:
            raise InputError(
                f"model {name!r}: --batch {batch} wants inputs whose first size is 1 or a name, as "
                f"--input batch,3,224,224; one has {list(wanted.shape)}"
            )
        return replace(wanted, shape=(batch, *others))

    if isinstance(inputs, Mapping):
        return {key: made(value) for key, value in inputs.items()}
    return [made(value) for value in inputs]
