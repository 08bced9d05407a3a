"""Layers of sequences: embeddings, recurrences, products between positions; features last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import operation, product
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.gradient_tape import GradientTape, Value, flags

GATES: Mapping[str, int] = {"lstm": 4, "gru": 3, "rnn": 1}


class SequenceLayers(GradientTape):
    """A tape that knows layers of sequences."""

    def pairs(self, name: str, a: Value, b: Value) -> Value:
        """Sums of all pairs of rows: a (batch, i, width) and b (batch, j, width) to (batch, i, j, width)."""
        shape = (a.shape[0], a.shape[1], b.shape[1], a.shape[2])
        elements = product(shape)
        dims: dict[str, Amount] = {"elements": elements, "reads": a.elements + b.elements, "writes": elements}
        made = self._add(name, "elementwise", dims, [a.made_by, b.made_by], {"function": "add"})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            sides = (("left", a), ("right", b))
            return [(self._sum(f"{name}.backward_{side}", elements, x.elements, gradient),) for side, x in sides]

        return self._layer(name, [a, b], shape, made, backward)

    def embedding(
        self, name: str, indices: Value, vocabulary: int, width: int, shared_with: str | None = None
    ) -> Value:
        """Rows of a table picked by index."""
        if shared_with is None:
            self._parameter(name, vocabulary * width)
        dims: dict[str, Amount] = {"rows": indices.elements, "width": width, "table": vocabulary}
        made = self._add(name, "gather", dims, [indices.made_by], {"function": "gather"})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            table = vocabulary * width
            zero = self._add(f"{name}.backward_zero", "move", {"reads": 0, "writes": table}, (), {"function": "fill"})
            self._learn(
                shared_with or name,
                self._add(f"{name}.backward", "gather", dims, [*gradient, zero], {"function": "scatter"}),
            )
            return [()]

        return self._layer(shared_with or name, [indices], (*indices.shape, width), made, backward)

    def batched_product(
        self, name: str, a: Value, b: Value, rows: Amount, inner: Amount, columns: Amount, shape: Sequence[Amount]
    ) -> Value:
        """a (batch, rows, inner) times b (batch, inner, columns), batch over whatever is left of a's elements."""
        batch = a.elements / (rows * inner)
        batch = batch if not isinstance(batch, float) else int(batch)
        made = self._product(name, columns, rows, inner, [a.made_by, b.made_by], batch=batch)

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            sides = (("left", inner, rows, columns, b), ("right", columns, inner, rows, a))
            return [
                (self._product(f"{name}.backward_{side}", m, n, k, [*gradient, other.made_by], batch=batch),)
                for side, m, n, k, other in sides
            ]

        return self._layer(name, [a, b], shape, made, backward)

    def attention(
        self, name: str, query: Value, key: Value, value: Value, heads: int, kv_heads: int, keys: Amount
    ) -> Value:
        """softmax(Q K^T) V in one operation; causal where there are as many queries as keys.

        `keys`: number of tokens that each query attends to.
        """
        batch, queries, width = query.shape
        size = width // heads
        dims: dict[str, Amount] = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "queries": queries}
        dims |= {"keys": keys, "head_dim": size, "value_dim": size}
        made_by, facts = [query.made_by, key.made_by, value.made_by], flags(causal=keys == queries)
        made, back = self._add(name, "attention", dims, made_by, facts), {**facts, "pass": "backward"}
        return self._with_gradient(name, [query, key, value], query.shape, made, "attention", dims, back, (made,))

    def kept(self, name: str, x: Value) -> Value:
        """What is written into a cache for later steps to read."""
        dims: dict[str, Amount] = {"reads": x.elements, "writes": x.elements}
        made = self._add(name, "move", dims, [x.made_by], {"function": "copy"})
        return self._layer(name, [x], x.shape, made, lambda gradient: [gradient])

    def concatenate(self, name: str, *inputs: Value) -> Value:
        """Values side by side along the last axis."""
        shape = (*inputs[0].shape[:-1], sum((x.shape[-1] for x in inputs[1:]), start=inputs[0].shape[-1]))
        elements = product(shape)
        made = self._add(
            name, "move", {"reads": elements, "writes": elements}, [x.made_by for x in inputs], {"function": "cat"}
        )
        return self._layer(name, inputs, shape, made, lambda gradient: [gradient for _ in inputs])

    def recurrent(self, name: str, x: Value, hidden: int, function: str, *, bidirectional: bool = False) -> Value:
        """One recurrent layer over x (batch, length, width): inputs projected at once, then one step after the other.

        As torch and cuDNN do it: two biases, gates computed together.
        """
        batch, steps, width = x.shape
        gates = GATES[function]
        tokens = batch * steps
        outputs = hidden * (2 if bidirectional else 1)
        self._parameter(name, (outputs // hidden) * gates * hidden * (width + hidden + 2))
        step: dict[str, Amount] = {"batch": batch, "hidden": hidden, "gates": gates, "outputs": hidden}
        made: list[str] = []
        directions = [name, f"{name}.reverse"][: 2 if bidirectional else 1]
        for each in directions:
            projected = self._product(f"{each}.inputs", gates * hidden, tokens, width, [x.made_by], {"bias": True})
            body = recurrent_step(function, batch, hidden, self.dtype)
            made.append(self._add(f"{each}.steps", "recurrent", step, [projected], {"function": function}, steps, body))
        last = made[0]
        if bidirectional:
            last = self._add(
                f"{name}.both",
                "move",
                {"reads": tokens * outputs, "writes": tokens * outputs},
                made,
                {"function": "cat"},
            )

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            to_input: list[str] = []
            for each in directions:
                back = self._add(
                    f"{each}.backward_steps",
                    "recurrent",
                    step,
                    [*gradient, f"{each}.steps"],
                    {"function": function, "pass": "backward"},
                    steps,
                )
                for what, k in (("inputs", width), ("steps", hidden)):
                    weight = self._product(f"{each}.{what}.backward_weight", k, gates * hidden, tokens, [back])
                    self._learn(name, weight)
                if x.needs_gradient:
                    data = self._product(f"{each}.inputs.backward_data", width, tokens, gates * hidden, [back])
                    to_input.append(data)
            return [tuple(to_input)]

        return self._layer(name, [x], (batch, steps, outputs), last, backward)


def recurrent_step(function: str, batch: Amount, hidden: int, dtype: str) -> Workload:
    """One step of a recurrent layer of `batch` sequences and `hidden` units: the product with the state, then the
    gates.
    """
    gates = GATES[function]
    product_ = operation("state", "gemm", {"batch": 1, "m": gates * hidden, "n": batch, "k": hidden}, dtype)
    dims: dict[str, Amount] = {
        "elements": batch * hidden,
        "reads": batch * hidden * (2 * gates + 1),
        "writes": 2 * batch * hidden,
    }
    pointwise = operation("gates", "elementwise", dims, dtype, {"function": f"{function}_gates"})
    return Workload(f"{function}-step", (product_, pointwise), (("state", "gates"),))
