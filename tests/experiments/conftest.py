"""What tests of experiments share."""

import sys
from pathlib import Path

import pytest


@pytest.fixture
def small_model():
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 3, padding=1)
            self.norm, self.end = torch.nn.BatchNorm2d(8), torch.nn.Linear(8, 4)

        def forward(self, x):
            x = torch.relu(self.a(x))
            y = self.norm(self.b(x))
            joined = torch.cat([x, y + x], 1)[:, :8]
            return self.end(torch.flatten(joined.mean((2, 3)), 1))

    from slipstick.experiments.measure.bricks.brick_modules import layer_model

    return layer_model("net", Net(), (torch.rand(1, 3, 16, 16),))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path
