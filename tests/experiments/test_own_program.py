"""Repeats that differ by what other programs took: the least of them, the words of the answer, the page's commands."""

import json
import shlex
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.scaling import Series, extrapolate
from slipstick.estimators.scaling.laws.repeats import noise_at, statistic_of, widened
from slipstick.estimators.scaling.surfaces import extrapolate_surface
from slipstick.experiments.cli import cli
from slipstick.experiments.extrapolate.series_files import read
from slipstick.experiments.measure.threads import scaling_runs

ROOT = Path(__file__).parents[2]
SIZES = np.array([100.0, 140.0, 200.0, 280.0, 400.0, 560.0, 800.0])
POINTS = [(p, n) for p in (1.0, 2.0) for n in SIZES]


def law(threads: float, n: float) -> float:
    """Seconds: a part that threads share and one that they do not."""
    return 1e-6 * n**2 / threads + 1e-5 * n


def added(seed: int, count: int) -> np.ndarray:
    """Factors >= 1 of a host with other programs: most runs a few per cent longer, three in ten by half."""
    random = np.random.default_rng(seed)
    return 1 + random.exponential(0.05, count) + 0.5 * (random.random(count) < 0.3)


def test_the_least_is_nearer_where_noise_only_adds() -> None:
    """Five repeats; over ten draws the least's answer is nearer, in a series and in a surface."""
    errors: dict[str, list[float]] = {"least": [], "median": [], "least surface": [], "median surface": []}
    known: dict[str, list[float]] = {"least": [], "median": []}
    grid = np.repeat(np.array(POINTS), 5, axis=0)
    for seed in range(10):
        times = np.array([law(*point) for point in grid]) * added(seed, len(grid))
        alone = grid[:, 0] == 1
        for statistic in ("least", "median"):
            which = statistic_of(statistic)
            series = Series.of(grid[alone, 1], times[alone], "n", statistic=which)
            known[statistic].extend(np.log(np.array(series.y) / [law(1, n) for n in SIZES]))
            errors[statistic].append(np.log(extrapolate(series, [1600.0]).value[0] / law(1, 1600.0)))
            if seed < 4:
                found = extrapolate_surface(grid, times, ["threads", "n"], [(2.0, 1600.0)], statistic=which)
                errors[f"{statistic} surface"].append(np.log(found.answers[0].time / law(2, 1600.0)))
    off = {name: float(np.mean(np.abs(values))) for name, values in errors.items()}
    assert off["least"] < 0.5 * off["median"]
    assert off["least surface"] < 0.5 * off["median surface"]
    fits = {name: float(np.mean(values)) for name, values in known.items()}
    assert 0 <= fits["least"] < 0.25 * fits["median"]  # noise that only adds: the known times themselves are too long


@given(st.lists(st.floats(1.0, 3.0), min_size=2, max_size=9), st.randoms(use_true_random=False))
def test_the_least_never_exceeds_the_median_and_ignores_order(factors: list[float], random: Random) -> None:
    x, y = np.repeat(SIZES, len(factors)), np.concatenate([law(1, n) * np.array(factors) for n in SIZES])
    order = list(range(len(x)))
    random.shuffle(order)
    least, median = (Series.of(x[order], y[order], "n", statistic=which) for which in ("least", "median"))
    assert np.all(np.array(least.y) <= np.array(median.y))
    assert least.y == pytest.approx([law(1, n) * min(factors) for n in SIZES])
    assert least.noise == median.noise


def test_the_spread_of_repeats_is_in_the_band_of_the_least_alone() -> None:
    calm, rough = (np.concatenate([law(1, n) * np.array([1.0, 1.0, top]) for n in SIZES]) for top in (1.0, 1.5))
    x = np.repeat(SIZES, 3)
    widths = {}
    for name, times in (("calm", calm), ("rough", rough)):
        answer = extrapolate(Series.of(x, times, "n", statistic="least"), [1600.0])
        assert answer.low is not None and answer.high is not None
        widths[name] = answer.high[0] / answer.low[0]
        assert answer.value[0] == pytest.approx(law(1, 1600.0), rel=0.05)
    assert widths["rough"] > 1.5 > widths["calm"]
    assert noise_at(0.8, "median", 0.3) == 0.0
    assert noise_at(0.8, "least", 0.3) == pytest.approx(1.2816 * 0.3, rel=1e-4)  # the normal distribution's quantile
    low, high = widened(np.array([2.0]), np.array([-1.0]), np.array([5.0]), 0.0)
    assert (low[0], high[0]) == (-1.0, 5.0)
    low, high = widened(np.array([2.0]), np.array([-1.0]), np.array([5.0]), 0.5)
    assert low[0] == pytest.approx(2 - 10**0.5) and high[0] > 5.0


def test_which_files_have_the_least(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
    ours.write_text(
        "threads,rep,time_s,cpu_time_s\n" + "".join(f"{p},{r},{4 / p + r},4\n" for p in (1, 2) for r in (0, 1))
    )
    theirs.write_text("threads,rep,time_s\n" + "".join(f"{p},{r},{4 / p + r}\n" for p in (1, 2) for r in (0, 1)))
    assert read(ours).statistic == read(ours, "cpu_time_s").statistic == "least"
    assert read(theirs).statistic == "median"
    assert read(ours).series()[0].y == (4.0, 2.0)
    assert read(theirs).series()[0].y == (4.5, 2.5)
    assert read(ours).statistic == "least" and read(theirs).statistic == "median"


def test_names_of_the_statistics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="mean.*median, least"):
        statistic_of("mean")
    path = tmp_path / "runs.csv"
    path.write_text("threads,time_s\n" + "".join(f"{p},{100 / p + r}\n" for p in (1, 2, 4, 8) for r in (0, 1, 7)))
    assert cli.run(["extrapolate", str(path), "--to", "16", "--statistic", "mean"]) == 2
    assert "--statistic" in capsys.readouterr().err
    for options, word in (([], "median"), (["--statistic", "least"], "least")):
        for family in ([], ["--family", "power"]):
            assert cli.run(["extrapolate", str(path), "--to", "16", *options, *family, "--format", "json"]) == 0
            (found,) = json.loads(capsys.readouterr().out)
            notes = [text for text in found["assumptions"] if "repeats" in text]
            assert notes[0].startswith(f"12 measurements: the {word} of the repeats of each threads is used")
            assert ("is in the band" in notes[0]) == (word == "least")
            assert found["measured"][0]["measured_s"] == (100 if word == "least" else 101)


def test_the_commands_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Measured, written and extrapolated as the page has it; the clock is a law and noise that only adds."""
    lines = (ROOT / "docs" / "howto.md").read_text().splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("slipstick") and "own-times.csv" in line]
    assert [words[0] for words in commands] == ["measure", "extrapolate"]
    noise = iter(added(3, 1000))

    def timed(program: str, point: dict[str, float], timeout: float) -> tuple[float, float, float]:
        busiest = law(point["threads"], point["n"] / 1000) * float(next(noise))
        return 3 * busiest, 2 * busiest, busiest

    monkeypatch.setattr(scaling_runs, "_run", timed)
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "own_program.py", tmp_path)
    assert cli.run(commands[0]) == 0
    assert "least of the repeats" in " ".join(capsys.readouterr().out.split())
    assert cli.run([*commands[1], "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for row in found:
        truth = law(row["threads"], row["n"] / 1000)
        assert row["low_s"] <= truth <= row["high_s"]
        assert row["time_s"] == pytest.approx(truth, rel=0.15)
        assert any("the least of the repeats of each point is used" in text for text in row["assumptions"])
    assert cli.run([*commands[1], "--statistic", "median"]) == 0
    assert "the median of the repeats of each point is used" in " ".join(capsys.readouterr().out.split())
