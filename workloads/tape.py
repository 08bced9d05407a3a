"""Writing networks down: layers forward, and from them the backward pass and the optimizer.

A `Tape` takes layers in order and remembers what each does to gradients; `Tape.inference` and `Tape.training` make the
workload. Shapes are tuples of numbers or symbols, channels first for images, features last for sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hwmodels.files import InputError
from hwmodels.records import Table
from workloads.cost import Amount
from workloads.kinds import AXES, operation, product
from workloads.workload import Attribute, Op, Workload

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


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
class Tape:
    """A network being written down."""

    name: str
    dtype: str = "float32"
    operations: list[Op] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    parameters: dict[str, Amount] = field(default_factory=dict)
    _layers: list[_Layer] = field(default_factory=list)
    _weight_gradients: dict[str, list[str]] = field(default_factory=dict)
    _values: int = 0
    _phase: str = "forward"

    # Bookkeeping

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
        dims: dict[str, Amount],
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

    def _learn(self, name: str, made_by: str) -> None:
        self._weight_gradients.setdefault(name, []).append(made_by)

    # Layers

    def dense(
        self, name: str, x: Value, outputs: Amount, *, bias: bool = True, shared_with: str | None = None
    ) -> Value:
        """y = W x + b over the last axis; `shared_with` names the layer whose weights are used again (tied)."""
        inputs, tokens = x.shape[-1], product(x.shape[:-1])
        if shared_with is None:
            self._parameter(name, inputs * outputs)
        if bias:
            self._parameter(name, outputs)
        made = self._add(
            name, "gemm", {"batch": 1, "m": outputs, "n": tokens, "k": inputs}, [x.made_by], _flag(bias=bias)
        )

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            after = [*gradient, x.made_by]
            weight = self._add(
                f"{name}.backward_weight", "gemm", {"batch": 1, "m": inputs, "n": outputs, "k": tokens}, after
            )
            self._learn(shared_with or name, weight)
            if bias:
                summed = self._add(
                    f"{name}.backward_bias",
                    "reduction",
                    {"elements": tokens * outputs, "outputs": outputs},
                    gradient,
                    {"function": "sum"},
                )
                self._learn(name, summed)
            if not x.needs_gradient:
                return [()]
            return [
                (
                    self._add(
                        f"{name}.backward_data", "gemm", {"batch": 1, "m": inputs, "n": tokens, "k": outputs}, gradient
                    ),
                )
            ]

        return self._layer(name, [x], (*x.shape[:-1], outputs), made, backward)

    def convolution(
        self,
        name: str,
        x: Value,
        channels: int,
        kernel: Sequence[int],
        stride: Sequence[int] | int = 1,
        padding: Sequence[int] | int = 0,
        groups: int = 1,
        *,
        bias: bool = True,
    ) -> Value:
        """A convolution over the axes after (batch, channels)."""
        rank = len(kernel)
        strides = (stride,) * rank if isinstance(stride, int) else tuple(stride)
        paddings = (padding,) * rank if isinstance(padding, int) else tuple(padding)
        if len(x.shape) != rank + 2:
            raise InputError(f"convolution {name!r}: input of shape {x.shape} and kernel {tuple(kernel)} do not fit")
        channels_in = x.shape[1]
        if channels % groups or (isinstance(channels_in, int) and channels_in % groups):
            raise InputError(
                f"convolution {name!r}: {groups} groups do not divide {channels_in} and {channels} channels"
            )
        places = tuple(
            _windows(size, k, s, p, f"convolution {name!r}")
            for size, k, s, p in zip(x.shape[2:], kernel, strides, paddings, strict=True)
        )
        self._parameter(name, channels_in // groups * channels * product(kernel) + (channels if bias else 0))
        dims: dict[str, Amount] = {
            "batch": x.shape[0],
            "channels_in": channels_in,
            "channels_out": channels,
            "groups": groups,
        }
        for part, sizes in (("in", x.shape[2:]), ("out", places), ("kernel", tuple(kernel))):
            dims |= {f"{part}_{axis}": size for axis, size in zip(AXES, (1,) * (3 - rank) + tuple(sizes), strict=True)}
        facts: dict[str, Attribute] = {"stride": strides, "padding": paddings}
        made = self._add(name, "convolution", dims, [x.made_by], {**facts, **_flag(bias=bias)})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            weight = self._add(
                f"{name}.backward_weight",
                "convolution",
                dims,
                [*gradient, x.made_by],
                {**facts, "pass": "backward_weight"},
            )
            self._learn(name, weight)
            if bias:
                elements = x.shape[0] * channels * product(places)
                self._learn(
                    name,
                    self._add(
                        f"{name}.backward_bias",
                        "reduction",
                        {"elements": elements, "outputs": channels},
                        gradient,
                        {"function": "sum"},
                    ),
                )
            if not x.needs_gradient:
                return [()]
            return [
                (self._add(f"{name}.backward_data", "convolution", dims, gradient, {**facts, "pass": "backward_data"}),)
            ]

        return self._layer(name, [x], (x.shape[0], channels, *places), made, backward)

    def norm(self, name: str, x: Value, function: str = "batch", statistics: str = "batch") -> Value:
        """Normalisation with scale and shift.

        "batch" over all but the channels of images (the last axis of sequences), "layer" or "rms" over the last axis.
        """
        features = x.shape[1] if function == "batch" and len(x.shape) > 3 else x.shape[-1]
        groups = features if function == "batch" else product(x.shape[:-1])
        self._parameter(name, features if function == "rms" else 2 * features)
        dims: dict[str, Amount] = {"elements": x.elements, "groups": groups}
        extra: dict[str, Attribute] = {"statistics": "running"} if statistics == "running" else {}
        made = self._add(name, "norm", dims, [x.made_by], {"function": function, **extra})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            back = self._add(
                f"{name}.backward", "norm", dims, [*gradient, x.made_by], {"function": function, "pass": "backward"}
            )
            self._learn(name, back)
            return [(back,)]

        return self._layer(name, [x], x.shape, made, backward)

    def elementwise(self, name: str, function: str, *inputs: Value, after: Sequence[str] = ()) -> Value:
        """A function of each element of one or more values of equal shape (or broadcast to the largest)."""
        shape = max((x.shape for x in inputs), key=len)
        elements = product(shape)
        reads: Amount = 0
        for x in inputs:
            reads = reads + x.elements
        dims: dict[str, Amount] = {"elements": elements, "reads": reads, "writes": elements}
        made = self._add(name, "elementwise", dims, [*(x.made_by for x in inputs), *after], {"function": function})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            if function == "add":
                return [gradient for _ in inputs]
            own: dict[str, Amount] = {"elements": elements, "reads": reads + elements, "writes": reads}
            return [
                (
                    self._add(
                        f"{name}.backward", "elementwise", own, [*gradient, made], {"function": f"{function}_backward"}
                    ),
                )
            ] * len(inputs)

        return self._layer(name, inputs, shape, made, backward)

    def pairs(self, name: str, a: Value, b: Value) -> Value:
        """Sums of all pairs of rows: a (batch, i, width) and b (batch, j, width) to (batch, i, j, width)."""
        shape = (a.shape[0], a.shape[1], b.shape[1], a.shape[2])
        elements = product(shape)
        dims: dict[str, Amount] = {"elements": elements, "reads": a.elements + b.elements, "writes": elements}
        made = self._add(name, "elementwise", dims, [a.made_by, b.made_by], {"function": "add"})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            return [
                (
                    self._add(
                        f"{name}.backward_{which}",
                        "reduction",
                        {"elements": elements, "outputs": x.elements},
                        gradient,
                        {"function": "sum"},
                    ),
                )
                for which, x in (("left", a), ("right", b))
            ]

        return self._layer(name, [a, b], shape, made, backward)

    def pool(self, name: str, x: Value, window: int, stride: int, padding: int = 0, function: str = "max") -> Value:
        """Maximum or average over square windows of images."""
        places = tuple(_windows(size, window, stride, padding, f"pool {name!r}") for size in x.shape[2:])
        shape = (*x.shape[:2], *places)
        dims: dict[str, Amount] = {"inputs": x.elements, "outputs": product(shape), "window": window ** len(places)}
        made = self._add(name, "pool", dims, [x.made_by], {"function": function})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            return [
                (
                    self._add(
                        f"{name}.backward", "pool", dims, [*gradient, made], {"function": function, "pass": "backward"}
                    ),
                )
            ]

        return self._layer(name, [x], shape, made, backward)

    def global_average(self, name: str, x: Value) -> Value:
        """The mean of each channel of an image."""
        shape = x.shape[:2]
        dims: dict[str, Amount] = {"inputs": x.elements, "outputs": product(shape), "window": product(x.shape[2:])}
        made = self._add(name, "pool", dims, [x.made_by], {"function": "average"})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            return [
                (self._add(f"{name}.backward", "pool", dims, gradient, {"function": "average", "pass": "backward"}),)
            ]

        return self._layer(name, [x], shape, made, backward)

    def view(self, name: str, x: Value, *shape: Amount) -> Value:
        """The same elements in another shape or order."""
        made = self._add(name, "view", {"elements": x.elements}, [x.made_by], {"function": "reshape"})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            return [
                (self._add(f"{name}.backward", "view", {"elements": x.elements}, gradient, {"function": "reshape"}),)
            ]

        return self._layer(name, [x], shape, made, backward)

    def embedding(
        self, name: str, indices: Value, vocabulary: int, width: int, shared_with: str | None = None
    ) -> Value:
        """Rows of a table picked by index."""
        if shared_with is None:
            self._parameter(name, vocabulary * width)
        dims: dict[str, Amount] = {"rows": indices.elements, "width": width}
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
        made = self._add(name, "gemm", {"batch": batch, "m": columns, "n": rows, "k": inner}, [a.made_by, b.made_by])

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            to_a = self._add(
                f"{name}.backward_left",
                "gemm",
                {"batch": batch, "m": inner, "n": rows, "k": columns},
                [*gradient, b.made_by],
            )
            to_b = self._add(
                f"{name}.backward_right",
                "gemm",
                {"batch": batch, "m": columns, "n": inner, "k": rows},
                [*gradient, a.made_by],
            )
            return [(to_a,), (to_b,)]

        return self._layer(name, [a, b], shape, made, backward)

    def softmax(self, name: str, x: Value, function: str = "softmax") -> Value:
        """Softmax or log_softmax over the last axis."""
        dims: dict[str, Amount] = {"rows": product(x.shape[:-1]), "columns": x.shape[-1]}
        made = self._add(name, "softmax", dims, [x.made_by], {"function": function})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            return [
                (
                    self._add(
                        f"{name}.backward",
                        "softmax",
                        dims,
                        [*gradient, made],
                        {"function": function, "pass": "backward"},
                    ),
                )
            ]

        return self._layer(name, [x], x.shape, made, backward)

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
            projected = self._add(
                f"{each}.inputs",
                "gemm",
                {"batch": 1, "m": gates * hidden, "n": tokens, "k": width},
                [x.made_by],
                {"bias": True},
            )
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
                    weight = self._add(
                        f"{each}.{what}.backward_weight",
                        "gemm",
                        {"batch": 1, "m": k, "n": gates * hidden, "k": tokens},
                        [back],
                    )
                    self._learn(name, weight)
                if x.needs_gradient:
                    to_input.append(
                        self._add(
                            f"{each}.inputs.backward_data",
                            "gemm",
                            {"batch": 1, "m": width, "n": tokens, "k": gates * hidden},
                            [back],
                        )
                    )
            return [tuple(to_input)]

        return self._layer(name, [x], (batch, steps, outputs), last, backward)

    def loss(self, name: str, x: Value) -> Value:
        """Log-softmax over the last axis and the mean of one entry a row (cross-entropy)."""
        scores = self.softmax(f"{name}.log_softmax", x, "log_softmax")
        rows = product(x.shape[:-1])
        made = self._add(
            name, "reduction", {"elements": rows, "outputs": 1}, [scores.made_by], {"function": "nll_loss"}
        )

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            return [
                (
                    self._add(
                        f"{name}.backward",
                        "move",
                        {"reads": rows, "writes": x.elements},
                        [*gradient, made],
                        {"function": "fill"},
                    ),
                )
            ]

        return self._layer(name, [scores], (1,), made, backward)

    # Workloads

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
        total: Amount = 0
        for elements in self.parameters.values():
            total = total + elements
        return Workload(
            name,
            tuple(self.operations),
            tuple(dict.fromkeys(self.edges)),
            Table(defaults),
            Table({"parameters": total, "network": self.name}),
            uncounted,
        )


def recurrent_step(function: str, batch: Amount, hidden: int, dtype: str) -> Workload:
    """What one step of a recurrent layer does: the product with the state, then the gates."""
    gates = GATES[function]
    product_ = operation("state", "gemm", {"batch": 1, "m": gates * hidden, "n": batch, "k": hidden}, dtype)
    dims: dict[str, Amount] = {
        "elements": batch * hidden,
        "reads": batch * hidden * (2 * gates + 1),
        "writes": 2 * batch * hidden,
    }
    pointwise = operation("gates", "elementwise", dims, dtype, {"function": f"{function}_gates"})
    return Workload(f"{function}-step", (product_, pointwise), (("state", "gates"),))


def _windows(size: Amount, kernel: int, stride: int, padding: int, where: str) -> Amount:
    """Places of a window along an axis: floor((size + 2 padding - kernel) / stride) + 1."""
    from sympy import Basic, floor

    if isinstance(size, Basic):
        return floor((size + (2 * padding - kernel)) / stride) + 1 if stride > 1 else size + (2 * padding - kernel + 1)
    places = (int(size) + 2 * padding - kernel) // stride + 1
    if places < 1:
        raise InputError(f"{where}: a window of {kernel} does not fit into {size} with padding {padding}")
    return places


def _flag(**flags: bool) -> dict[str, Attribute]:
    return {name: True for name, value in flags.items() if value}
