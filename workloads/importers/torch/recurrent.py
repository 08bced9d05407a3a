"""nn.LSTM, nn.GRU and nn.RNN while recording: one macro in place of a call that would fix the length.

torch's own recurrent kernels specialise batch and length under symbolic sizes. Here the module's forward is replaced
for the time of a recording by a function that makes results of the right shape and records, for each layer and
direction, the projection of the inputs (a gemm) and the recurrence (one operation done once a step); its backward does
the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import nn, torch
from slipstick.workloads.graph.assembly import Number, Piece
from slipstick.workloads.layers.sequence_layers import GATES


def recurrent_pieces(config: dict[str, Any], *, backward: bool, needs_input: bool = True) -> list[Piece]:
    """The operations of a stack of recurrent layers."""
    gates, hidden, directions = GATES[config["function"]], config["hidden"], config["directions"]
    outputs = config["projection"] or hidden
    tokens = config["batch"] * config["steps"]
    stack = {name: config[name] for name in ("layers", "directions", "inputs")} | {"length": config["steps"]}
    pieces: list[Piece] = []

    def gemm(m: Number, n: Number, k: Number, suffix: str, after: tuple[int, ...], **attributes: Any) -> int:
        pieces.append(Piece("gemm", {"batch": 1, "m": m, "n": n, "k": k}, attributes, suffix, after))
        return len(pieces) - 1

    def steps(suffix: str, after: tuple[int, ...]) -> int:
        facts: dict[str, Any] = {"function": config["function"]}
        if config["projection"]:
            facts["projection"] = True
        if backward:
            facts["pass"] = "backward"
        dims = {"batch": config["batch"], "hidden": hidden, "gates": gates, "outputs": outputs, **stack}
        pieces.append(Piece("recurrent", dims, facts, suffix, after, times=config["steps"]))
        return len(pieces) - 1

    arrived: tuple[int, ...] = ()
    layers = range(config["layers"])
    for layer in reversed(layers) if backward else layers:
        width = config["inputs"] if layer == 0 else outputs * directions
        made = []
        for direction in range(directions):
            tag = f"layer{layer}" + (".reverse" if direction else "")
            if not backward:
                projected = gemm(gates * hidden, tokens, width, f"{tag}.inputs", arrived, bias=config["bias"])
                made.append(steps(f"{tag}.steps", (projected,)))
                continue
            back = steps(f"{tag}.steps", arrived)
            gemm(width, gates * hidden, tokens, f"{tag}.inputs_weight", (back,))
            gemm(outputs, gates * hidden, tokens, f"{tag}.steps_weight", (back,))
            if config["projection"]:
                gemm(hidden, outputs, tokens, f"{tag}.projection_weight", (back,))
            if layer > 0 or needs_input:
                made.append(gemm(width, tokens, gates * hidden, f"{tag}.inputs_data", (back,)))
        arrived = tuple(made)
    return pieces


@contextlib.contextmanager
def recurrent_macros(recorder: Any) -> Iterator[None]:
    """Recurrent modules are macros inside this block.

    Raises InputError inside, where a module is given a packed sequence: its lengths are known to data only.
    """

    class Macro(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, config: dict[str, Any], x: Any, *weights: Any) -> Any:
            states = config["layers"] * config["directions"]
            with recorder.pause():
                ctx.config = config
                ctx.save_for_backward(x, *weights)
                out = x.new_empty((*x.shape[:-1], (config["projection"] or config["hidden"]) * config["directions"]))
                state = x.new_empty((states, config["batch"], config["projection"] or config["hidden"]))
                cell = x.new_empty((states, config["batch"], config["hidden"]))
            pieces = recurrent_pieces({k: recorder.size(v) for k, v in config.items()}, backward=False)
            recorder.add(config["function"], None, pieces, (x, *weights), (out, state, cell))
            return out, state, cell

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            x, *weights = ctx.saved_tensors
            with recorder.pause():
                made = [torch.empty_like(t) if t.requires_grad else None for t in (x, *weights)]
            pieces = recurrent_pieces(
                {k: recorder.size(v) for k, v in ctx.config.items()}, backward=True, needs_input=x.requires_grad
            )
            arrived = tuple(g for g in gradients if g is not None)
            recorder.add(
                f"{ctx.config['function']}_backward",
                None,
                pieces,
                (*arrived, x, *weights),
                tuple(g for g in made if g is not None),
            )
            return None, *made

    def forward(module: Any, x: Any, hx: Any = None) -> Any:
        if isinstance(x, nn.utils.rnn.PackedSequence):
            raise InputError(
                f"{type(module).__name__}: packed sequences have lengths only data know; record it with padded tensors"
            )
        first = 0 if module.batch_first else 1
        batched = x.dim() == 3
        if not batched:
            x = x.unsqueeze(first)
        config = {
            "function": {"LSTM": "lstm", "GRU": "gru"}.get(module.mode, "rnn"),
            "batch": x.shape[first],
            "steps": x.shape[1 - first],
            "inputs": module.input_size,
            "hidden": module.hidden_size,
            "layers": module.num_layers,
            "directions": 2 if module.bidirectional else 1,
            "projection": module.proj_size,
            "bias": module.bias,
        }
        # By name: parameters swapped in for the recording are not in the module's own flat list.
        out, state, cell = Macro.apply(config, x, *(getattr(module, name) for name in module._flat_weights_names))
        if not batched:
            out, state, cell = out.squeeze(first), state.squeeze(1), cell.squeeze(1)
        return (out, (state, cell)) if module.mode == "LSTM" else (out, state)

    kept = {kind: kind.forward for kind in (nn.LSTM, nn.GRU, nn.RNN)}
    try:
        for kind in kept:
            kind.forward = forward
        yield
    finally:
        for kind, original in kept.items():
            kind.forward = original
