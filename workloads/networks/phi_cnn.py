"""The three convolutional networks of the Xeon Phi study and their training run.

Source: Viebke et al., "Performance Modelling of Deep Learning on Intel Many Integrated Core Architectures", 2019:
Figure 2 (layers), Figure 4 (algorithm), Tables II, VII, VIII (hardware-independent counts). The layers between, which
Figure 2 does not list, follow the same authors' code (CHAOS, J. Supercomputing 75, 2019); the fully connected column of
Table VII fixes what feeds them (5k, 56k and 137k are their weights: 5,060, 55,660 and 136,660).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from slipstick.common.expressions import symbol
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.workloads.graph.workload import Attribute, Op, Workload
from slipstick.workloads.layers.single import convolution, gemm, pool
from slipstick.workloads.runs.training_run import of_images, of_instructions

INPUT_SIDE = 29
OUTPUTS = 10


@dataclass(frozen=True)
class Layer:
    """One layer: `maps` square maps of `side`, made with a square `kernel`."""

    kind: Literal["convolution", "pool", "fully_connected"]
    maps: int
    side: int
    kernel: int

    @property
    def neurons(self) -> int:
        """Outputs of the layer."""
        return self.maps * self.side**2


@dataclass(frozen=True)
class PhiNetwork:
    """One network with the paper's own counts, in instructions of one image (Tables II, VII, VIII).

    `preparation_in_use` is what reproduces Table X where it differs from the printed Table II.
    """

    layers: tuple[Layer, ...]
    epochs: int
    forward: FrozenDict[float]
    backward: FrozenDict[float]
    preparation: float
    preparation_in_use: float

    @property
    def forward_instructions(self) -> float:
        """The printed total of Table VII (its parts are rounded apart)."""
        return self.forward["total"]

    @property
    def backward_instructions(self) -> float:
        """The printed total of Table VIII."""
        return self.backward["total"]


def _counts(pool: float, fully_connected: float, convolution: float, total: float) -> FrozenDict[float]:
    return FrozenDict(pool=pool, fully_connected=fully_connected, convolution=convolution, total=total)


def phi_network(size: str) -> PhiNetwork:
    """The network "small", "medium" or "large".

    Raises InputError where there is no network of that size.
    """
    networks = {
        "small": PhiNetwork(
            layers=(
                Layer("convolution", 5, 26, 4),
                Layer("pool", 5, 13, 2),
                Layer("convolution", 10, 9, 5),
                Layer("pool", 10, 3, 3),
                Layer("fully_connected", 50, 1, 1),
                Layer("fully_connected", OUTPUTS, 1, 1),
            ),
            epochs=70,
            forward=_counts(7e3, 5e3, 46e3, 58e3),
            backward=_counts(2e3, 10e3, 512e3, 524e3),
            preparation=1e9,
            preparation_in_use=1e9,
        ),
        "medium": PhiNetwork(
            layers=(
                Layer("convolution", 20, 26, 4),
                Layer("pool", 20, 13, 2),
                Layer("convolution", 40, 9, 5),
                Layer("pool", 40, 3, 3),
                Layer("fully_connected", 150, 1, 1),
                Layer("fully_connected", OUTPUTS, 1, 1),
            ),
            epochs=70,
            forward=_counts(29e3, 56e3, 474e3, 559e3),
            backward=_counts(4e3, 112e3, 6003e3, 6119e3),
            preparation=1e10,
            preparation_in_use=1e9,
        ),
        "large": PhiNetwork(
            layers=(
                Layer("convolution", 20, 26, 4),
                Layer("pool", 20, 26, 1),
                Layer("convolution", 60, 22, 5),
                Layer("pool", 60, 11, 2),
                Layer("convolution", 100, 6, 6),
                Layer("pool", 100, 3, 2),
                Layer("fully_connected", 150, 1, 1),
                Layer("fully_connected", OUTPUTS, 1, 1),
            ),
            epochs=15,
            forward=_counts(99e3, 137e3, 5113e3, 5349e3),
            backward=_counts(8e3, 274e3, 72_896e3, 73_178e3),
            preparation=1e11,
            preparation_in_use=1e11,
        ),
    }
    if size not in networks:
        raise unknown_name("network of the Xeon Phi study", size, list(networks))
    return networks[size]


def weights(network: PhiNetwork, index: int) -> int:
    """Weights of one layer, biases counted; pooling has none."""
    layer = network.layers[index]
    before = network.layers[index - 1] if index else Layer("convolution", 1, INPUT_SIDE, 1)
    if layer.kind == "convolution":
        return layer.maps * (before.maps * layer.kernel**2 + 1)
    return layer.maps * (before.neurons + 1) if layer.kind == "fully_connected" else 0


def forward_pass(size: str) -> Workload:
    """The layers of one image, forward, float32."""
    network = phi_network(size)
    operations: list[Op] = []
    before = Layer("convolution", 1, INPUT_SIDE, 1)
    for index, layer in enumerate(network.layers, 1):
        name, side = f"{layer.kind}_{index}", (layer.side, layer.side)
        if layer.kind == "convolution":
            operations.append(convolution(name, 1, before.maps, layer.maps, (layer.kernel, layer.kernel), side))
        elif layer.kind == "pool":
            operations.append(pool(name, 1, layer.maps, (layer.kernel, layer.kernel), side))
        else:
            operations.append(gemm(name, m=1, n=layer.maps, k=before.neurons))
        before = layer
    return _with_weights(_chain(f"phi-cnn-{size}-forward", operations), size)


def training_step(size: str) -> Workload:
    """The layers of one image, forward and backward.

    Backward runs over the layers in reverse: gradients of inputs and of weights cost a forward pass each; the image
    needs no gradient.
    """
    forward = list(forward_pass(size))
    backward = [
        replace(
            op,
            name=f"{op.name}_backward",
            cost=op.cost * (1 if op.kind == "pool" or op is forward[0] else 2),
            attributes=op.attributes.using(phase="backward"),
        )
        for op in reversed(forward)
    ]
    return _with_weights(_chain(f"phi-cnn-{size}-step", forward + backward), size)


def phi_cnn(size: str, preparation: Literal["printed", "in_use"] = "in_use") -> Workload:
    """The training run of Figure 4: serial preparation, then training, validation and testing of images in parallel.

    Symbols: `images`, `test_images`, `epochs` (defaults 60,000, 10,000 and 70 or 15: Table II).

    `preparation`: "printed" takes Prep of Table II; "in_use" the value that reproduces Table X (they differ for
        medium).
    """
    network = phi_network(size)
    images, test_images, epochs = symbol("images"), symbol("test_images"), symbol("epochs")
    prepare = network.preparation if preparation == "printed" else network.preparation_in_use

    name, one, step = f"phi-cnn-{size}", forward_pass(size), training_step(size)
    forward, backward = network.forward_instructions, network.backward_instructions
    operations = (
        of_instructions("preparation", prepare + 4 * images + 2 * test_images + 10 * epochs, "serial", name),
        of_images("training", step, images * epochs, "contended", name, instructions=forward + backward),
        of_images("validation", one, images * epochs, "parallel", name, instructions=forward),
        of_images("testing", one, test_images * epochs, "parallel", name, instructions=forward),
    )
    return replace(
        _chain(name, operations),
        defaults=FrozenDict(images=60_000, test_images=10_000, epochs=network.epochs),
        metadata=FrozenDict(
            source="Viebke et al. 2019, Figures 2 and 4, Tables II, VII, VIII",
            parameters=all_weights(size),
            network=name,
        ),
    )


def all_weights(size: str) -> int:
    """Weights of all layers."""
    network = phi_network(size)
    return sum(weights(network, index) for index in range(len(network.layers)))


def _with_weights(workload: Workload, size: str) -> Workload:
    facts = FrozenDict[Attribute](parameters=all_weights(size), network=f"phi-cnn-{size}", contention=size)
    return replace(workload, metadata=facts)


def _chain(name: str, operations: list[Op] | tuple[Op, ...]) -> Workload:
    names = [op.name for op in operations]
    return Workload(name, tuple(operations), tuple(pairwise(names)))
