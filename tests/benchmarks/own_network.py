"""A PyTorch program of somebody's own, for `python -m tools.speed`."""

import torch


class Block(torch.nn.Module):
    """Two dense layers with GELU between them."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = torch.nn.Linear(512, 2048)
        self.narrow = torch.nn.Linear(2048, 512)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """The block's result, shape as of `values`."""
        result: torch.Tensor = self.narrow(torch.nn.functional.gelu(self.wide(values)))
        return result


def network() -> tuple[torch.nn.Module, tuple[torch.Tensor]]:
    """The block and an input of it, shape (8, 512)."""
    return Block(), (torch.zeros(8, 512),)
