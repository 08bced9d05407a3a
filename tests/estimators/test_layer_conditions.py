"""A stencil on a machine of a kerncraft file: from the command line, against kerncraft's cycles and closed forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.cpu.layer_conditions import LayerConditions
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.registry import estimator
from slipstick.hwmodels.importers.kerncraft import load_kerncraft
from slipstick.workloads.catalog import workload

FILE = Path(__file__).parents[1] / "data" / "kerncraft_cod.yml"
HASWELL = load_kerncraft(FILE).machine()
MEM = 64 * 2.3 / (17.84 * 1.5)  # cycles a line at the saturated copy bandwidth of a domain: 5.50


def cycles(name: str, size: int, cores: int) -> float:
    """Cycles for one line of eight results."""
    bound = workload(name).bind_known(dict.fromkeys("xyz", size))
    seconds = LayerConditions(cores).times(bound.operations, HASWELL)[0]
    return float(seconds * HASWELL.clock * 8 / float(bound.operations[0].dims["elements"]))


@pytest.mark.parametrize(("size", "transfers"), [(10_000, 5 + 10 + 3 * MEM), (4_000, 5 + 6 + 3 * MEM), (500, 3 + 6)])
def test_five_points_on_one_core(size: int, transfers: float) -> None:
    """kerncraft 0.8.18 prints 5/10/16.50, 5/6/16.50 and 3/6/0 cy/CL; 34 bytes an iteration between core and L1."""
    width = HASWELL.memory["L1"].bytes_per_cycle
    assert width is not None
    assert cycles("jacobi-2d-5pt", size, 1) == pytest.approx(34 * 8 / width + transfers, rel=1e-9)


def test_all_cores_saturate_both_memory_domains() -> None:
    assert cycles("jacobi-2d-5pt", 10_000, 14) == pytest.approx(3 * MEM / 2, rel=1e-9)
    assert cycles("jacobi-2d-5pt", 10_000, 7) == pytest.approx(3 * MEM, rel=1e-9)
    assert cycles("stream-triad", 10**8, 14) == pytest.approx(4 * MEM / 2, rel=1e-9)


def test_from_a_kerncraft_file_to_an_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = str(tmp_path / "machine.yaml")
    assert run(["machines", "import", str(FILE), "--out", made]) == 0
    capsys.readouterr()
    asked = ["estimate", "jacobi-2d-5pt", "--on", made, "--estimator", "layer-conditions", "--format", "json"]
    assert run(asked) == 0
    found = json.loads(capsys.readouterr().out)
    seconds = 10_000**2 * 24 / (2 * 17.84e9 * 1.5)  # read, loaded before the store, written: 24 bytes a result
    assert str(seconds)[:6] in json.dumps(found)


def test_other_operations_and_too_many_cores_are_refused() -> None:
    with pytest.raises(InputError, match="is no loop over arrays"):
        estimator("layer-conditions").estimate(workload("vector-sum"), HASWELL)
    with pytest.raises(InputError, match="cores = 15"):
        cycles("jacobi-2d-5pt", 500, 15)
