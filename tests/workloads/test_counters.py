"""Counters of kernels and regions: flop, bytes and times as the tools define them, and their point under a roofline."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.common.readers import decimal_mark
from slipstick.experiments.replay.read_files import peak_of, rooflines
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.importers.counters.likwid import read_likwid
from slipstick.workloads.importers.counters.ncu import read_ncu
from slipstick.workloads.importers.counters.perf_script import read_perf_script
from slipstick.workloads.importers.counters.perf_stat import read_perf_stat
from slipstick.workloads.importers.counters.rocprof_counters import read_rocprof_counters
from slipstick.workloads.importers.counters.telemetry import read_telemetry
from slipstick.workloads.importers.formats.registry import identify
from tests import files_made
from tests.pasted import DMON

READERS = {
    "ncu": read_ncu, "pmc": read_rocprof_counters, "perf-stat": read_perf_stat, "perf-script": read_perf_script,
    "likwid": read_likwid,
}  # fmt: skip


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
    began = files["perf-stat.json"].with_name("o.json")  # perf stat -j -o
    began.write_text("# started on Sun Sep  1 23:12:33 2024\n\n" + files["perf-stat.json"].read_text())
    kind = identify(began)
    assert read_perf_stat(began)[0].values == lines.values and kind is not None and kind.key == "perf-stat"
    began.write_text(began.read_text().replace("100.00", "100,00"))
    with pytest.raises(InputError, match="line 3: decimal commas, so no JSON; LC_ALL=C"):
        read_perf_stat(began)


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
        ("ncu.csv", '"msecond","2",', '"msecond","2","a","b","c"', "line 4: 14 values for 12 columns; .2. line 11"),
        ("ncu.csv", '"Kernel Name"', '"Kernel"', "no header with the column"),
        ("pmc.csv", "1000000,", "many,", "line 2: Counter_Value = 'many'"),
        ("perf-stat.json", "4000000000.000000", "<not counted>", "no event was counted"),
        ("perf-script.txt", "app  100", "", "holds no samples"),
        ("likwid.csv", "TABLE", "TABEL", "no table of likwid-perfctr"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(files: dict[str, Path], name: str, old: str, new: str, said: str) -> None:
    files[name].write_text(files[name].read_text().replace(old, new))
    with pytest.raises(InputError, match=said):
        READERS[name.partition(".")[0]](files[name])


GERMAN = str.maketrans(",.", ".,")
PERF_LINES = """ Performance counter stats for './app' (5 runs):

          1,203.45 msec task-clock                #    0.998 CPUs utilized            ( +-  0.12% )
     5,012,345,678      cycles                    #    4.165 GHz                      ( +-  0.08% )

           1.20568 +- 0.00145 seconds time elapsed  ( +-  0.12% )

       1.103450000 seconds user
       0.100000000 seconds sys
"""


@pytest.mark.parametrize("groups", [",", "'", "\u2019", "\u202f", ""])
@pytest.mark.parametrize("point", [".", ","])
def test_perf_stat_says_one_time_in_every_locale(tmp_path: Path, groups: str, point: str) -> None:
    """German, Swiss, French, without groups: the file as a whole says what its marks are."""
    marks = {ord(","): "." if (groups, point) == (",", ",") else groups, ord("."): point}
    (tmp_path / "a.txt").write_text(PERF_LINES.translate(marks).replace("./app", "app"))
    (run,) = read_perf_stat(tmp_path / "a.txt")
    assert run.seconds == pytest.approx(1.20568)
    assert run.values == {
        "task-clock": pytest.approx(1.20345), "cycles": 5012345678.0, "seconds user": 1.10345, "seconds sys": 0.1,
    }  # fmt: skip


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_perf_stat_with_separators_and_decimal_commas(tmp_path: Path, mark: str) -> None:
    lines = (("1203,45", "msec", "task-clock", "1203450000", "100,00"), ("5012345678", "", "cycles", "7", "100,00"))
    (tmp_path / "a").write_text("\n".join(mark.join(line) for line in lines))
    (run,) = read_perf_stat(tmp_path / "a")
    assert run.values == {"task-clock": pytest.approx(1.20345), "cycles": 5012345678.0}


def test_ncu_reads_decimal_commas(files: dict[str, Path]) -> None:
    german = files["ncu.csv"].with_name("german.csv")
    text = re.sub(
        r'"[\d.,]+",$', lambda one: one[0][:-1].translate(GERMAN) + ",", files["ncu.csv"].read_text(), flags=re.M
    )
    german.write_text(text)
    assert '"900.000.000"' in text and '"12,5"' in text
    assert read_ncu(german) == read_ncu(files["ncu.csv"])


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([(1, "7", False), (2, "1,234 ms", False)], "line 2: '1,234': the comma may part thousands"),
        ([(1, "1.5", False), (2, "2,5", False)], r"points \(line 1: '1.5'\) beside decimal commas \(line 2: '2,5'\)"),
    ],
)
def test_numbers_that_leave_the_locale_open_are_refused(numbers: list[tuple[int, str, bool]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        decimal_mark(numbers, "f")


@pytest.mark.parametrize(
    ("texts", "mark"),
    [
        (["1,234", "1,234,567"], "."), (["1.234", "1.234.567"], ","), (["1.234"], "."), (["0,250"], ","),
        (["1,234", "12.5 %"], "."), (["12,34,567"], "."), (["01.02.2026", "v1,5", "1.10.2"], "."), (["12345,678"], ","),
    ],
)  # fmt: skip
def test_the_mark_before_fractions(texts: list[str], mark: str) -> None:
    assert decimal_mark([(line, text, False) for line, text in enumerate(texts, 1)], "f") == mark
    assert decimal_mark([(1, "12.34", True)], "f") == "."
    assert decimal_mark([(1, "1,234", True)], "f") == "." and decimal_mark([(1, "1.234", True)], "f") == ","


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("ncu.csv", '"750.0"', '"-750.0"', "line 5: dram__bytes_read.sum = -750.0: counts, times and rates lie in"),
        ("pmc.csv", ",1000000,", ",-5,", "line 2: SQ_INSTS_VALU_FMA_F32 = -5: counts"),
        ("pmc.csv", ",1000000,", ",18446744073709551615,", "line 2: SQ_INSTS_VALU_FMA_F32 = 18446744073709551615"),
        ("pmc.csv", "1000,201000", "1000,900", "End_Timestamp = 900 lies before Start_Timestamp = 1000"),
        ("perf-stat.csv", "4000000000,,cycles", "-4000000000,,cycles", "line 4: cycles = -4000000000: counts"),
        ("perf-stat.txt", "4,000,000,000 ", "-4,000,000,000 ", "line 5: cycles = -4,000,000,000: counts"),
        ("perf-stat.json", '"4000000000.0', '"-4000000000.0', "line 1: cycles = -4000000000.000000: counts"),
        ("likwid.csv", ",1500.0,", ",-1500.0,", r"line 17: DP \[MFLOP/s\] = -1500.0: counts"),
        ("likwid.csv", "FIXC0,1000,", "FIXC0,-1000,", "line 10: INSTR_RETIRED_ANY = -1000: counts"),
    ],
)
def test_counts_below_zero_are_refused(files: dict[str, Path], name: str, old: str, new: str, said: str) -> None:
    text = files[name].read_text()
    assert old in text
    files[name].write_text(text.replace(old, new))
    with pytest.raises(InputError, match=said):
        READERS[name.partition(".")[0]](files[name])


@pytest.mark.parametrize("name", ["ncu.csv", "pmc.csv", "perf-stat.txt", "perf-stat.csv", "likwid.csv"])
def test_two_runs_in_one_file_are_refused(files: dict[str, Path], name: str) -> None:
    """Their counts would be added, and one time kept."""
    files[name].write_text(files[name].read_text() * 2)
    with pytest.raises(InputError, match="line .*(a second run begins here|the header again)"):
        READERS[name.partition(".")[0]](files[name])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("index, power.draw [W]\n0, 100 W\nindex, power.draw [W]\n0, 90 W\n", "line 3: the header again: two files"),
        ("index, power.draw [W]\n0, -100 W\n", "line 2: power.draw = -100: counts, times and rates lie in"),
    ],
)
def test_what_no_device_reports_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "smi.csv").write_text(text)
    with pytest.raises(InputError, match=f"smi.csv: {said}"):
        read_telemetry(tmp_path / "smi.csv")
    (tmp_path / "smi.csv").write_text("index, temperature.gpu\n0, -5\n")
    assert read_telemetry(tmp_path / "smi.csv")[0].values == [-5.0]  # a cold room


def test_units_without_their_columns_are_one_line(tmp_path: Path) -> None:
    """`drop` of the attack, seed 2027: the line of names had lost a cell."""
    path = tmp_path / "dmon.txt"
    path.write_text(DMON.replace("   mclk", "", 1))
    with pytest.raises(InputError, match=r"dmon\.txt: line 3: 10 units for 9 columns"):
        read_telemetry(path)
