"""What ships as fitted numbers has a word that fits it anew, and a second fit changes nothing."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from slipstick.estimators.fitting.fitted_file import FITTED
from slipstick.estimators.sparse.spmv_devices import SHIPPED as SPARSE
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.registry import CALIBRATIONS
from slipstick.experiments.scoring.fitted_files import ShippedFiles
from slipstick.experiments.scoring.refits import HOME, REFITS, refitted, words


def test_every_word_names_a_fit() -> None:
    assert all(callable(import_module(f"{HOME}.{module}").refit) for module in REFITS.values())


def test_every_shipped_calibration_has_a_word() -> None:
    """Files of the learner are called as their words; the others are those of three words."""
    others = {"operations": ["gpus.json"], "tpu": ["tpu.json"], "sparse": [path.name for path in SPARSE.glob("spmv-*")]}
    assert {path.name for path in CALIBRATIONS.glob("*.json")} == {"gpus.json", "tpu.json"}
    assert {path.stem for path in FITTED.glob("*.json")} | set(others) == set(REFITS)


def test_several_words_are_fitted_in_order_and_none_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    assert words(["tpu", "serving", "tpu"]) == ["tpu", "serving"] and words(["all"]) == sorted(REFITS)
    assert run(["validate", "--refit", "serving", "tpu"]) == 2
    assert "--refit serving --refit tpu" in capsys.readouterr().err
    assert run(["validate", "--refit", "serving", "--refit", "tpus"]) == 2  # at once, not after serving
    assert "tpus" in capsys.readouterr().err


def test_a_digit_beyond_the_fifth_is_no_change(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"

    def saved(first: float, second: float) -> bool:
        return ShippedFiles({one: {"value": first}, other: {"value": second}}, 1).save()

    assert saved(1.0, 2.0)
    assert not saved(1.000001, 2.0)
    assert json.loads(one.read_text()) == {"value": 1.0}
    assert saved(1.000001, 2.1)
    assert [json.loads(path.read_text())["value"] for path in (one, other)] == [1.0, 2.1]
    assert saved(1.1, 2.2)
    assert [json.loads(path.read_text())["value"] for path in (one, other)] == [1.1, 2.2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["operations", "sparse", "tpu"])
def test_a_refit_changes_nothing(name: str, tmp_path: Path) -> None:
    """Written beside copies of what ships: `save` says whether the numbers agree."""
    if data_folder() is None:
        pytest.skip("no public measurements here")
    made = refitted(name)
    assert isinstance(made, ShippedFiles)
    copies = {}
    for path, document in made.documents.items():
        copies[tmp_path / path.name] = document
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert not ShippedFiles(copies, made.used).save()
    if made.beside:
        (tmp_path / f"{made.beside.name}.json").write_bytes((FITTED / f"{made.beside.name}.json").read_bytes())
        assert not made.beside.save(tmp_path)
