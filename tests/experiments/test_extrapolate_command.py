"""slipstick extrapolate: a file in, times with a band, a formula and a verdict out."""

import json
from pathlib import Path

import pytest

from slipstick.common.formatting import share_shown
from slipstick.experiments.cli.cli import run

PHI = """threads,time_s
1,7.10e-6
15,6.40e-4
30,1.36e-3
60,3.07e-3
120,6.76e-3
180,9.95e-3
240,1.40e-2
"""


@pytest.fixture
def phi_file(tmp_path: Path) -> str:
    path = tmp_path / "phi.csv"
    path.write_text(PHI)
    return str(path)


def test_the_xeon_phi_contention_line(phi_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["extrapolate", phi_file, "--to", "480,3840", "--family", "line", "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    # Viebke et al. 2019, Table IV, small network, predicted rows
    assert [row["time_s"] for row in answer["predictions"]] == pytest.approx([2.78e-2, 2.25e-1], rel=0.007)
    assert answer["unit"] == "s" and answer["parameter"] == "threads"


def test_the_number_first_and_what_is_assumed_below(phi_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["extrapolate", phi_file, "--to", "480", "--on", "xeon-phi-7120p", "--next", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("at threads = 480: ") and "assuming: weak scaling in threads (taken from the name" in said
    assert "time [s] =" in said and "border of the machine" in said and "measure next" in said


def test_what_to_run_next_is_said_with_what_it_buys_where_the_answer_is_not_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(
        "threads,time_s\n"
        + "".join(f"{p},{(1 + 100 / p) * (1 + 0.04 * (-1) ** p.bit_length())}\n" for p in (1, 2, 4, 8, 16))
    )
    assert run(["extrapolate", str(path), "--to", "128", "--format", "json"]) == 0
    helpful = json.loads(capsys.readouterr().out)[0]["most_helpful"]
    assert helpful["threads"] in (32, 64) and 0 < helpful["doubt_removed"] < 1
    assert run(["extrapolate", str(path), "--to", "128"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"most helpful next: a run at threads = {helpful['threads']:g}" in said
    assert f"{share_shown(helpful['doubt_removed'])} of the doubt at 128" in said


def test_the_formula_is_said_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "amdahl.csv"
    path.write_text("threads,time_s\n" + "".join(f"{p},{2 + 96 / p}\n" for p in (1, 2, 4, 8, 16)))
    assert run(["extrapolate", str(path), "--to", "48", "--family", "amdahl"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "time [s] = 2 + 96/threads" in said
    assert "at threads = 48 that is 50 % constant, 50 % 1/threads" in said


def test_regions_are_ranked_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{name},{p},{time}" for p in (1, 2, 4, 8, 16) for name, time in (("flat", 5), ("tree", 1 + 0.1 * p))]
    path = tmp_path / "regions.csv"
    path.write_text("region,processes,time_s\n" + "\n".join(rows) + "\n")
    picture = tmp_path / "a.png"
    assert run(["extrapolate", str(path), "--to", "256", "--plot", str(picture)]) == 0
    said = capsys.readouterr().out
    assert said.index("tree") < said.index("flat")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run(["extrapolate", str(path), "--to", "64,256", "--format", "csv", "--region", "tree"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_two_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{t},{n},{n * (0.02 + 1 / t)}" for t in (1, 2, 4, 8) for n in (100, 200, 400)]
    path = tmp_path / "two.csv"
    path.write_text("threads,size,time_s\n" + "\n".join(rows) + "\n")
    assert run(["extrapolate", str(path), "--to", "threads=64,size=3200", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["time_s"] == pytest.approx(3200 * (0.02 + 1 / 64), rel=1e-3)
    assert run(["extrapolate", str(path), "--to", "threads=64,size=3200", "--on", "xeon-phi-7120p"]) == 2
    assert "--on is for one parameter, but threads, size vary" in capsys.readouterr().err


def test_several_targets_kinds_and_a_band_in_two_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{t},{n},{1e-6 * n**2 / t}" for t in (1, 2, 4, 8) for n in (100, 200, 400, 800)]
    path = tmp_path / "pairs.csv"
    path.write_text("threads,n,time_s\n" + "\n".join(rows) + "\n")
    to = "threads=16,n=1600; threads=32,n=3200"
    assert (
        run(["extrapolate", str(path), "--to", to, "--kind", "threads=strong,n=problem_size", "--format", "csv"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and "low_s" in lines[0] and "trust" in lines[1]
    assert run(["extrapolate", str(path), "--to", to]) == 0
    said = capsys.readouterr().out
    assert "assuming: threads: strong" in said and "time [s] = 1e-06 n^2/threads" in said
    assert run(["extrapolate", str(path), "--to", "threads=64"]) == 2
    assert "--to gives no value for n" in capsys.readouterr().err


def test_strong_scaling_says_speedup_efficiency_and_how_many_to_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = tmp_path / "amdahl.csv", tmp_path / "gains.png"
    path.write_text("threads,time_s\n" + "".join(f"{p},{2 + 98 / p}\n" for p in (1, 2, 4, 8, 16)))
    assert run(["extrapolate", str(path), "--to", "32,64", "--format", "json", "--plot", str(picture)]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    # Amdahl 1967 with a serial share of 2 %: S(32) = 19.75
    assert answer["predictions"][0]["speedup"] == pytest.approx(19.75, rel=0.02)
    assert answer["predictions"][0]["efficiency"] == pytest.approx(19.75 / 32, rel=0.02)
    assert answer["recommended_workers"] == pytest.approx(49, abs=3) and picture.stat().st_size > 10_000
    assert run(["extrapolate", str(path), "--to", "64"]) == 0
    assert "best speed-up x efficiency at threads = " in capsys.readouterr().out


def test_the_page_shows_points_laws_band_and_formula_without_a_script(tmp_path: Path) -> None:
    path, page, picture = tmp_path / "runs.csv", tmp_path / "page.html", tmp_path / "runs.svg"
    runs = [(p, (5 + 98 / p + 0.05 * p) * factor) for p in (1, 2, 4, 8, 16, 24) for factor in (0.97, 1.0, 1.02)]
    path.write_text("threads,time_s\n" + "".join(f"{p},{time}\n" for p, time in runs))
    assert run(["extrapolate", str(path), "--to", "48,128", "--report", str(page), "--plot", str(picture)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 2 and "<math" in text and "Plotly" not in text
    assert len(text) < 250_000
    for words in ("each run", "measured (median)", "expected", "amdahl (", "80 % band", "speed-up", "at threads = 128"):
        assert words in text
    assert "each run" in picture.read_text(encoding="utf-8")


def test_the_drawn_laws_are_those_that_were_averaged() -> None:
    from slipstick.estimators.scaling import Series, extrapolate

    for kind, times in (("strong", [10.0, 5.5, 3.25, 2.3, 1.9]), ("weak", [1.0, 1.1, 1.3, 1.7, 2.4])):
        prediction = extrapolate(Series.of([1, 2, 4, 8, 16], times, "threads"), [32, 64], kind)
        assert sum(curve.share for curve in prediction.curves) == pytest.approx(1, abs=0.01)
        assert {curve.name for curve in prediction.curves} <= set(prediction.shares)
        ends = [min(curve.times[0] for curve in prediction.curves), max(curve.times[0] for curve in prediction.curves)]
        assert 0.9 * ends[0] < prediction.value[0] < 1.1 * ends[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--to", "many"], "--to 'many': want numbers"),
        (["--to", "0"], "finite numbers > 0"),
        (["--to", "480", "--kind", "week"], "unknown kind of scaling 'week'"),
        (["--to", "480", "--region", "solve"], "unknown region 'solve'"),
        (["--to", "480", "--on", "no-such"], "no-such"),
        (["--to", "480", "--level", "2"], "--level"),
        (["--to", "ranks=480"], "unknown parameter 'ranks' (known: threads)"),
        (["--to", "480", "--plot", "a.exe"], "a.exe: want a picture that ends in"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(
    phi_file: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["extrapolate", phi_file, *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.splitlines()) == 1


def test_repeats_that_cannot_be_the_same_thing_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.csv"
    path.write_text("threads,time_s\n1,10\n2,5\n4,2.5\n4,25\n8,1.3\n8,1.4\n16,0.7\n")
    assert run(["extrapolate", str(path), "--to", "64"]) == 0
    said = capsys.readouterr()
    assert "warning: threads = 4: repeats from 2.5 s to 25 s, a factor of 10" in said.err
    assert "threads = 8" not in said.err


@pytest.mark.filterwarnings("error")
def test_huge_times_are_extrapolated_without_a_warning_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("threads,time_s\n1,1e12\n2,5e11\n4,2.5e11\n8,1.3e11\n16,0.7e11\n")
    assert run(["extrapolate", str(path), "--to", "64"]) == 0


@pytest.mark.parametrize("parameters", ["threads", "threads,size"])
@pytest.mark.parametrize(("low", "high"), [("1e-11", "1e+11"), ("1e-12", "1e+12")])
def test_times_that_no_series_has_are_refused_in_one_line(
    parameters: str, low: str, high: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, two = tmp_path / "e.csv", "," in parameters
    rows = [f"{p}{f',{size}' * two},{t}" for size in (1, 2) for p, t in ((1, 100), (2, high), (4, 28), (8, low))]
    path.write_text(f"{parameters},time_s\n" + "\n".join(rows) + "\n")
    assert run(["extrapolate", str(path), "--to", "threads=64,size=4" if two else "64"]) == 2
    said = capsys.readouterr()
    assert f"times from {low} s to {high} s: want them within a factor of 1e+12" in said.err
    assert len(said.err.splitlines()) == 1 and not said.out


def test_the_number_first_where_two_parameters_vary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [(p, n) for p in (1, 2, 4, 8) for n in (1000, 2000, 4000)]
    path = tmp_path / "two.csv"
    path.write_text("threads,n,time_s\n" + "".join(f"{p},{n},{2e-8 * n**2 / p}\n" for p, n in points))
    assert run(["extrapolate", str(path), "--to", "threads=16,n=8000"]) == 0
    assert capsys.readouterr().out.startswith("at threads = 16, n = 8000: 80 ms (80 %: ")


def test_a_table_without_bands_has_no_column_of_their_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.csv"
    path.write_text("threads,time_s\n1,10\n2,6\n")
    assert run(["extrapolate", str(path), "--to", "4"]) == 0
    out = capsys.readouterr().out
    assert "no band, do not trust" in out and "interval_level" not in out
