"""What the tests of bricks share."""

from slipstick.experiments.measure.bricks.brick_store import (
    StoredTiming,
)
from slipstick.experiments.measure.clocks.timing import Protocol, Timing


def timing(value: float) -> Timing:
    return Timing(value, value, value, 0.0, (value,) * 3, 1, 1.0, None, 0.0, 0.0, Protocol())


def result(identity: str, value: float, protocol: str = str(Protocol())) -> StoredTiming:
    return StoredTiming(identity, protocol, timing(value), "conv")


def net(torch):
    from slipstick.experiments.measure.bricks.brick_modules import layer_model

    return layer_model("net", torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), (torch.rand(1, 8),))
