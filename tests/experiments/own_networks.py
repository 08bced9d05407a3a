"""A small network of convolutions and a small transformer, as a user would write them."""

from typing import Any

import torch
from torch import nn


def cnn() -> tuple[Any, Any]:
    """Four convolutions with batch norms, and an image each of four."""
    layers: list[Any] = []
    for before, after, stride in ((3, 32, 2), (32, 64, 1), (64, 128, 2), (128, 128, 1)):
        layers += [nn.Conv2d(before, after, 3, stride, 1), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).eval(), torch.randn(
        4, 3, 64, 64
    )


class Encoder(nn.Module):
    """Blocks of attention written out and of two dense layers."""

    def __init__(self, width: int = 256, heads: int = 4, layers: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "before": nn.LayerNorm(width),
                    "qkv": nn.Linear(width, 3 * width),
                    "out": nn.Linear(width, width),
                    "after": nn.LayerNorm(width),
                    "up": nn.Linear(width, 4 * width),
                    "down": nn.Linear(4 * width, width),
                }
            )
            for _ in range(layers)
        )

    def forward(self, x: Any) -> Any:
        """Of (batch, tokens, width)."""
        batch, tokens, width = x.shape
        for block in self.blocks:
            made = block["qkv"](block["before"](x)).reshape(batch, tokens, 3, self.heads, width // self.heads)
            q, k, v = made.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v
            x = x + block["out"](mixed.transpose(1, 2).reshape(batch, tokens, width))
            x = x + block["down"](nn.functional.gelu(block["up"](block["after"](x))))
        return x


def transformer() -> tuple[Any, Any]:
    """Four blocks, and 128 tokens."""
    return Encoder().eval(), torch.randn(1, 128, 256)
