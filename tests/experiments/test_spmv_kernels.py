"""A stranger's path on the command line: own matrix, own host, kernels measured, predicted with bands, checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scipy.io import mmwrite

from slipstick.estimators.sparse.kernel_costs import load_host_kernels
from slipstick.estimators.sparse.sparse_products import CALL, WITHIN
from slipstick.estimators.sparse.spmv_devices import FORMATS
from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.spmv.labels import family, recipes, shipped_products
from slipstick.experiments.scoreboards.spmv import kernel_scores
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine_file import save_machine
from slipstick.workloads.kernels.generators import from_recipe, rmat
from tests.printed import rows


@pytest.fixture
def own_matrix(tmp_path: Path) -> str:
    path = tmp_path / "own.mtx"
    mmwrite(path, rmat(9, 5000, 7).to_scipy())
    return str(path)


def test_my_matrix_on_my_host_by_kernel(tmp_path: Path, own_matrix: str, capsys: pytest.CaptureFixture[str]) -> None:
    host = str(tmp_path / "my-host.yaml")
    costs = rows(capsys, "spmv", "calibrate", host, "--kernel", "scipy", "--caches", "warm", "--largest", "12000")
    assert [row["kernel"] for row in costs] == ["scipy"]
    assert (tmp_path / "my-host.spmv.json").exists()
    (found,) = rows(capsys, "spmv", "predict", own_matrix, "--on", host)
    assert found["kernel"] == "scipy"
    assert 0 < float(str(found["low_s"])) < float(str(found["time_s"])) < float(str(found["high_s"]))
    (checked,) = rows(capsys, "measure", "spmv", own_matrix, "--kernel", "scipy", "--on", host)
    assert checked["predicted_s"] == pytest.approx(found["time_s"])
    assert 0.2 < float(str(checked["measured_s"])) / float(str(found["time_s"])) < 5
    model = str(tmp_path / "my-host.spmv.json")
    (whole,) = rows(capsys, "estimate", own_matrix, "--on", host, "--calibration", model)
    assert whole["time_s"] == pytest.approx(found["time_s"], rel=1e-6)
    assert run(["estimate", own_matrix, "--on", host, "--calibration", model, "--threads", "2"]) == 2
    assert "on several threads" in capsys.readouterr().err


def test_kernels_that_ship_answer_on_any_processor_with_threads(
    own_matrix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = rows(capsys, "spmv", "predict", own_matrix)
    assert first["kernel"] == "blocks"
    assert {row["kernel"] for row in others} >= {"scipy", "numba", "torch"}
    xeon = ("--on", "xeon-gold-6230")
    (one,) = rows(capsys, "spmv", "predict", own_matrix, *xeon, "--kernel", "numba")
    (two,) = rows(capsys, "spmv", "predict", own_matrix, *xeon, "--kernel", "numba", "--threads", "2")
    assert float(str(two["imbalance"])) > 1
    assert float(str(two["time_s"])) > float(str(one["time_s"])) / 2
    assert run(["spmv", "predict", own_matrix, "--on", "a100-pcie-40gb", "--kernel", "scipy"]) == 2
    assert run(["spmv", "predict", own_matrix, "--kernel", "blocks", "--threads", "2"]) == 2
    assert run(["spmv", "predict", own_matrix, "--kernel", "scipy", "--cache-state", "hot"]) == 2


def test_the_time_stands_first_and_where_costs_come_from_last(
    own_matrix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (first, *_) = rows(capsys, "spmv", "predict", own_matrix)
    assert run(["spmv", "predict", own_matrix]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "(80 %: " in lines[0] and "kernel blocks" in lines[0] and "by costs of reuse" in lines[0]
    assert float(str(first["held_out_spread"])) < 0.15
    assert len(lines) <= 12 and lines[-1].endswith("--verbose")
    assert run(["spmv", "predict", own_matrix, "--verbose"]) == 0
    whole = capsys.readouterr().out
    assert whole.splitlines()[0] == lines[0] and whole.count("assuming: ") > 5


def test_a_tiny_product_says_that_the_start_of_a_call_is_left_out(
    tmp_path: Path, own_matrix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """33 ns stood alone for a matrix of five non-zeros, of which a call takes a microsecond."""
    (tmp_path / "tiny.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1\n3 3 1\n")
    warm = load_host_kernels().of("blocks", "warm")
    assert warm.cost["call"] == pytest.approx(CALL, rel=0.05)
    for path, said in ((str(tmp_path / "tiny.mtx"), True), (own_matrix, False)):
        assert run(["spmv", "predict", path]) == 0
        assert (WITHIN in capsys.readouterr().out.replace("\n  ", " ").split("kernel  label")[0]) == said


def test_products_are_predicted_without_torch(own_matrix: str) -> None:
    code = "import sys; sys.modules['torch'] = None; from slipstick.experiments.cli.cli import run; "
    code += f"sys.exit(run(['spmv', 'predict', {own_matrix!r}, '--format', 'json']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["time_s"] > 0


def test_a_machine_file_is_not_written_over(tmp_path: Path, own_matrix: str) -> None:
    path = tmp_path / "mine.yaml"
    save_machine(machine("xeon-gold-6230").using(cores=1), path)
    before = path.read_text()
    assert run(["spmv", "calibrate", str(path), "--threads", "2"]) == 2
    assert path.read_text() == before


def test_judged_matrices_are_of_other_generators_and_those_that_were_measured() -> None:
    known, other = ({family(one["recipe"]) for one in recipes(part).values()} for part in ("calibration", "judged"))
    assert not known & other
    assert len(recipes("judged")) == 30
    labels = shipped_products()
    for products, made in ((labels.calibration, recipes("calibration")), (labels.judged, recipes("judged"))):
        assert [one.name for one in products] == list(made)
        assert [one.counts["nonzeros"] for one in products] == [one["nonzeros"] for one in made.values()]
        small = min(products, key=lambda one: one.counts["nonzeros"])
        assert from_recipe(small.name, made[small.name]["recipe"]).nonzeros == small.counts["nonzeros"]


def test_bands_of_kernels_cover_four_in_five_of_thirty_matrices() -> None:
    """Our own measurements; the binomial 95 % interval of 30 x 0.8 is 19 to 28 matrices."""
    found = kernel_scores.rows()
    alone = [row for row in found if row.case.endswith("1 thread")]
    assert len(alone) == 8
    assert all(row.n == 30 for row in alone)
    within = [row for row in alone if 0.7 <= (row.interval_coverage or 0) <= 0.9]
    assert len(within) == 8
    for row in found:
        assert (row.ours or 1) < min(row.baselines.values())


def test_an_accelerator_answers_by_storage_format_and_with_anchors_for_compressed_rows(
    own_matrix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = rows(capsys, "spmv", "predict", own_matrix, "--on", "v100-sxm")
    assert [row["kernel"] for row in answers] == list(FORMATS)
    assert all(float(str(row["low_s"])) < float(str(row["time_s"])) < float(str(row["high_s"])) for row in answers)
    known = tmp_path / "known.csv"
    known.write_text(f"matrix,time_s\n{Path(own_matrix).name},1e-5\n")
    anchored = rows(capsys, "spmv", "predict", own_matrix, "--on", "mi210", "--measured", str(known))
    assert [row["kernel"] for row in anchored] == ["csr"]


def test_labels_of_an_unknown_kind_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spmv", "validate", "--cache-state", "warm"]) == 2
    assert "unknown label kind 'warm'" in capsys.readouterr().err
