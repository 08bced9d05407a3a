"""Counters of kernels and regions: flop, bytes and times as the tools define them, and their point under a roofline."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.experiments.traces.counted_roofline import peak_of, rooflines
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.importers.counters.likwid import read_likwid
from slipstick.workloads.importers.counters.ncu import read_ncu
from slipstick.workloads.importers.counters.perf_script import read_perf_script
from slipstick.workloads.importers.counters.perf_stat import read_perf_stat
from slipstick.workloads.importers.counters.rocprof_counters import read_rocprof_counters
from tests import files_made


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return files_made.write_all(tmp_path)


def test_ncu_sums_launches_in_si_units(files: dict[str, Path]) -> None:
    first, second = read_ncu(files["ncu.csv"])
    assert (first.name, first.count, second.count) == ("axpy(float*)", 2, 1)
    assert first.seconds == pytest.approx(4e-3) and first.moved == pytest.approx(2e9)
    assert first.flop == pytest.approx(2 * (2 * 9e8 + 2e8)) and first.intensity == pytest.approx(2.0)
    assert first.shares == {"compute": pytest.approx(0.125)}
    (raw,) = read_ncu(files["ncu-raw.csv"])
    assert (raw.count, raw.seconds, raw.moved) == (2, pytest.approx(4e-3), pytest.approx(2e9)) and raw.flop is None


def test_the_point_lies_under_the_roofs_of_the_machine(files: dict[str, Path]) -> None:
    v100 = machine("v100-sxm")
    row, _ = rooflines(read_ncu(files["ncu.csv"]), v100, "float32", 10)
    bandwidth = v100.bandwidth(v100.main_memory)
    assert row["bytes_per_s"] == pytest.approx(500e9) and row["flop_per_s"] == pytest.approx(1e12)
    assert row["of_peak_memory"] == pytest.approx(500e9 / bandwidth)
    assert row["of_peak_compute"] == pytest.approx(1e12 / peak_of(v100, "float32"))
    assert row["nearer_roof"] == "memory" and row["faster_at_most"] == pytest.approx(bandwidth / 500e9)
    with pytest.raises(InputError, match="unknown dtype"):
        peak_of(v100, "float99")


def test_rocprof_counts_lanes_and_kibibytes(files: dict[str, Path]) -> None:
    (one,) = read_rocprof_counters(files["pmc.csv"])
    assert one.flop == 1_000_000 * 64 * 2 and one.moved == 1250 * 1024 and one.seconds == pytest.approx(2e-4)


def test_perf_stat_in_its_three_forms(files: dict[str, Path]) -> None:
    (csv,) = read_perf_stat(files["perf-stat.csv"])
    assert csv.seconds == pytest.approx(2.0) and csv.flop == pytest.approx(4.5e9)
    assert csv.moved == pytest.approx(1536 * 2**20) and "cache-misses" not in csv.values
    (text,) = read_perf_stat(files["perf-stat.txt"])
    assert text.seconds == pytest.approx(2.5)
    assert {name: text.values[name] for name in ("cycles", "instructions")} == {"cycles": 4e9, "instructions": 8e9}
    (lines,) = read_perf_stat(files["perf-stat.json"])
    assert lines.values == {"cycles": 4e9} and lines.seconds is None


def test_perf_script_weighs_samples_by_their_periods(files: dict[str, Path]) -> None:
    first, second = read_perf_script(files["perf-script.txt"])
    assert (first.name, first.count, first.shares["samples"]) == ("solve", 2, pytest.approx(0.75))
    assert second.name == "std::sort<int (*)(int)>(int*)"


def test_likwid_takes_whole_rates_and_sums_over_cores(files: dict[str, Path]) -> None:
    (one,) = read_likwid(files["likwid.csv"])
    assert (one.name, one.count, one.seconds) == ("solve", 5, 2.0)
    assert one.flop == pytest.approx(2000e6 * 2.0) and one.moved == pytest.approx(8e9)
    assert one.intensity == pytest.approx(0.5) and one.values == {"INSTR_RETIRED_ANY": 3000.0}


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("ncu.csv", '"msecond","2",', '"msecond","2","a","b","c"', "line 4: 14 values for 12 columns; line 11"),
        ("ncu.csv", '"Kernel Name"', '"Kernel"', "no header with the column"),
        ("pmc.csv", "1000000,", "many,", "line 2: Counter_Value = 'many'"),
        ("perf-stat.json", "4000000000.000000", "<not counted>", "no event was counted"),
        ("perf-script.txt", "app  100", "", "holds no samples"),
        ("likwid.csv", "TABLE", "TABEL", "no table of likwid-perfctr"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(files: dict[str, Path], name: str, old: str, new: str, said: str) -> None:
    readers = {
        "ncu.csv": read_ncu, "pmc.csv": read_rocprof_counters, "perf-stat.json": read_perf_stat,
        "perf-script.txt": read_perf_script, "likwid.csv": read_likwid,
    }  # fmt: skip
    files[name].write_text(files[name].read_text().replace(old, new))
    with pytest.raises(InputError, match=said):
        readers[name](files[name])
