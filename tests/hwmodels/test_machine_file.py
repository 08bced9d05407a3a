"""Numbers that can hardly be meant are warned of in one line; they are no errors."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.hwmodels.catalog import FOLDER, machine_names
from slipstick.hwmodels.machine_file import ImplausibleWarning, implausible, load_machine

GPU = (FOLDER / "v100-sxm.yaml").read_text()


def _written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", machine_names())
def test_nothing_that_ships_is_doubted(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ImplausibleWarning)
        load_machine(FOLDER / f"{name}.yaml")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clock": "30 GHz"}, "clock = 30 GHz is hardly meant: expected 1 MHz to 20 GHz"),
        ({"price": 1e9}, "price = 1 G$/h is hardly meant: expected 0 $/h to 1 M$/h"),
        (
            {"engines.vector.flop_per_cycle.float32": 1e308},
            "engines.vector.flop_per_cycle.float32 = 1e+308 is hardly meant: expected 0.01 to 100000000",
        ),
        (
            {"memory.L2.capacity": "1 TB"},
            "memory.L2.capacity = 1 TB is hardly meant: expected at most {main}, that of HBM2",
        ),
        (
            {"memory.HBM2.bandwidth": "900 TB/s"},
            "memory.HBM2.bandwidth = 900 TB/s is hardly meant: expected at most {l2}, that of L2, which is nearer",
        ),
        ({"power.idle": "900 W"}, "power.idle = 900 W is hardly meant: expected at most power.cap, {cap}"),
        ({"runtime.launch_overhead": 5}, "runtime.launch_overhead = 5 s is hardly meant: expected 0 s to 1 s"),
    ],
)
def test_each_slip_is_named_with_field_value_and_range(changes: dict[str, object], words: str) -> None:
    from slipstick.common.formatting import format_quantity
    from slipstick.hwmodels.catalog import machine

    gpu = machine("v100-sxm")
    known = {
        "main": format_quantity(gpu.memory["HBM2"].capacity, "byte"),
        "l2": format_quantity(gpu.bandwidth("L2"), "byte/s"),
        "cap": format_quantity(gpu.power.cap or 0, "W"),
    }
    assert list(implausible(gpu.using(changes))) == [words.format(**known)]


def test_a_warning_is_one_line_on_stderr_and_the_answer_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written(tmp_path, GPU.replace("clock: 1530 MHz", "clock: 153 GHz"))
    with pytest.warns(ImplausibleWarning, match=r"mine\.yaml: clock = 153 GHz"):
        load_machine(path)
    assert run(["estimate", "gemm", "--on", str(path), "--format", "json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)[0]["time_s"] > 0
    (line,) = told.err.splitlines()
    assert line == f"slipstick: warning: {path}: clock = 153 GHz is hardly meant: expected 1 MHz to 20 GHz"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("bflot16", "unknown data type 'bflot16'; did you mean 'bfloat16'?"),
        ("bf16", "unknown data type 'bf16'; did you mean 'bfloat16'?"),
        ("posit16", "unknown data type 'posit16'"),
    ],
)
def test_a_rate_of_an_unknown_data_type_is_refused(tmp_path: Path, written: str, words: str) -> None:
    """It would never be read: the answer would be that of a machine without the rate."""
    changed = GPU.replace("float16:", f"{written}:", 1)
    assert changed != GPU
    with pytest.raises(InputError, match=r"mine\.yaml: engines\.[a-z]+\.flop_per_cycle: ") as caught:
        load_machine(_written(tmp_path, changed))
    assert words in str(caught.value)
