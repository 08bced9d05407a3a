"""A torch callable as a workload, without weights, a device or running it.

The callable runs once on fake tensors (shapes only) whose named sizes are symbols; a dispatch mode sees every ATen
operation of forward, backward and optimizer. What follows what is decided by memory: an operation waits for the last
writer of each storage it reads, and for the readers of what it overwrites, so views and in-place operations stay right.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import Any

from slipstick.common.lazy_packages import torch
from slipstick.workloads.graph.assembly import Piece, Tensor
from slipstick.workloads.importers.torch.aten import Call
from slipstick.workloads.importers.torch.aten_contractions import trilinear_shape
from slipstick.workloads.importers.torch.fake_sizes import FakeSizes

# What says nothing about work: aliases of a whole tensor.
_ALIASES = frozenset({"detach", "alias", "lift_fresh"})


def _signature(*required: str, **defaults: Any) -> Signature:
    kind = Parameter.POSITIONAL_OR_KEYWORD
    named = [Parameter(name, kind, default=value) for name, value in defaults.items()]
    return Signature([*(Parameter(name, kind) for name in required), *named])


DROPOUT = _signature("input", p=0.5, training=True, inplace=False)
"""Of torch.nn.functional.dropout."""
ATTENTION = _signature(attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False)
"""Of torch.nn.functional.scaled_dot_product_attention, behind queries, keys and values."""
ALIGNED = 16
"""Bytes of which the sizes of heads are multiples in the kernel of values of another size (`as_on_gpus`)."""
MEMORY_EFFICIENT = (torch.float16, torch.bfloat16, torch.float32)
"""Data types in which there is that kernel."""
_VIEWS = frozenset({"_unsafe_view", "_reshape_alias"})


@dataclass
class RecordedNode:
    """One recorded operation: the call (or ready pieces), and what it waits for as (node, position of the result)."""

    name: str
    phase: str
    layer: str
    call: Call | None
    pieces: list[Piece]
    dtype: str = "float32"
    before: set[tuple[int, int | None]] = field(default_factory=set)


def make_recorder(sizes: FakeSizes, truth: Callable[[], bool] | None = None) -> Any:
    """A fresh recording mode for the sizes of a recording (its class needs torch, hence the function).

    `truth` gives the truth values that the code reads from tensors; without it, reading one is torch's error.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
    from torch.utils.weak import WeakTensorKeyDictionary

    plain_types = (torch.dtype, torch.device, torch.memory_format, torch.layout)

    def tensors(tree: Any) -> list[Any]:
        return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        """Writes down each ATen operation as a `RecordedNode`."""

        def __init__(self) -> None:
            super().__init__()
            self.nodes: list[RecordedNode] = []
            self.kernel_choices: set[int] = set()
            self.phase = "forward"
            self.layers: list[str] = []
            self._layer_of: dict[int, str] = {}
            self._writer: dict[int, tuple[int, int | None]] = {}
            self._readers: dict[int, set[int]] = {}
            # Of each view: its node, and the last writer of its storage at that time.
            # Weak keys: a gradient that somebody else holds would be copied by autograd in place of being kept,
            # and the address of a tensor that died is soon another's.
            self._view: MutableMapping[Any, tuple[int, tuple[int, int | None] | None]] = WeakTensorKeyDictionary()
            # A storage's address is its name: none may be freed.
            self._alive: dict[int, Any] = {}
            self._paused = 0

        @contextlib.contextmanager
        def pause(self) -> Iterator[None]:
            """Nothing is recorded inside."""
            self._paused += 1
            try:
                yield
            finally:
                self._paused -= 1

        @staticmethod
        def size(value: Any) -> Any:
            """A symbolic int as its expression."""
            return value.node.expr if isinstance(value, torch.SymInt) else value

        def add(
            self, name: str, call: Call | None, pieces: list[Piece], reads: Sequence[Any], writes: Sequence[Any]
        ) -> int:
            """One node; `writes` holds the results in order, None for those not requested."""
            index = len(self.nodes)
            floating = [str(t.dtype).removeprefix("torch.") for t in reads if t.is_floating_point()]
            dtype = floating[0] if floating else "float32"
            node = RecordedNode(name, self.phase, self._layer(), call, pieces, dtype)
            for tensor in reads:
                node.before |= self._made_by(tensor)
                self._readers.setdefault(_storage(tensor), set()).add(index)
            for position, tensor in enumerate(writes):
                if tensor is None:
                    continue
                key = _storage(tensor)
                node.before |= {(reader, None) for reader in self._readers.pop(key, ())}
                if key in self._writer:
                    node.before.add(self._writer[key])
                self._writer[key] = (index, position)
            node.before = {(before, position) for before, position in node.before if before != index}
            self._hold([*reads, *writes])
            self.nodes.append(node)
            return index

        def _hold(self, kept: Sequence[Any]) -> None:
            self._alive |= {_storage(tensor): tensor.untyped_storage() for tensor in kept if tensor is not None}

        def _made_by(self, tensor: Any) -> set[tuple[int, int | None]]:
            writer = self._writer.get(_storage(tensor))
            view = self._view.get(tensor)
            if view is not None and view[1] == writer:
                return {(view[0], None)}
            return set() if writer is None else {writer}

        def _layer(self) -> str:
            if self.phase != "backward":
                return self.layers[-1] if self.layers else ""
            node = torch._C._current_autograd_node()
            return "" if node is None else self._layer_of.get(node._sequence_nr(), "")

        def _plain(self, value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                strides = tuple(map(self.size, value.stride())) if value.layout == torch.strided else None
                return Tensor(tuple(map(self.size, value.shape)), str(value.dtype).removeprefix("torch."), strides)
            if isinstance(value, (list, tuple)):
                return tuple(self._plain(part) for part in value)
            if isinstance(value, (torch.SymFloat, torch.SymBool)):
                return None
            return str(value) if isinstance(value, plain_types) else self.size(value)

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            before = len(sizes.guards)
            if func._opname == "baddbmm":
                # torch's own shape rule expands by numbers, which symbolic sizes are not.
                _, left, right = args[:3]
                out = left.new_empty((left.shape[0], left.shape[1], right.shape[2]))
            elif func._opname == "_trilinear":
                out = args[0].new_empty(trilinear_shape([tuple(t.shape) for t in args[:3]], args[3:6], args[6]))
            elif truth and func._opname == "_local_scalar_dense" and _is_unknown_truth(args[0]):
                out = truth()
            else:
                try:
                    out = func(*args, **kwargs)
                except Exception:
                    if not sizes.wanted():
                        raise
                    out = func(*args, **kwargs)  # a result whose size hangs on values
            if func._opname.startswith("convolution"):
                # torch picks its CPU kernel by these; the operation is the same.
                self.kernel_choices |= set(range(before, len(sizes.guards)))
            if self._paused or func.namespace == "prim":
                return out
            if self.phase == "forward":
                # The autograd node of this operation has the number before the next one: its backward finds the layer.
                self._layer_of[torch.autograd._get_sequence_nr() - 1] = self._layer()
            schema = func._schema
            name = func._opname if func.namespace == "aten" else f"{func.namespace}::{func._opname}"
            values = [
                args[i] if i < len(args) else kwargs.get(a.name, a.default_value if a.has_default_value() else None)
                for i, a in enumerate(schema.arguments)
            ]
            reads, results = tensors(values), tensors(out)
            if name in _ALIASES:
                self._follow(reads, results)
                return out
            is_view = func.is_view or name in _VIEWS
            tags = frozenset({*(str(tag).removeprefix("Tag.") for tag in func.tags), *(("view",) if is_view else ())})
            call = Call(name, tuple(map(self._plain, values)), tuple(map(self._plain, results)), tags)
            if is_view:
                self._add_view(name, call, reads, results)
            elif reads or results:
                changed = [
                    v
                    for a, v in zip(schema.arguments, values, strict=True)
                    if a.alias_info is not None and a.alias_info.is_write
                ]
                self.add(name, call, [], reads, _unique([*_flat(out), *tensors(changed)]))
            return out

        def _add_view(self, name: str, call: Call, reads: list[Any], results: list[Any]) -> None:
            index = self.add(name, call, [], reads, ())
            for result in results:
                self._view[result] = (index, self._writer.get(_storage(result)))
            self._hold(results)

        def _follow(self, reads: list[Any], results: list[Any]) -> None:
            for result in results:
                view = self._view.get(reads[0]) if reads else None
                if view is not None:
                    self._view[result] = view
            self._hold(results)

    def _flat(out: Any) -> list[Any]:
        entries = list(out) if isinstance(out, (tuple, list)) else [out]
        flat: list[Any] = []
        for entry in entries:
            flat += list(entry) if isinstance(entry, (tuple, list)) else [entry]
        return [entry if isinstance(entry, torch.Tensor) else None for entry in flat]

    return Recorder()


def _is_unknown_truth(tensor: Any) -> bool:
    """Whether a truth value is read that torch has not kept (it keeps those of constants)."""
    return str(tensor.dtype) == "torch.bool" and getattr(tensor, "constant", None) is None


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _unique(entries: list[Any]) -> list[Any]:
    seen: set[int] = set()
    kept = []
    for entry in entries:
        if entry is None or id(entry) not in seen:
            kept.append(entry)
        if entry is not None:
            seen.add(id(entry))
    return kept


@dataclass(frozen=True)
class Subject:
    """What is recorded: a callable with the fake tensors that stand for its parameters and buffers."""

    call: Callable[..., Any]
    parameters: Mapping[str, Any]
    count: int
    size_bytes: int


def fake_subject(model: Any, recorder: Any, stack: contextlib.ExitStack, *, training: bool) -> Subject:
    """Calls of a module with fake tensors for its own; tied tensors stay tied, the module stays as it is."""

    if not isinstance(model, torch.nn.Module):
        return Subject(model, {}, 0, 0)
    copies: dict[int, Any] = {}
    replaced: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        if id(tensor) not in copies:
            copy = torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype)
            copies[id(tensor)] = parameters[name] = copy.requires_grad_(tensor.requires_grad)
        replaced[name] = copies[id(tensor)]
    for name, tensor in model.named_buffers(remove_duplicate=False):
        if id(tensor) not in copies:
            copies[id(tensor)] = torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype)
        replaced[name] = copies[id(tensor)]
    for given, module in model.named_modules():
        path = given.replace("_orig_mod.", "").removesuffix("._orig_mod")
        stack.callback(module.register_forward_pre_hook(lambda _m, _x, path=path: recorder.layers.append(path)).remove)
        stack.callback(module.register_forward_hook(lambda _m, _x, _y: _popped(recorder.layers)).remove)
    stack.callback(model.train, model.training)
    model.train(training)
    count = sum(p.numel() for p in parameters.values())
    size = sum(p.numel() * p.element_size() for p in parameters.values())

    def call(*args: Any, **kwargs: Any) -> Any:
        return torch.func.functional_call(model, replaced, args, kwargs)

    return Subject(call, parameters, count, size)


def before_compilation(model: Any) -> tuple[Any, bool]:
    """What its user wrote, and whether that or a part of it went through `torch.compile`."""

    written = getattr(model, "_orig_mod", None) or getattr(model, "_torchdynamo_orig_callable", None) or model
    owner = getattr(written, "__self__", None)
    if getattr(written, "__name__", "") == "forward" and isinstance(owner, torch.nn.Module):
        written = owner  # torch.compile(model.forward)
    parts = written.modules() if isinstance(written, torch.nn.Module) else ()
    compiler = sys.modules.get("torch._dynamo.eval_frame")  # without it nothing was compiled
    inside = compiler is not None and any(
        isinstance(part, compiler.OptimizedModule) or part._compiled_call_impl is not None for part in parts
    )
    return written, hasattr(model, "_orig_mod") or hasattr(model, "_torchdynamo_orig_callable") or inside


def _popped(stack: list[str]) -> None:
    stack.pop()


def _takes_apart(query: Any, key: Any, value: Any) -> bool:
    """Whether attention with values of another size than queries and keys is one kernel on GPUs (`as_on_gpus`)."""
    same = query.dim() == 4 and query.shape[:2] == key.shape[:2] == value.shape[:2] and query.shape[-1] == key.shape[-1]
    typed = query.dtype == key.dtype == value.dtype and query.dtype in MEMORY_EFFICIENT
    aligned = all(one.shape[-1] * one.element_size() % ALIGNED == 0 for one in (query, value))
    return same and typed and aligned and bool(query.shape[-1] != value.shape[-1])


@contextlib.contextmanager
def as_on_gpus() -> Iterator[None]:
    """Calls that PyTorch hands to other kernels on GPUs than on CPUs, as on GPUs.

    Fused attention drops weights itself there, and one of its kernels takes values of another size than queries and
    keys, of as many batches and heads, in three types (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp,
    `can_use_mem_efficient_attention`); on CPUs such attention is its parts. Dropout is
    one kernel there that keeps a mask of a byte a number (aten/src/ATen/native/Dropout.cpp,
    `is_fused_kernel_acceptable`); CPUs draw, scale and multiply one after the other. The fused inference path of
    nn.TransformerEncoder is left out: fake tensors do not know it.
    """
    from torch.nn import functional

    before = torch.backends.mha.get_fastpath_enabled()
    attention, dropout = functional.scaled_dot_product_attention, functional.dropout

    def attention_there(query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> Any:
        given = ATTENTION.bind_partial(*rest, **named)
        given.apply_defaults()
        named = {**given.arguments, "dropout_p": 0.0}
        attn_mask = named["attn_mask"]
        if not _takes_apart(query, key, value):
            return attention(query, key, value, **named)
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -math.inf)
        kept = torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value))
        fused = torch.ops.aten._scaled_dot_product_efficient_attention
        return fused(query, key, value, attn_mask, kept, 0.0, named["is_causal"], scale=named["scale"])[0]

    def dropout_there(*args: Any, **named: Any) -> Any:
        given = DROPOUT.bind(*args, **named)
        given.apply_defaults()
        tensor, rate, trains, in_place = given.args
        if trains and 0 < rate < 1 and not in_place:
            return torch.native_dropout(tensor, rate, trains)[0]
        return dropout(*args, **named)

    torch.backends.mha.set_fastpath_enabled(False)
    functional.scaled_dot_product_attention, functional.dropout = attention_there, dropout_there
    try:
        yield
    finally:
        functional.scaled_dot_product_attention, functional.dropout = attention, dropout
        torch.backends.mha.set_fastpath_enabled(before)
