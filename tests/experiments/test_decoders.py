"""Decoders timed: the user's own, bytes of what they make, errors; the usual ones make what the programs hand over."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.host.decoders import own_decoder, usual
from slipstick.workloads.networks.tpu_programs import feeds

CODE = """
import numpy as np
def one():
    return {"image": np.zeros((8, 8), np.float32), "label": 3}
def stream():
    for i in range(3):
        yield np.full(4, i, np.float32)
def broken():
    raise ValueError("no file")
"""


def test_a_decoder_of_the_user_s_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_decoders.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run(["measure", "decoders", "own_decoders:one", "--repeats", "3", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["example_bytes"] == 8 * 8 * 4 + 8 and 0 < row["host_seconds"] < 0.01
    stream = own_decoder(TrustedName("own_decoders:stream"))
    assert [stream.make() is not None for _ in range(7)] == [True] * 7 and stream.example_bytes == 16
    with pytest.raises(InputError, match="ValueError: no file"):
        own_decoder(TrustedName("own_decoders:broken"))


def test_the_usual_ones_make_the_bytes_of_the_programs() -> None:
    imagenet, coco, cifar, vectors = usual()
    picture = imagenet.make()
    assert isinstance(picture, np.ndarray) and picture.shape == (224, 224, 3)
    assert picture.nbytes == imagenet.example_bytes == feeds.IMAGENET.example_bytes - 4  # a label
    assert coco.example_bytes == feeds.COCO.example_bytes
    assert cifar.example_bytes == feeds.CIFAR10.example_bytes
    made = vectors.make()
    assert isinstance(made, tuple)
    assert sum(each.nbytes for each in made) == vectors.example_bytes == feeds.VECTORS.example_bytes
