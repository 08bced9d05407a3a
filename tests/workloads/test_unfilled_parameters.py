"""A builder gives its parameters no random numbers where it is recorded; one that looks at them is called with some."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.common.trusted_code import TrustedName
from slipstick.workloads.importers.torch.importer import import_torch
from slipstick.workloads.importers.torch.named_program import sized_model

torch = pytest.importorskip("torch")
LAYERS = """
import torch
def layers():
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.zeros(2, 8, 64),)
"""
LOOKS = """
import torch
def looks():
    layer = torch.nn.Linear(1024, 1024)
    if not 0.01 < float(layer.weight.std()) < 0.1:
        raise ValueError(f"weights of {float(layer.weight.std())}")
    return layer, (torch.zeros(2, 1024),)
"""


def test_what_is_recorded_does_not_hang_on_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("unfilled_layers.py").write_text(LAYERS)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    filled = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model, inputs, _ = sized_model(TrustedName("unfilled_layers.py:layers"))
    one, other = (import_torch(each, inputs, "layers") for each in (model, filled))
    assert one == other
    assert [parameter.shape for parameter in model.parameters()] == [each.shape for each in filled.parameters()]


def test_a_builder_that_looks_at_its_weights_is_given_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("looks_at_weights.py").write_text(LOOKS)
    model, _, _ = sized_model(TrustedName("looks_at_weights.py:looks"))
    assert 0.01 < float(model.weight.std()) < 0.1
