"""Twelve small networks of very different operation sizes, each with a batch and a loss: what steps are measured on.

Torch is imported where a network is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

Built = tuple[Any, Any, Any]
"""A module, its input, and the targets of a cross entropy over the last axis (or over axis 1 of images)."""


def _dense(batch: int, *widths: int) -> Built:
    import torch
    from torch import nn

    layers: list[Any] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1]), torch.randn(batch, widths[0]), torch.randint(widths[-1], (batch,))


def _lenet() -> Built:
    import torch
    from torch import nn

    module = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )
    return module, torch.randn(32, 1, 28, 28), torch.randint(10, (32,))


def _vgg() -> Built:
    import torch
    from torch import nn

    layers: list[Any] = []
    for before, after, pooled in ((3, 32, False), (32, 32, True), (32, 64, False), (64, 64, True), (64, 128, True)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        layers += [nn.MaxPool2d(2)] if pooled else []
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 10))
    return module, torch.randn(16, 3, 32, 32), torch.randint(10, (16,))


def _residual() -> Built:
    import torch
    from torch import nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first, self.one = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
            self.second, self.two = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.two(self.second(torch.relu(self.one(self.first(x))))))

    down = [nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    module = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), Block(16), Block(16), Block(16)),
        *(*down, Block(32), Block(32), Block(32)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )
    return module, torch.randn(4, 3, 32, 32), torch.randint(10, (4,))


def _mobile() -> Built:
    import torch
    from torch import nn

    def unit(before: int, after: int, stride: int) -> list[Any]:
        depthwise = [nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False), nn.BatchNorm2d(before)]
        return [*depthwise, nn.ReLU6(), nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU6()]

    layers = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()]
    for before, after, stride in ((16, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 128, 1)):
        layers += unit(before, after, stride)
    module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    return module, torch.randn(4, 3, 64, 64), torch.randint(10, (4,))


def _autoencoder() -> Built:
    import torch
    from torch import nn

    module = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, 2, 1), nn.GELU(), nn.Conv2d(16, 32, 3, 2, 1), nn.GELU()),
        *(nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.GELU(), nn.ConvTranspose2d(16, 4, 4, 2, 1)),
    )
    return module, torch.randn(8, 1, 48, 48), torch.randint(4, (8, 48, 48))


def _recurrent(cell: str, batch: int, length: int, width: int, words: int) -> Built:
    import torch
    from torch import nn

    class Reader(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.cells = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](width, width, 2, batch_first=True)
            self.classifier = nn.Linear(width, words)

        def forward(self, x: Any) -> Any:
            return self.classifier(self.cells(self.embedding(x))[0]).flatten(0, 1)

    return Reader(), torch.randint(words, (batch, length)), torch.randint(words, (batch * length,))


def _transformer(batch: int, length: int, width: int, layers: int, words: int) -> Built:
    import torch
    from torch import nn

    class Encoder(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.classifier = nn.Linear(width, words)

        def forward(self, x: Any) -> Any:
            return self.classifier(self.encoder(self.embedding(x))).flatten(0, 1)

    return Encoder(), torch.randint(words, (batch, length)), torch.randint(words, (batch * length,))


MODELS: Mapping[str, Callable[[], Built]] = {
    "narrow deep dense": lambda: _dense(8, *([32] * 24), 10),
    "digits dense": lambda: _dense(16, 784, 128, 10),
    "wide dense": lambda: _dense(64, 1024, 1024, 1024, 100),
    "lenet": _lenet,
    "vgg": _vgg,
    "residual": _residual,
    "depthwise": _mobile,
    "autoencoder": _autoencoder,
    "lstm": lambda: _recurrent("lstm", 4, 24, 96, 500),
    "gru": lambda: _recurrent("gru", 16, 32, 128, 1000),
    "small transformer": lambda: _transformer(2, 16, 64, 3, 200),
    "transformer": lambda: _transformer(4, 96, 192, 2, 2000),
}
"""By name: from operations of a microsecond to some of ten milliseconds."""
