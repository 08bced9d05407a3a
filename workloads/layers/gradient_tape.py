"""Remembering a network layer by layer, to write its backward pass and its update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import operation, product
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.graph.workload_kind import WORK, program_kind


@dataclass(frozen=True)
class Value:
    """What one layer hands to the next: its shape, the operation that made it (None: an input), its number."""

    shape: tuple[Amount, ...]
    made_by: str | None
    number: int
    needs_gradient: bool = True

    @property
    def elements(self) -> Amount:
        """Number of elements."""
        return product(self.shape)


# Given the operations that made the gradient of a layer's output: the operations that made each input's gradient.
Backward = Callable[[tuple[str, ...]], Sequence[tuple[str, ...]]]


@dataclass(frozen=True)
class _Layer:
    inputs: tuple[Value, ...]
    output: Value
    backward: Backward
    name: str


@dataclass
class GradientTape:
    """A network being written down: what its layers add, and the workload that comes of it.

    `inference` and `training` end a tape: call one of them, once.
    """

    name: str
    dtype: str = "float32"
    operations: list[Op] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    parameters: dict[str, Amount] = field(default_factory=dict)
    _layers: list[_Layer] = field(default_factory=list)
    _weight_gradients: dict[str, list[str]] = field(default_factory=dict)
    _values: int = 0
    _phase: str = "forward"

    def input(self, *shape: Amount) -> Value:
        """Data from outside."""
        return self._value(shape, None, needs_gradient=False)

    def _value(self, shape: Sequence[Amount], made_by: str | None, *, needs_gradient: bool = True) -> Value:
        self._values += 1
        return Value(tuple(shape), made_by, self._values, needs_gradient)

    def _add(
        self,
        name: str,
        kind: str,
        dims: Mapping[str, Amount],
        after: Sequence[str | None] = (),
        facts: Mapping[str, Attribute] | None = None,
        times: Amount = 1,
        body: Workload | None = None,
    ) -> str:
        attributes = dict(facts or {})
        if self._phase != "forward":
            attributes["phase"] = self._phase
        self.operations.append(operation(name, kind, dims, self.dtype, attributes, times=times, body=body))
        self.edges += [(before, name) for before in dict.fromkeys(after) if before is not None]
        return name

    def _product(
        self,
        name: str,
        m: Amount,
        n: Amount,
        k: Amount,
        after: Sequence[str | None],
        facts: Mapping[str, Attribute] | None = None,
        times: Amount = 1,
        batch: Amount = 1,
    ) -> str:
        """A matrix product (m, k) x (k, n), `batch` of them."""
        return self._add(name, "gemm", {"batch": batch, "m": m, "n": n, "k": k}, after, facts, times)

    def _sum(self, name: str, elements: Amount, outputs: Amount, after: Sequence[str], times: Amount = 1) -> str:
        """Sums of so many elements."""
        return self._add(
            name, "reduction", {"elements": elements, "outputs": outputs}, after, {"function": "sum"}, times
        )

    def _parameter(self, name: str, elements: Amount) -> None:
        self.parameters[name] = self.parameters.get(name, 0) + elements

    def _layer(
        self, name: str, inputs: Sequence[Value], shape: Sequence[Amount], made_by: str | None, backward: Backward
    ) -> Value:
        # A layer with weights of its own has something to learn even where its input has not.
        output = self._value(
            shape, made_by, needs_gradient=any(x.needs_gradient for x in inputs) or name in self.parameters
        )
        self._layers.append(_Layer(tuple(inputs), output, backward, name))
        return output

    def _with_gradient(
        self,
        name: str,
        inputs: Sequence[Value],
        shape: Sequence[Amount],
        made_by: str,
        kind: str,
        dims: Mapping[str, Amount],
        facts: Mapping[str, Attribute],
        after: Sequence[str] = (),
    ) -> Value:
        """A layer with the one operation that makes the gradients of its inputs, behind others too (`after`)."""

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            return [(self._add(f"{name}.backward", kind, dims, [*gradient, *after], facts),)] * len(inputs)

        return self._layer(name, inputs, shape, made_by, backward)

    def _learn(self, name: str, made_by: str) -> None:
        self._weight_gradients.setdefault(name, []).append(made_by)

    def _learn_bias(self, name: str, elements: Amount, outputs: Amount, gradient: Sequence[str]) -> None:
        self._learn(name, self._sum(f"{name}.backward_bias", elements, outputs, gradient))

    def inference(self, **defaults: float) -> Workload:
        """The forward pass alone."""
        return self._workload(f"{self.name}-inference", defaults)

    def training(self, optimizer: str = "sgd", uncounted: tuple[str, ...] = (), **defaults: float) -> Workload:
        """Forward, backward and one update of every parameter."""
        self._phase = "backward"
        gradients: dict[int, list[tuple[str, ...]]] = {}
        if self._layers:
            gradients[self._layers[-1].output.number] = [()]
        for layer in reversed(self._layers):
            arrived = gradients.pop(layer.output.number, [])
            if not arrived or not layer.output.needs_gradient:
                continue
            gradient = self._summed(layer, arrived)
            for x, made in zip(layer.inputs, layer.backward(gradient), strict=True):
                if x.needs_gradient:
                    gradients.setdefault(x.number, []).append(made)
        self._phase = "optimizer"
        for name, elements in self.parameters.items():
            self._add(
                f"{name}.update",
                "optimizer",
                {"elements": elements},
                self._weight_gradients.get(name, ()),
                {"function": optimizer},
            )
        return self._workload(f"{self.name}-training", defaults, uncounted)

    def _summed(self, layer: _Layer, arrived: list[tuple[str, ...]]) -> tuple[str, ...]:
        """A value used more than once gets the sum of its gradients."""
        parts = [made for part in arrived for made in part]
        if len(arrived) < 2:
            return tuple(parts)
        elements = layer.output.elements
        count = len(arrived)
        dims: dict[str, Amount] = {"elements": (count - 1) * elements, "reads": count * elements, "writes": elements}
        return (self._add(f"{layer.name}.backward_sum", "elementwise", dims, parts, {"function": "add"}),)

    def _workload(self, name: str, defaults: dict[str, float], uncounted: tuple[str, ...] = ()) -> Workload:
        return Workload(
            name,
            tuple(self.operations),
            tuple(dict.fromkeys(self.edges)),
            FrozenDict(defaults),
            FrozenDict(
                {"parameters": sum(self.parameters.values()), "network": self.name, WORK: program_kind(self.operations)}
            ),
            uncounted,
        )


def flags(**given: bool) -> dict[str, Attribute]:
    """Attributes of what holds; what does not is left out."""
    return {name: True for name, value in given.items() if value}
