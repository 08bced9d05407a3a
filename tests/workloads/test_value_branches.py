"""Models that branch on the values of tensors, as padding warnings and masks of language models do."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.workloads.graph.workload import Workload

torch = pytest.importorskip("torch", reason="the torch extra is not installed")
nn = torch.nn

from slipstick.workloads.importers.torch.arguments import Input  # noqa: E402
from slipstick.workloads.importers.torch.importer import import_torch  # noqa: E402

IDS = Input(("batch", "seq_len"), "int64")
ROWS = Input(("batch", 16))


class Padded(nn.Module):  # type: ignore[misc,name-defined]
    """Embeds words and looks at them first, as `PreTrainedModel.warn_if_padding_and_no_attention_mask` does."""

    def __init__(self, *, look: str) -> None:
        super().__init__()
        self.embed, self.out, self.look = nn.Embedding(100, 16), nn.Linear(16, 100), look

    def forward(self, input_ids: Any) -> Any:
        if (self.look == "any" and (input_ids == 0).any()) or (self.look == "in" and 0 in input_ids[:, [-1, 0]]):
            warnings.warn("padding, and no mask", stacklevel=1)
        return self.out(self.embed(input_ids))


def products(graph: Workload) -> list[tuple[str, ...]]:
    return [tuple(map(str, (op.dims["m"], op.dims["n"], op.dims["k"]))) for op in graph if op.kind == "gemm"]


@pytest.mark.parametrize("purpose", ["training", "inference"])
@pytest.mark.parametrize("look", ["any", "in"])
def test_a_warning_about_padding_changes_nothing(look: str, purpose: str) -> None:
    plain = import_torch(Padded(look=""), [IDS], purpose=purpose)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none is shown: there are no values
        graph = import_torch(Padded(look=look), [IDS], purpose=purpose)
    assert products(graph) == products(plain)
    assert graph.symbols == {"batch", "seq_len"}
    assert graph.metadata["assumptions"] == ()
    compared = {op.name for op in graph} - {op.name for op in plain}
    assert {"eq", "any"} <= compared  # what looks at the values is work too


@pytest.mark.parametrize("turned", [False, True])
def test_where_the_ways_differ_that_of_more_work_stands_and_is_named(turned: bool) -> None:
    layer = nn.Linear(16, 16)

    def masked(x: Any) -> Any:
        return layer(x) if bool((x > 0).all()) is turned else x

    graph = import_torch(masked, [ROWS], purpose="inference")
    assert products(graph) == [("16", "batch", "16")]
    noted = str(graph.metadata["assumptions"])
    assert "test_value_branches.py:" in noted
    assert f"is {turned} (the way of more work)" in noted


def test_layers_dropped_at_random_are_one_branch() -> None:
    layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(12)])

    def stack(x: Any) -> Any:
        for layer in layers:
            if torch.rand([]) < 0.1:
                continue
            x = layer(x)
        return x

    graph = import_torch(stack, [ROWS], purpose="inference")
    assert products(graph) == [("16", "batch", "16")] * 12
    assert str(graph.metadata["assumptions"]).count("condition on values") == 1


@pytest.mark.parametrize("good", [False, True])
def test_a_check_that_ends_in_an_error_is_no_way(good: bool) -> None:
    def checked(x: Any) -> Any:
        if bool(torch.isfinite(x).all()) is not good:
            raise ValueError("bad values")
        return x @ x.T

    graph = import_torch(checked, [ROWS], purpose="inference")
    assert products(graph) == [("batch", "batch", "16")]
    assert f"is {good} (else the model ends in an error)" in str(graph.metadata["assumptions"])


def test_branches_that_come_up_on_the_other_way_are_turned_too() -> None:
    layer = nn.Linear(16, 16)

    def nested(x: Any) -> Any:
        if (x > 0).all():
            x = layer(x)
            if (x > 1).all():
                x = layer(x)
        return x

    assert products(import_torch(nested, [ROWS], purpose="inference")) == [("16", "batch", "16")] * 2


def test_a_size_that_torch_fixes_is_interpolated_on_the_way_taken() -> None:
    def doubled(x: Any) -> Any:
        y = nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
        return y * 2 if (x > 0).all() else y

    shape = [Input(("batch", 3, 8, 8))]
    model = nn.Sequential(nn.Conv2d(3, 3, 1))
    graph = import_torch(lambda x: doubled(model(x)), shape, purpose="inference")
    assert "mul" in {op.name for op in graph}
    assert graph.symbols == {"batch"}


@pytest.mark.parametrize(
    ("name", "mended"),
    [
        ("endless", "a loop at .*ends by values"),
        ("many", "more than 8 branches"),
        ("counted", "cannot be recorded"),
    ],
)
def test_what_hangs_on_values_otherwise_is_refused(name: str, mended: str) -> None:
    def endless(x: Any) -> Any:
        while (x > 0).any():
            x = x - 1
        return x

    def many(x: Any) -> Any:
        x = x if (x > 1).all() else x + 1
        x = x if (x > 2).all() else x + 2
        x = x if (x > 3).all() else x + 3
        x = x if (x > 4).all() else x + 4
        x = x if (x > 5).all() else x + 5
        x = x if (x > 6).all() else x + 6
        x = x if (x > 7).all() else x + 7
        x = x if (x > 8).all() else x + 8
        return x if (x > 9).all() else x + 9

    def counted(x: Any) -> Any:
        return x[: int((x > 0).sum())]

    model = {"endless": endless, "many": many, "counted": counted}[name]
    with pytest.raises(InputError, match=mended):
        import_torch(model, [ROWS], purpose="inference")


OWN = """
import torch, warnings

class Bert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = torch.nn.Embedding(30522, 768), torch.nn.Linear(768, 30522)
    def forward(self, input_ids):
        if (input_ids == 0).any():
            warnings.warn("padding, and no mask")
        return self.out(self.embed(input_ids))

class Masked(Bert):
    def forward(self, input_ids):
        rows = super().forward(input_ids)
        return rows if (input_ids > 0).all() else rows * 2

def make():
    return Bert()

def masked():
    return Masked()
"""


def test_one_line_from_a_file_of_one_s_own_to_seconds(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    (tmp_path / "my_padded_for_a_test.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    words = (
        "estimate my_padded_for_a_test.py:make --on H100 --input input_ids=batch,seq_len:int64 --batch 8 --seq-len 128"
    )
    assert run([*words.split(), "--format", "json"]) == 0
    seconds = float(json.loads(capsys.readouterr().out)[0]["time_s"])
    assert seconds > 2 * 8 * 128 * 768 * 30522 / 67e12  # not above the data sheet's peak in float32
    assert run(words.replace(":make", ":masked").split()) == 0
    shown = capsys.readouterr().out
    assert "beware: condition on values at my_padded_for_a_test.py:" in shown
