"""Layers of images: convolutions and pooling, channels first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipstick.common.errors import InputError
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import convolution_dims, product
from slipstick.workloads.graph.workload import Attribute
from slipstick.workloads.layers.gradient_tape import GradientTape, Value, flags


class ImageLayers(GradientTape):
    """A tape that knows layers of images."""

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
        """A convolution over the axes after (batch, channels).

        Raises InputError where shape and kernel, or groups and channels, do not fit.
        """
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
            windows(size, k, s, p, f"convolution {name!r}")
            for size, k, s, p in zip(x.shape[2:], kernel, strides, paddings, strict=True)
        )
        self._parameter(name, channels_in // groups * channels * product(kernel) + (channels if bias else 0))
        dims = convolution_dims(x.shape[0], channels_in, channels, groups, x.shape[2:], places, kernel)
        facts: dict[str, Attribute] = {"stride": strides, "padding": paddings}
        return self._convolved(name, x, (x.shape[0], channels, *places), dims, facts, bias=bias)

    def transposed_convolution(self, name: str, x: Value, channels: int, kernel: int, stride: int) -> Value:
        """A transposed convolution of images with bias: each side becomes `stride` times as long ("same" padding)."""
        batch, inputs, *sides = x.shape
        places = tuple(stride * side for side in sides)
        self._parameter(name, inputs * channels * kernel**2 + channels)
        dims = convolution_dims(batch, inputs, channels, 1, sides, places, (kernel, kernel))
        facts: dict[str, Attribute] = {"stride": (stride, stride), "transposed": True}
        return self._convolved(name, x, (batch, channels, *places), dims, facts, bias=True)

    def _convolved(
        self,
        name: str,
        x: Value,
        shape: tuple[Amount, ...],
        dims: Mapping[str, Amount],
        facts: Mapping[str, Attribute],
        *,
        bias: bool,
    ) -> Value:
        made = self._add(name, "convolution", dims, [x.made_by], {**facts, **flags(bias=bias)})

        def backward(gradient: tuple[str, ...]) -> Sequence[tuple[str, ...]]:
            weight = {**facts, "pass": "backward_weight"}
            after = [*gradient, x.made_by]
            self._learn(name, self._add(f"{name}.backward_weight", "convolution", dims, after, weight))
            if bias:
                self._learn_bias(name, shape[0] * shape[1] * product(shape[2:]), shape[1], gradient)
            if not x.needs_gradient:
                return [()]
            back = {**facts, "pass": "backward_data"}
            return [(self._add(f"{name}.backward_data", "convolution", dims, gradient, back),)]

        return self._layer(name, [x], shape, made, backward)

    def pool(self, name: str, x: Value, window: int, stride: int, padding: int = 0, function: str = "max") -> Value:
        """Maximum or average over square windows of images."""
        places = tuple(windows(size, window, stride, padding, f"pool {name!r}") for size in x.shape[2:])
        shape = (*x.shape[:2], *places)
        dims: dict[str, Amount] = {"inputs": x.elements, "outputs": product(shape), "window": window ** len(places)}
        made = self._add(name, "pool", dims, [x.made_by], {"function": function})
        back = {"function": function, "pass": "backward"}
        return self._with_gradient(name, [x], shape, made, "pool", dims, back, (made,))

    def global_average(self, name: str, x: Value) -> Value:
        """The mean of each channel of an image."""
        shape = x.shape[:2]
        dims: dict[str, Amount] = {"inputs": x.elements, "outputs": product(shape), "window": product(x.shape[2:])}
        made = self._add(name, "pool", dims, [x.made_by], {"function": "average"})
        back = {"function": "average", "pass": "backward"}
        return self._with_gradient(name, [x], shape, made, "pool", dims, back)


def windows(size: Amount, kernel: int, stride: int, padding: int, where: str) -> Amount:
    """Number of places of a window along an axis: floor((size + 2 padding - kernel) / stride) + 1, all in elements.

    Raises InputError where the window does not fit.
    """
    from sympy import Basic, floor

    if isinstance(size, Basic):
        return floor((size + (2 * padding - kernel)) / stride) + 1 if stride > 1 else size + (2 * padding - kernel + 1)
    places = (int(size) + 2 * padding - kernel) // stride + 1
    if places < 1:
        raise InputError(f"{where}: a window of {kernel} does not fit into {size} with padding {padding}")
    return places
