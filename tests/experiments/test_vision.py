"""Image networks of the board `vision`: their operations against published numbers, and the law that predicts them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.fitting.fit_model import fit
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.programs.image_networks import image_network, names
from slipstick.experiments.scoreboards.programs.program_law import ProgramLaw
from slipstick.experiments.scoreboards.programs.vision_board import BOARD
from slipstick.experiments.scoreboards.programs.vision_law import Setting, law_rows, network_row
from slipstick.experiments.scoreboards.programs.vision_rows import FILE, read_rows
from slipstick.hwmodels.catalog import machine

INFERENCE = Setting("inference", "eager", "nchw", "float16-amp")
PUBLISHED = {"resnet50": 4.1e9, "vit_base_patch16_224": 17.6e9}
"""Multiply-adds at 224 pixels: torchvision (ResNet-50), and Dosovitskiy et al. 2021 as timm counts (attention too)."""


def multiply_adds(name: str, pixels: int, batch: int) -> float:
    network = image_network(name, pixels, batch)
    return sum(
        float(amount * op.times) for op in network for kind, amount in op.cost.items() if kind.startswith("flop.matrix")
    ) / (2 * batch)


@pytest.mark.parametrize("name", ["resnet50", "vit_base_patch16_224"])
def test_networks_count_the_published_multiply_adds_at_any_batch(name: str) -> None:
    for batch in (1, 64, 1024):
        assert multiply_adds(name, 224, batch) == pytest.approx(PUBLISHED[name], rel=0.02)


@pytest.mark.skipif(training_file(FILE) is None, reason="no public measurements here")
def test_networks_count_the_table_s_multiply_adds() -> None:
    """timm counts them with other tools: half of the networks agree within 1 %, nine in ten within 10 %."""
    frame = read_rows(training_file(FILE) or Path())
    pairs = frame.drop_duplicates(["model", "image"]).iloc[::12]
    known = [row for _, row in pairs.iterrows() if (row["model"], row["image"]) in names() and row["macs"] > 0]
    errors = [abs(multiply_adds(row["model"], row["image"], 1) / row["macs"] - 1) for row in known]
    assert len(errors) > 15
    assert np.median(errors) < 0.01
    assert np.quantile(errors, 0.9) < 0.10


def test_a_network_that_is_not_traced_is_named() -> None:
    with pytest.raises(InputError, match="network 'resnet5000' at 224 pixels: not traced"):
        image_network("resnet5000", 224, 1)


def test_the_law_finds_back_the_times_that_it_made() -> None:
    """Closed: times made by a law are fitted by a law, at other batches too."""
    target = machine("rtx-3090")
    rows = [network_row("resnet50", 224, batch, INFERENCE, target) for batch in (32, 64, 128, 256, 512)]
    classes = sorted({name for row in rows for name in row.names})
    table, known = law_rows(rows, np.array([0.02, 0.04, 0.08, 0.16, 0.32]), [str(at) for at in range(5)], classes)
    made = fit(ProgramLaw(tuple(classes), table), known)
    for row, seconds in ((rows[1], 0.04), (network_row("resnet50", 224, 1024, INFERENCE, target), 0.64)):
        table, asked = law_rows([row], np.ones(1), [""], classes)
        told = made.seconds(ProgramLaw(tuple(classes), table), asked.columns, asked.groups)
        assert told[0] == pytest.approx(seconds, rel=0.05)


def test_rows_that_cannot_be_read_are_skipped_with_their_reason(tmp_path: Path) -> None:
    folder = tmp_path / "vision"
    folder.mkdir()
    reasons = []
    for text in ("", "device,model\nrtx-3090,resnet50\n", "not a table"):
        (folder / "timm.csv").write_text(text)
        reasons += [row.reason for row in BOARD.rows(tmp_path)]
    assert all(reasons)
