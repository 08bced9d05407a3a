"""What is recorded against what PyTorch dispatches for the same module on a CPU, operator by operator."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the torch extra is not installed")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import slipstick as ss  # noqa: E402
from slipstick.workloads.graph.assembly import Tensor  # noqa: E402
from slipstick.workloads.graph.workload import Workload  # noqa: E402
from slipstick.workloads.importers.torch.aten import Call, read_call  # noqa: E402
from slipstick.workloads.importers.torch.recorder import as_on_gpus  # noqa: E402
from tests.workloads.torch_networks import networks  # noqa: E402

# The fourth of them that runs always; the rest runs with the slow tests.
QUICK = {
    "linear behind a transpose",
    "frozen linear behind a transpose",
    "matrix behind a transpose",
    "linear of heads",
    "Bilinear of sequences",
    "einsum into heads",
    "einsum out of heads",
    "MultiheadAttention batch first, weights True, keys of 8",
    "MultiheadAttention sequence first, weights False, keys of 6",
    "self-attention batch first",
    "TransformerEncoder, norm first True",
    "TransformerDecoder",
    "attention of grouped queries",
    "convolutional network",
    "ConvTranspose2d",
}
ALL = [pytest.param(*given, id=given[0], marks=() if given[0] in QUICK else pytest.mark.slow) for given in networks()]


class Dispatched(TorchDispatchMode):  # type: ignore[misc]
    """Counts the work of each operator that PyTorch dispatches, by its name, kind and dims."""

    def __init__(self) -> None:
        super().__init__()
        self.work: Counter[Any] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = {**dict(zip([a.name for a in func._schema.arguments], args, strict=False)), **(kwargs or {})}
        values = [given.get(a.name, a.default_value) for a in func._schema.arguments]
        results = tuple(_shape(leaf) for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor))
        tags = {str(tag).removeprefix("Tag.") for tag in func.tags} | ({"view"} if func.is_view else set())
        pieces = read_call(Call(func._opname, tuple(map(_shape, values)), results, frozenset(tags)))
        assert pieces is not None, f"{func._opname} is not known"
        name = func._opname.replace("_for_cpu", "")
        for piece in pieces:
            if piece.kind != "view":
                self.work[piece.suffix or name, piece.kind, tuple(sorted(piece.dims.items())), piece.times] += 1
        return out


def _shape(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Tensor(tuple(value.shape), str(value.dtype).removeprefix("torch."), tuple(value.stride()))
    return tuple(map(_shape, value)) if isinstance(value, (list, tuple)) else value


def recorded(workload: Workload) -> Counter[Any]:
    """The work of a workload's forward pass, as `Dispatched` counts it."""
    return Counter(
        (op.name.split(".")[-1].split("#")[0], op.kind, tuple(sorted(op.dims.items())), op.times)
        for op in workload
        if op.kind != "view" and op.attributes.get("phase", "forward") == "forward"
    )


def dispatched(module: Any, inputs: tuple[Any, ...], *, gradients: bool) -> Counter[Any]:
    with warnings.catch_warnings(), as_on_gpus(), torch.set_grad_enabled(gradients), Dispatched() as log:
        warnings.simplefilter("ignore")
        module(*inputs)
    return log.work


def test_the_networks_are_sixty_and_more_and_a_fourth_runs_always() -> None:
    names = [name for name, *_ in networks()]
    assert len(names) == len(set(names)) >= 60
    assert len(QUICK) == 15
    assert set(names) >= QUICK


@pytest.mark.parametrize(("name", "module", "inputs"), ALL)
def test_operators_and_shapes_are_those_that_pytorch_dispatches(name: str, module: Any, inputs: Any) -> None:
    made = ss.import_torch(module, inputs, purpose="inference")
    assert not made.uncounted
    assert recorded(made) == dispatched(module, inputs, gradients=False), name
    if any(parameter.requires_grad for parameter in module.parameters()):
        trained = ss.import_torch(module, inputs, purpose="training", optimizer=None)
        module.train()
        logged = dispatched(module, inputs, gradients=True)
        module.eval()
        assert recorded(trained) == logged, name


@pytest.mark.parametrize(("name", "module", "inputs"), ALL)
def test_inference_is_never_slower_than_the_forward_part_of_a_training_step(
    name: str, module: Any, inputs: Any
) -> None:
    if not any(parameter.requires_grad for parameter in module.parameters()):
        pytest.skip("nothing to train")

    def forward_time(purpose: str) -> float:
        made = ss.import_torch(module, inputs, purpose=purpose, optimizer=None)
        forward = {op.name for op in made if op.attributes.get("phase", "forward") == "forward"}
        answer = ss.question(made, "H100", "roofline").answer()
        return sum(part.time * part.times for part in answer.parts if part.name in forward)

    assert forward_time("inference") <= forward_time("training") * (1 + 1e-9), name


def test_a_small_gpt_reads_its_weights_once() -> None:
    """512 positions behind the transpose of `batch_first`: one product a layer, not one a position."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, norm_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    made = ss.import_torch(encoder, [ss.Input(("batch", 512, 64))], purpose="inference")
    assert {op.dims["batch"] for op in made if op.kind == "gemm"} == {1}


class ApartHeads(torch.nn.Module):
    """Attention of queries and keys of 24 numbers a head, and values of another size."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Linear(32, 4 * size) for size in (24, 24, value))

    def forward(self, x: Any) -> Any:
        heads = [part(x).unflatten(-1, (4, -1)).transpose(1, 2) for part in self.parts]
        return torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)


@pytest.mark.parametrize(("value", "alone"), [(16, True), (24, True), (18, False)])
def test_attention_with_values_of_another_size_is_one_kernel_where_sizes_are_aligned(value: int, alone: bool) -> None:
    """sdp_utils.cpp, check_head_dim_size_mem_efficient: float32 heads are multiples of 4 numbers (16 bytes)."""
    made = ss.import_torch(ApartHeads(value), (torch.empty(2, 8, 32),))
    fused = [op for op in made if op.kind == "attention"]
    assert [(op.dims["head_dim"], op.dims["value_dim"], op.attributes.get("causal")) for op in fused] == (
        [(24, value, True)] * 2 if alone else []
    )
    assert [op.attributes.get("pass") for op in fused] == ([None, "backward"] if alone else [])
    assert any(op.kind == "softmax" for op in made) != alone


class Attention(torch.nn.Module):
    """Nothing but attention."""

    def forward(self, query: Any, key: Any, value: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)


@pytest.mark.parametrize(
    ("dtype", "batch", "alone"),
    [("bfloat16", 2, True), ("float32", 2, True), ("float64", 2, False), ("float32", 1, False)],
)
def test_attention_is_one_kernel_in_the_types_and_batches_that_it_takes(dtype: str, batch: int, alone: bool) -> None:
    """sdp_utils.cpp, can_use_mem_efficient_attention: 16 bits or float32, queries and keys of as many batches."""
    shapes = ((2, 4, 8, 24), (batch, 4, 8, 24), (batch, 4, 8, 16))
    inputs = tuple(torch.empty(shape, dtype=getattr(torch, dtype)) for shape in shapes)
    made = ss.import_torch(Attention(), inputs, purpose="inference")
    assert ("attention" in made.kinds, "softmax" in made.kinds) == (alone, not alone)
