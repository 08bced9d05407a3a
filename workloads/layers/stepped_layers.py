"""Recurrent cells and attention that a program runs symbol by symbol, a kernel for each function of a step.

`tf.nn.dynamic_rnn` of TensorFlow 1.x multiplies the state and the symbol together in every step, joins no functions of
a gate, and adds the gradient of the weights up step by step; cuDNN's and MIOpen's layers, which `recurrent` describes,
project all symbols at once. Sources: tensorflow 1.x, python/ops/rnn.py, rnn_cell_impl.py (BasicLSTMCell, GRUCell),
control_flow_ops.py (gradients of loop invariants); contrib/seq2seq attention_wrapper.py (_bahdanau_score).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.layers.tape import NetworkTape, Value

Launches = Mapping[str, tuple[int, int, int]]
"""By function: how often a step runs it, and how many elements a time it reads and writes, over batch times hidden."""


@dataclass(frozen=True)
class Cell:
    """What a step of a cell runs: the sizes of its products over `hidden`, and its functions, forward and backward."""

    products: tuple[int, ...]
    forward: Launches
    backward: Launches


CELLS: Mapping[str, Cell] = {
    "lstm": Cell(
        (4,),
        {
            "bias_add": (1, 4, 4),
            "split": (1, 4, 4),
            "add": (2, 2, 1),
            "sigmoid": (3, 1, 1),
            "tanh": (2, 1, 1),
            "mul": (3, 2, 1),
            "select": (3, 2, 1),
        },
        {
            "mul": (6, 2, 1),
            "sigmoid_grad": (3, 2, 1),
            "tanh_grad": (2, 2, 1),
            "add_n": (2, 2, 1),
            "concat": (1, 4, 4),
            "select": (3, 2, 1),
        },
    ),
    "gru": Cell(
        (2, 1),
        {
            "bias_add": (2, 2, 2),
            "split": (1, 2, 2),
            "sigmoid": (1, 2, 2),
            "tanh": (1, 1, 1),
            "mul": (3, 2, 1),
            "sub": (1, 1, 1),
            "add": (1, 2, 1),
        },
        {
            "mul": (5, 2, 1),
            "sigmoid_grad": (1, 4, 2),
            "tanh_grad": (1, 2, 1),
            "neg": (1, 1, 1),
            "add_n": (3, 2, 1),
            "concat": (1, 2, 2),
        },
    ),
}


class SteppedTape(NetworkTape):
    """A tape whose recurrent layers run symbol by symbol."""

    def stepped(
        self, name: str, x: Value, hidden: int, function: str, beside: int = 0, *, bidirectional: bool = False
    ) -> Value:
        """One recurrent layer over x (batch, length, width); each step also reads `beside` features of a context."""
        batch, steps, width = x.shape
        inputs, cell, size = width + beside + hidden, CELLS[function], batch * hidden
        directions = [name, f"{name}.reverse"][: 2 if bidirectional else 1]
        self._parameter(name, len(directions) * sum(cell.products) * hidden * (inputs + 1))
        made = [self._forward(each, x, cell, hidden, inputs) for each in directions]

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            to_input: list[str] = []
            for each in directions:
                after = self._functions(f"{each}.backward", cell.backward, size, steps, gradient)
                for i, gates in enumerate(cell.products):
                    outputs = gates * hidden
                    bias: dict[str, Amount] = {"elements": batch * outputs, "outputs": outputs}
                    self._add(f"{each}.backward_bias{i}", "reduction", bias, after, {"function": "bias_grad"}, steps)
                    after = [self._product(f"{each}.backward_data{i}", inputs, batch, outputs, after, None, steps)]
                    weighed = self._product(f"{each}.backward_weight{i}", inputs, outputs, batch, after, None, steps)
                    total = inputs * outputs
                    sums: dict[str, Amount] = {"elements": total, "reads": 2 * total, "writes": total}
                    facts = {"function": "add"}
                    self._learn(
                        name, self._add(f"{each}.backward_add{i}", "elementwise", sums, [weighed], facts, steps)
                    )
                parts: dict[str, Amount] = {"reads": batch * inputs, "writes": batch * inputs}
                to_input.append(
                    self._add(f"{each}.backward_split", "move", parts, after, {"function": "slice"}, 2 * steps)
                )
            return [tuple(to_input)]

        shape = (batch, steps, hidden * len(directions))
        return self._layer(name, [x], shape, self._joined(name, batch * steps * hidden, made), backward)

    def _forward(self, name: str, x: Value, cell: Cell, hidden: int, inputs: Amount) -> str:
        """The steps of one direction."""
        batch, steps, _ = x.shape
        after: list[str | None] = [x.made_by]
        for i, gates in enumerate(cell.products):
            both: dict[str, Amount] = {"reads": batch * inputs, "writes": batch * inputs}
            after = [self._add(f"{name}.concat{i}", "move", both, after, {"function": "concat"}, steps)]
            after = [self._product(f"{name}.product{i}", gates * hidden, batch, inputs, after, None, steps)]
        return self._functions(name, cell.forward, batch * hidden, steps, after)[-1]

    def _functions(
        self, name: str, launches: Launches, size: Amount, steps: Amount, after: Sequence[str | None]
    ) -> list[str]:
        """One operation for each function of a step, with the times that the layer runs it."""
        last = [each for each in after if each is not None]
        for function, (count, reads, writes) in launches.items():
            dims: dict[str, Amount] = {"elements": writes * size, "reads": reads * size, "writes": writes * size}
            last = [self._add(f"{name}.{function}", "elementwise", dims, last, {"function": function}, count * steps)]
        return last

    def _joined(self, name: str, elements: Amount, made: Sequence[str]) -> str:
        """The outputs of both directions side by side."""
        if len(made) < 2:
            return made[0]
        dims: dict[str, Amount] = {"reads": elements * len(made), "writes": elements * len(made)}
        return self._add(f"{name}.both", "move", dims, made, {"function": "concat"})

    def stepped_attention(self, name: str, query: Value, memory: Value, width: int) -> Value:
        """Normed Bahdanau attention of every output symbol over the memory (batch, keys, width), step by step.

        A step touches the memory's keys and values anew: (batch, keys, width) elements in each of its functions.
        """
        batch, steps, _ = query.shape
        keys = memory.shape[1]
        projected = self.dense(f"{name}.memory", memory, width, bias=False)
        self._parameter(name, width * width + 2 * width)
        all_keys = batch * keys * width
        known = [query.made_by, projected.made_by]
        after = [self._product(f"{name}.query", width, batch, width, known, None, steps)]
        score: Launches = {"add": (2, 1, 1), "tanh": (1, 1, 1), "mul": (1, 1, 1)}
        after = self._functions(f"{name}.score", score, all_keys, steps, after)
        after = [self._sum(f"{name}.sum", all_keys, batch * keys, after, steps)]
        rows: dict[str, Amount] = {"rows": batch, "columns": keys}
        after = [self._add(f"{name}.softmax", "softmax", rows, after, {"function": "softmax"}, steps)]
        made = self._product(f"{name}.context", width, 1, keys, [*after, memory.made_by], None, steps, batch)

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            to_shares = self._product(f"{name}.backward_shares", keys, 1, width, gradient, None, steps, batch)
            to_memory = self._product(f"{name}.backward_context", width, keys, 1, gradient, None, steps, batch)
            facts = {"function": "softmax", "pass": "backward"}
            last = [self._add(f"{name}.backward_softmax", "softmax", rows, [to_shares], facts, steps)]
            # gradients of the score, and what the steps add up: of the keys, and of the memory
            back: Launches = {"mul": (2, 2, 1), "tanh_grad": (1, 2, 1), "add_n": (2, 2, 1)}
            last = self._functions(f"{name}.backward", back, all_keys, steps, [*last, to_memory])
            for what, outputs, count in (("keys", batch * width, 1), ("vector", width, 2)):
                self._sum(f"{name}.backward_{what}", all_keys, outputs, last, count * steps)
            to_query = self._product(f"{name}.backward_data", width, batch, width, last, None, steps)
            self._learn(name, self._product(f"{name}.backward_weight", width, width, batch, last, None, steps))
            return [(to_query,), (to_memory,), tuple(last)]

        return self._layer(name, [query, memory, projected], (batch, steps, width), made, backward)
