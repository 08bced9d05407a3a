"""Recordings of numbers alone leave torch's compiler out, and are those that are made with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

CHILD = """
import sys
import torch
from torch import nn
from slipstick.workloads.importers.torch.importer import import_torch

class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.kept = nn.Linear(16, 16), None
    def forward(self, values):
        self.kept = torch.arange(16.0) if self.kept is None else self.kept
        return nn.functional.gelu(self.inner(values * self.kept))

class Picked(Dense):
    def forward(self, values):
        return super().forward(values)[torch.nonzero(values[:, 0] > 0).squeeze(-1)] * values.max().item()

class Compiling(Dense):
    def forward(self, values):
        return torch.compile(self.inner)(values)

def recorded(kind, purpose):
    graph = import_torch(kind(), (torch.zeros(4, 16),), purpose=purpose)
    return graph.identity, graph.uncounted, graph.metadata

for kind in (Dense, Picked, Compiling)[: int(sys.argv[1])]:
    for purpose in ("training", "inference"):
        print(recorded(kind, purpose))
print("torch._dynamo" in sys.modules, hasattr(nn.functional.gelu, "__dynamo_disable"), file=sys.stderr)
"""


def child(kinds: int, before: str = "") -> tuple[str, str]:
    """What the first kinds of modules are recorded as, and whether the compiler was imported."""
    done = subprocess.run([sys.executable, "-c", before + CHILD, str(kinds)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.slow
def test_numbers_are_recorded_without_the_compiler() -> None:
    alone, said = child(1)
    assert said.split() == ["False", "False"]
    assert alone == child(1, "import torch._dynamo")[0]


@pytest.mark.slow  # the test above has the sizes without symbols
def test_what_needs_symbols_or_the_compiler_is_recorded_as_with_it() -> None:
    alone, said = child(3)
    assert said.startswith("True")
    assert alone == child(3, "import torch._dynamo")[0]
