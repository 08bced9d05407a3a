"""Times of bricks become times of models: overhead, warmth, advice, and the commands."""

import json
from collections import Counter
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.bricks.brick_law import extra_seconds, shipped
from slipstick.estimators.roofline.measured_table import measured_key
from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.bricks.brick_store import (
    COLD,
    WARM,
    BrickStore,
    Composition,
    MeasuredBricks,
    Where,
)
from slipstick.experiments.methods.bricks.brick_composition import (
    LAW,
    Composer,
    advice,
    as_workload,
    composed,
    latencies,
    law_rows,
    leave_one_model_out,
    schedule_named,
    summary,
)
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense
from tests.experiments.brick_parts import result


def planted(folder: Path, counts: tuple[int, ...], stored: int) -> tuple[BrickStore, dict[str, Workload]]:
    """Chains of so many layers, of which the first few are stored whole: 40 us and 1.02 x (warm + 0.6 x extra)."""
    phi = machine("xeon-phi-7120p")
    store = BrickStore(folder / "bricks.sqlite")
    store.add_machine(phi)
    nets, alone, wholes = {}, {}, {}
    for place, count in enumerate(counts):
        layers = tuple(dense(f"l{i}", 4, 8 * (1 + i % 3), 8) for i in range(count))
        net = nets[f"net{count}"] = Workload(
            f"net{count}", layers, tuple((f"l{i}", f"l{i + 1}") for i in range(count - 1))
        )
        alone |= {measured_key(op): 1e-4 * (1 + i % 3) for i, op in enumerate(net)}
        if place >= stored:
            continue
        whole = measured_key(composed(net, count).operations[0])
        wholes[whole] = truth(count)
        store.add_model(1, Composition(net.name, whole, FrozenDict(dict(Counter(measured_key(op) for op in net)))))
    for state, more in ((COLD, 3e-5), (WARM, 0.0)):
        rows = [result(key, value + more, f"turns{state}") for key, value in alone.items()]
        rows += [result(key, value, f"turns{state}") for key, value in wholes.items()]
        store.add(Where(phi.fingerprint, "torch"), rows)
    return store, nets


def truth(count: int) -> float:
    """Seconds of a chain of so many layers."""
    return 4e-5 + 1.02 * sum(1e-4 * (1 + i % 3) + 0.6 * 3e-5 for i in range(count))


def test_the_first_network_of_a_machine_has_a_band_and_later_ones_a_better_answer(tmp_path: Path) -> None:
    store, nets = planted(tmp_path, (3, 5, 9, 17, 33), stored=4)
    [measured] = store.measured()
    first = latencies({"net33": nets["net33"]}, 1, [planted(tmp_path / "none", (3, 33), stored=0)[0]])[0]
    assert first["fitted_to"] == 0 and first["low_s"] < truth(33) < first["high_s"]
    assert first["time_s"] == pytest.approx(truth(33), rel=0.05)
    rows = {row["model"]: row for row in latencies(nets, 1, [store])}
    assert rows["net33"]["fitted_to"] == 4 and abs(rows["net33"]["time_s"] - truth(33)) < abs(
        first["time_s"] - truth(33)
    )
    for name in ("net3", "net5", "net9", "net17"):
        assert rows[name]["fitted_to"] == 3 and rows[name]["low_s"] < rows[name]["measured_s"] < rows[name]["high_s"]
    scores = leave_one_model_out(measured, store.models(1))
    assert {one.name for one in scores} == set(rows) - {"net33"}
    assert all(score.plain < score.measured for score in scores)
    assert summary(scores)["geomean"] == pytest.approx(1.0, abs=0.03) and summary(scores)["coverage"] == 1.0
    path = latencies({"net9": nets["net9"]}, 1, [store], schedule_named("critical-path"))
    assert path[0]["time_s"] == pytest.approx(rows["net9"]["time_s"])  # a chain: nothing is side by side
    with pytest.raises(InputError, match="no model has all its bricks"):
        leave_one_model_out(measured, [])
    with pytest.raises(InputError, match="unknown schedule 'lucky'"):
        schedule_named("lucky")
    with pytest.raises(InputError, match="takes no rules"):
        schedule_named("sequential", ["a+b"])


def test_bricks_that_were_timed_warm_alone_get_what_others_took_longer_cold(phi) -> None:
    """The sum of the law's own parts: start + whole x (warm + share x count x extra)."""
    warm = FrozenDict({f"b{i}": 1e-3 * (1 + i % 4) for i in range(12)})
    composer = Composer.of(MeasuredBricks(phi, "torch", "warm", FrozenDict(), warm), [])
    one = Composition("net", "", FrozenDict(dict.fromkeys(warm, 2)))
    row = law_rows(composer.measured, [one])
    assert row.columns["extra"][0] == pytest.approx(24 * extra_seconds())
    seconds, low, high = composer.time(as_workload(one))
    assert seconds == pytest.approx(float(shipped().seconds(LAW, row.columns, row.groups)[0]), rel=1e-9)
    assert low < seconds < high


def test_advice_is_the_fastest_and_the_cheapest_that_holds_the_latency() -> None:
    """Arithmetic by hand: 1 $/h and 10 ms are 2.78 $ a million runs, 0.1 $/h and 50 ms are 1.39 $."""

    def row(model: str, on: str, time_s: float | None, hourly: float) -> dict[str, object]:
        cost = hourly / 3600 * time_s * 1e6 if time_s else None
        high = 1.2 * time_s if time_s else None
        return {"model": model, "machine": on, "time_s": time_s, "high_s": high, "dollars_per_million": cost}

    rows = [row("net", "big", 0.01, 1.0), row("net", "small", 0.05, 0.1), row("other", "big", None, 1.0)]
    free = {entry["for"]: entry for entry in advice(rows)}
    assert (free["model net"]["fastest"], free["model net"]["cheapest"]) == ("big", "small")
    assert free["model net"]["dollars_per_million"] == pytest.approx(1.389, abs=1e-3)
    assert free["machine big"]["fastest"] == "net" and free["model other"]["fastest"] is None
    tight = {entry["for"]: entry for entry in advice(rows, within=0.055)}  # 50 ms may be 60 ms
    assert tight["model net"]["cheapest"] == "big" and tight["machine small"]["fastest"] is None


def test_splitting_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bricks", "split", "resnet50", "-g", "2", "--format", "json"]) == 0
    assert '"unique_share"' in capsys.readouterr().out


def test_advice_and_composition_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two machines, one with twice the time and a tenth of the price: the other is faster, this one is cheaper."""
    net = Workload("net", (dense("a", 4, 8, 8), dense("b", 4, 8, 16)), (("a", "b"),))
    net.save(tmp_path / "net.json")
    stores = []
    for name, slow, price in (("big", 1.0, 1.0), ("small", 2.0, 0.1)):
        on = machine("xeon-phi-7120p").using(clock=1e9 * slow).model_copy(update={"name": name, "price": price})
        store = BrickStore(tmp_path / f"{name}.sqlite")
        store.add_machine(on)
        store.add(Where(on.fingerprint, "torch"), [result(measured_key(op), 1e-3 * slow) for op in net])
        stores += ["--store", str(store.path)]
    arguments = [str(tmp_path / "net.json"), *stores, "--format", "json"]
    assert run(["bricks", "compose", *arguments]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["machine"] for row in rows] == ["big", "small"]
    for row, alone in zip(rows, (2e-3, 4e-3), strict=True):  # the bricks' sum lies in the band, below the answer
        assert row["low_s"] < alone < row["time_s"] < 1.1 * alone
    assert run(["bricks", "compose", *arguments, "--schedule", "rules", "--concurrency-rule", "*+*"]) == 0
    capsys.readouterr()
    assert run(["bricks", "advise", *arguments, "--limit", "3 ms"]) == 0
    tight = {row["for"]: row for row in json.loads(capsys.readouterr().out)}
    asked = next(row for name, row in tight.items() if name.startswith("model"))
    assert (asked["known"], asked["within"], asked["fastest"], asked["cheapest"]) == (2, 1, "big", "big")
    assert run(["bricks", "compose", *arguments, "--concurrency-rule", "*+*"]) == 2
    assert "takes no rules" in capsys.readouterr().err
