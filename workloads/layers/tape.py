"""Writing networks down: layers forward, and from them the backward pass and the optimizer.

A `NetworkTape` takes layers in order and remembers what each does to gradients; its `inference` and `training` make the
workload. Shapes are tuples of numbers or symbols, channels first for images, features last for sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import product, stored_norm
from slipstick.workloads.graph.workload import Attribute, Workload
from slipstick.workloads.layers.gradient_tape import Value, flags
from slipstick.workloads.layers.image_layers import ImageLayers
from slipstick.workloads.layers.sequence_layers import SequenceLayers

__all__ = ["NetworkTape", "Value"]


SCALES = ("mul", "masked_fill")
"""Functions of one value that multiply its gradient by what is known beforehand."""


class NetworkTape(ImageLayers, SequenceLayers):
    """A network being written down."""

    def dense(
        self, name: str, x: Value, outputs: Amount, *, bias: bool = True, shared_with: str | None = None
    ) -> Value:
        """y = W x + b over the last axis; `shared_with` names the layer whose weights are used again (tied)."""
        inputs, tokens = x.shape[-1], product(x.shape[:-1])
        if shared_with is None:
            self._parameter(name, inputs * outputs)
        if bias:
            self._parameter(name, outputs)
        made = self._product(name, outputs, tokens, inputs, [x.made_by], flags(bias=bias))

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            weight = self._product(f"{name}.backward_weight", inputs, outputs, tokens, [*gradient, x.made_by])
            self._learn(shared_with or name, weight)
            if bias:
                self._learn_bias(name, tokens * outputs, outputs, gradient)
            if not x.needs_gradient:
                return [()]
            return [(self._product(f"{name}.backward_data", inputs, tokens, outputs, gradient),)]

        return self._layer(name, [x], (*x.shape[:-1], outputs), made, backward)

    def norm(self, name: str, x: Value, function: str = "batch", statistics: str = "batch") -> Value:
        """Normalisation with scale and shift.

        "batch" over all but the channels of images (the last axis of sequences), "layer" or "rms" over the last axis.
        Statistics are those of the "batch" or, of a batch norm at inference, "running" ones (`stored_norm`).
        """
        features = x.shape[1] if function == "batch" and len(x.shape) > 3 else x.shape[-1]
        groups = features if function == "batch" else product(x.shape[:-1])
        self._parameter(name, features if function == "rms" else 2 * features)
        dims: dict[str, Amount] = {"elements": x.elements, "groups": groups}
        plain: tuple[str, dict[str, Amount], dict[str, Attribute]] = ("norm", dims, {"function": function})
        kind, sizes, facts = stored_norm(x.elements, groups) if statistics == "running" else plain
        made = self._add(name, kind, sizes, [x.made_by], facts)

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            back = self._add(
                f"{name}.backward", "norm", dims, [*gradient, x.made_by], {"function": function, "pass": "backward"}
            )
            self._learn(name, back)
            return [(back,)]

        return self._layer(name, [x], x.shape, made, backward)

    def elementwise(self, name: str, function: str, *inputs: Value) -> Value:
        """A function of each element of one or more values of equal shape (or broadcast to the largest)."""
        shape = max((x.shape for x in inputs), key=len)
        elements = product(shape)
        reads = sum(x.elements for x in inputs)
        dims: dict[str, Amount] = {"elements": elements, "reads": reads, "writes": elements}
        made = self._add(name, "elementwise", dims, [x.made_by for x in inputs], {"function": function})

        if function == "add":
            return self._layer(name, inputs, shape, made, lambda gradient: [gradient for _ in inputs])
        scales = function in SCALES and len(inputs) == 1  # its gradient needs no value of the forward pass
        back = {"elements": elements, "reads": elements if scales else reads + elements, "writes": reads}
        facts, after = {"function": f"{function}_backward"}, () if scales else (made,)
        return self._with_gradient(name, inputs, shape, made, "elementwise", back, facts, after)

    def view(self, name: str, x: Value, *shape: Amount) -> Value:
        """The same elements in another shape or order."""
        dims, facts = {"elements": x.elements}, {"function": "reshape"}
        made = self._add(name, "view", dims, [x.made_by], facts)
        return self._with_gradient(name, [x], shape, made, "view", dims, facts)

    def softmax(self, name: str, x: Value, function: str = "softmax") -> Value:
        """Softmax or log_softmax over the last axis."""
        dims: dict[str, Amount] = {"rows": product(x.shape[:-1]), "columns": x.shape[-1]}
        made = self._add(name, "softmax", dims, [x.made_by], {"function": function})
        back = {"function": function, "pass": "backward"}
        return self._with_gradient(name, [x], x.shape, made, "softmax", dims, back, (made,))

    def classified(
        self, scores: Value, purpose: str, optimizer: str, forward: Mapping[str, float], **defaults: float
    ) -> Workload:
        """The network that ends with scores, shape (..., classes): inference at sizes `forward`, or trained on them."""
        if purpose == "inference":
            return self.inference(**forward)
        self.loss("loss", scores)
        return self.training(optimizer, (), **defaults)

    def loss(self, name: str, x: Value) -> Value:
        """Log-softmax over the last axis and the mean of one entry a row (cross-entropy)."""
        scores = self.softmax(f"{name}.log_softmax", x, "log_softmax")
        rows = product(x.shape[:-1])
        made = self._add(
            name, "reduction", {"elements": rows, "outputs": 1}, [scores.made_by], {"function": "nll_loss"}
        )
        filled = {"reads": rows, "writes": x.elements}
        return self._with_gradient(name, [scores], (1,), made, "move", filled, {"function": "fill"}, (made,))
