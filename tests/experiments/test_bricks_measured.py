"""Bricks of torch models run on their own, results outlive a kill, overhead is found again."""

import json
import re
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slipstick.estimators.operation.measured import measured_key
from slipstick.experiments.commands.cli import run
from slipstick.experiments.measure.bricks.brick_store import (
    COLD,
    WARM,
    BrickStore,
    Composition,
    Measured,
    Result,
    Where,
)
from slipstick.experiments.measure.clocks.timing import Protocol, Timing
from slipstick.experiments.subjects.bricks.composition import (
    advice,
    calibrated,
    composed,
    latencies,
    leave_one_model_out,
    schedule_named,
    summary,
)
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.files.records import Table
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import dense
from slipstick.workloads.transforms.bricks import find_bricks


def timing(value: float) -> Timing:
    return Timing(value, value, value, 0.0, (value,) * 3, 1, 1.0, None, 0.0, 0.0, Protocol())


def result(identity: str, value: float, protocol: str = str(Protocol())) -> Result:
    return Result(identity, protocol, timing(value), "conv")


@pytest.fixture
def small_model():
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 3, padding=1)
            self.norm, self.end = torch.nn.BatchNorm2d(8), torch.nn.Linear(8, 4)

        def forward(self, x):
            x = torch.relu(self.a(x))
            y = self.norm(self.b(x))
            joined = torch.cat([x, y + x], 1)[:, :8]
            return self.end(torch.flatten(joined.mean((2, 3)), 1))

    from slipstick.experiments.measure.bricks.brick_modules import layer_model

    return layer_model("net", Net(), (torch.rand(1, 3, 16, 16),))


def test_every_brick_runs_and_gives_what_its_layers_give(small_model) -> None:
    from slipstick.experiments.measure.bricks.brick_modules import brick_module, task

    for granularity in (1, 2, 3, len(small_model.workload)):
        for brick in find_bricks(small_model.workload, granularity):
            module, inputs = brick_module(small_model, brick)
            outputs = task(module, inputs)()
            last = small_model.nodes[brick.layers[-1]][-1]
            assert outputs[-1].shape == last.meta["val"].shape


def test_a_brick_holds_nothing_of_the_model_but_its_own_layers(small_model) -> None:
    from slipstick.experiments.measure.bricks.brick_modules import brick_module

    brick = find_bricks(small_model.workload, 1)[0]
    module, _ = brick_module(small_model, brick)
    assert len([node for node in module.graph.nodes if node.op == "call_function"]) == 1
    names = [name for name, _ in module.named_buffers()]
    assert all(name.startswith("constant") for name in names)


def test_identity_is_shape_and_parameters_not_weights() -> None:
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks.brick_modules import layer_model

    def identities(stride: int, seed: int):
        torch.manual_seed(seed)
        model = layer_model("m", torch.nn.Conv2d(3, 4, 3, stride=stride), (torch.rand(1, 3, 9, 9),))
        return [op.identity for op in model.workload]

    assert identities(1, 0) == identities(1, 1)
    assert identities(1, 0) != identities(2, 0)


def test_bricks_export_to_disk_and_load_again(small_model, tmp_path: Path) -> None:
    import torch

    from slipstick.experiments.measure.bricks.brick_modules import brick_module, save_brick

    module, inputs = brick_module(small_model, find_bricks(small_model.workload, 3)[0])
    save_brick(module, inputs, tmp_path / "brick.pt2")
    again = torch.export.load(str(tmp_path / "brick.pt2")).module()
    assert torch.equal(again(*inputs)[-1], module(*inputs)[-1])


def test_a_sheet_tells_no_order_and_runs_elsewhere_under_the_same_identities(small_model, tmp_path: Path) -> None:
    import torch

    from slipstick.experiments.measure.bricks.brick_modules import brick_module
    from slipstick.experiments.measure.bricks.brick_sheet import load_sheet, save_sheet

    bricks = {brick.identity: brick_module(small_model, brick) for brick in find_bricks(small_model.workload, 2)}
    path = tmp_path / "sheet.json"
    assert save_sheet(((identity, module) for identity, (module, _) in bricks.items()), path, seed=3) == len(bricks)
    loaded = load_sheet(path)
    assert set(loaded) == set(bricks) and list(loaded) != list(bricks)
    for identity, (module, inputs) in bricks.items():
        again, own = loaded[identity]
        assert [(t.shape, t.stride(), t.dtype) for t in own] == [(t.shape, t.stride(), t.dtype) for t in inputs]
        for one, other in zip(module.named_buffers(), again.named_buffers(), strict=True):
            other[1].copy_(one[1])
        assert all(torch.equal(a, b) for a, b in zip(module(*inputs), again(*inputs), strict=True))
    assert "net" not in path.read_text() and "layer" not in path.read_text()


TWO = {"input": [[1], [1], "float32"]}


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([{"call": "aten.from_file.default", "args": ["/etc/passwd"]}], "none that a sheet may name"),
        ([{"call": "os.system", "args": ["true"]}], "none that a sheet may name"),
        ([{"input": [[1 << 20, 1 << 20], [1 << 20, 1], "float32"]}], "more than 8 GiB"),
        ([{"input": [[2], [1], "load"]}], "no shape, strides and dtype"),
        ([{"call": "aten.relu.default", "args": [{"dtype": "load"}]}], "names no dtype"),
        ([{"call": "aten.relu.default", "args": [{"node": 7}]}], "cannot be built"),
        ([{"call": "aten.relu.default", "args": [{"node": -1}]}], "cannot be built"),
        ([{"call": "aten.save.default", "args": [], "kwargs": {"filename": "x"}}], "none that a sheet may name"),
        ([{"call": "aten.set_.source_Tensor", "args": []}], "none that a sheet may name"),
        ([{"call": "aten._print.default", "args": ["x"]}], "none that a sheet may name"),
        ([{"call": "aten.zeros.default", "args": [[10**12]]}], "more than 8 GiB"),
        ([TWO, {"call": "aten.expand.default", "args": [{"node": 0}, [10**12]]}], "more than 8 GiB"),
        ([{"input": [[1 << 34], [0], "int64"]}], "more than 8 GiB"),
        ([{"input": [[2], [1], "quint8"]}], "no shape, strides and dtype"),
        (
            [{"input": [[1 << 32], [0], "int8"]}, {"call": "aten.unbind.int", "args": [{"node": 0}]}],
            "more than 10000",
        ),
        ([TWO, {"call": "aten.relu.default", "args": [{"node": 0}, 1]}], "takes 1 arguments by place"),
        ([TWO, {"call": "getitem", "args": [{"node": 0}, 0], "kwargs": {"a": 1}}], "takes a node and a whole number"),
        ([TWO, {"call": "aten.split.Tensor", "args": [{"node": 0}, "x"]}], "cannot be built"),
    ],
)
def test_a_sheet_of_a_stranger_is_data(nodes, words: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks.brick_sheet import SCHEMA, load_sheet

    path = tmp_path / "sheet.json"
    path.write_text(json.dumps({"schema": SCHEMA, "bricks": [{"identity": "a", "nodes": nodes}]}))
    with pytest.raises(InputError, match=words):
        load_sheet(path)


def test_operations_of_sheets_take_and_give_tensors_alone() -> None:
    pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks.brick_operations import OPERATIONS, operation

    for name in OPERATIONS:
        schema = operation(name, "here")._schema
        assert {str(given.type).removeprefix("List[").rstrip("]") for given in schema.returns} <= {"Tensor"}, name
        assert not any(argument.is_out or "Storage" in str(argument.type) for argument in schema.arguments), name


@pytest.mark.parametrize("call", ["aten.relu.default", "aten.zeros.default", "getitem"])
def test_names_of_a_sheet_are_no_code(call: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks.brick_sheet import SCHEMA, load_sheet

    canary = tmp_path / "fired"
    key = f"**({{}} if __import__('pathlib').Path({str(canary)!r}).touch() is None else {{}})) #"
    nodes = [
        {"input": [[2], [1], "float32"]},
        {"call": call, "args": [{"node": 0}], "kwargs": {key: 1}},
        {"output": [1]},
    ]
    path = tmp_path / "sheet.json"
    path.write_text(json.dumps({"schema": SCHEMA, "bricks": [{"identity": "a", "nodes": nodes}]}))
    with pytest.raises(InputError):
        for module, inputs in load_sheet(path).values():
            module(*inputs)
    assert not canary.exists()


def test_the_store_keeps_results_by_key_and_asks_only_for_what_is_new(tmp_path: Path, phi) -> None:
    store = BrickStore(tmp_path / "bricks.sqlite")
    store.add_machine(phi)
    store.add(Where(phi.fingerprint, "torch"), [result("a", 1e-3)])
    assert store.missing(["a", "b", "b"], phi.fingerprint, "torch", str(Protocol())) == ["b"]
    assert store.missing(["a"], phi.fingerprint, "torch 3", str(Protocol())) == ["a"]
    assert dict(store.seconds(phi.fingerprint, "torch", str(Protocol()))) == {"a": 1e-3}
    [(on, software, _, count)] = store.contents()
    assert (on, software, count) == (phi, "torch", 1)
    broken = tmp_path / "broken.sqlite"
    broken.write_text("not a database, but long enough to be looked at " * 40)
    with pytest.raises(InputError, match="no store of bricks"):
        BrickStore(broken)


BROKEN_ROWS = {
    "a description that is no JSON": ("UPDATE machines SET description = '{'", "machine .*: line 1: not JSON"),
    "a description of another thing": ("UPDATE machines SET description = '[]'", "machine .*"),
    "seconds in words": ("UPDATE bricks SET seconds = 'abc'", "brick 'a': seconds = 'abc': want a finite time > 0 s"),
    "no seconds": ("UPDATE bricks SET seconds = NULL", "brick 'a': seconds = 'None'"),
    "endless seconds": ("UPDATE bricks SET seconds = 9e999", "brick 'a': seconds = 'inf'"),
    "a reference in words": ("UPDATE bricks SET reference = 'abc'", "brick 'a': reference = 'abc'"),
    "a list of bricks": ("UPDATE models SET bricks = '[1]'", "model 'net': bricks: want named fields"),
    "bricks that are no JSON": ("UPDATE models SET bricks = '{'", "model 'net': line 1: not JSON"),
    "a count in words": ("""UPDATE models SET bricks = '{"i": "x"}'""", "model 'net': bricks.i = 'x': want a whole"),
}


@pytest.mark.parametrize("case", sorted(BROKEN_ROWS))
def test_rows_that_somebody_else_wrote(case: str, tmp_path: Path, phi, capsys: pytest.CaptureFixture[str]) -> None:
    change, words = BROKEN_ROWS[case]
    path = tmp_path / "bricks.sqlite"
    store = BrickStore(path)
    store.add_machine(phi)
    store.add(Where(phi.fingerprint, "torch"), [result("a", 1e-3)])
    store.add_model(1, Composition("net", "whole", Table({"a": 3})))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(change)
    assert run(["bricks", "compose", "mlp", "--store", str(path)]) == 2
    assert re.search(f"^slipstick: {re.escape(str(path))}: {words}", capsys.readouterr().err)


@pytest.mark.parametrize("verb", [["compose", "mlp"], ["advise", "mlp"], ["score"]])
def test_reading_makes_no_store(verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nope" / "there.sqlite"
    assert run(["bricks", *verb, "--store", str(path)]) == 2
    assert f"{path}: no such store of bricks" in capsys.readouterr().err
    assert not path.parent.exists()


def test_sessions_are_brought_to_one_speed_by_their_reference(tmp_path: Path, phi) -> None:
    """The machine ran at 1, 1/2 and 1/4 of its speed: the same brick, measured three times, is the same brick."""
    store = BrickStore(tmp_path / "bricks.sqlite")
    for name, slow in (("a", 1.0), ("b", 2.0), ("c", 4.0)):
        store.add(Where(phi.fingerprint, "torch"), [result(name, 3e-3 * slow, "p")], reference=5e-3 * slow)
    assert dict(store.seconds(phi.fingerprint, "torch", "p")) == pytest.approx(dict.fromkeys("abc", 6e-3))


def test_cold_and_warm_results_of_a_machine_are_read_together(tmp_path: Path, phi) -> None:
    store = BrickStore(tmp_path / "bricks.sqlite")
    store.add_machine(phi)
    cold, warm = result("a", 2e-3, f"turns{COLD}"), result("a", 1e-3, f"turns{WARM}")
    store.add(Where(phi.fingerprint, "torch"), [cold, warm, result("b", 5e-3, "alone")])
    by_protocol = {own.protocol: own for own in store.measured()}
    assert dict(by_protocol["turns"].cold) == {"a": 2e-3} and dict(by_protocol["turns"].warm) == {"a": 1e-3}
    assert dict(by_protocol["alone"].cold) == {} and dict(by_protocol["alone"].warm) == {"b": 5e-3}
    store.add_model(1, Composition("net", "whole", Table({"a": 3})))
    assert store.models(1) == [Composition("net", "whole", Table({"a": 3}))] and store.models(2) == []


def test_a_killed_measurement_resumes_and_ends_with_the_same_results(
    small_model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty times killed at a drawn moment; what was written stays, and the end is that of a run left alone."""
    import multiprocessing
    import random

    from slipstick.experiments.measure.bricks import brick_runs as measuring
    from slipstick.experiments.measure.bricks.turns import Session

    names = [f"net{i}" for i in range(15)]

    def build(name: str, shapes=(), batch=1):
        """The same model under many names, each with a layer of its own."""
        own = [
            replace(op, attributes=Table({"does": f"{op.attributes['does']} {name}"})) for op in small_model.workload
        ]
        workload = Workload(name, tuple(own), small_model.workload.edges)
        return replace(small_model, name=name, workload=workload)

    def session(bricks, whole, empty, reference, protocol, seed=0):
        time.sleep(0.004)
        timings = {name: timing(1e-3) for name in bricks}
        return Session(timings, timings, timing(2e-3), timing(5e-3), (1.0,))

    monkeypatch.setattr(measuring, "build", build)
    monkeypatch.setattr(measuring, "run_session", session)
    monkeypatch.setattr(measuring, "host", lambda: machine("xeon-phi-7120p"))

    def contents(path: Path) -> dict[str, set[str]]:
        return {own.protocol: set(own.cold) | set(own.warm) for own in BrickStore(path).measured()}

    killed, alone = BrickStore(tmp_path / "killed.sqlite"), BrickStore(tmp_path / "alone.sqlite")
    draw, before, ended = random.Random(11), 0, 0
    for _ in range(20):
        process = multiprocessing.get_context("fork").Process(
            target=measuring.measure_models, args=(names, (1, 3), killed)
        )
        process.start()
        time.sleep(draw.uniform(0.0, 0.1))
        process.kill()
        process.join()
        ended += process.exitcode == 0
        count = sum(len(identities) for identities in contents(killed.path).values())
        assert count >= before
        before = count
    assert ended < 20
    measuring.measure_models(names, (1, 3), killed)
    measuring.measure_models(names, (1, 3), alone)
    assert contents(killed.path) == contents(alone.path) != {}
    assert killed.models(3) == alone.models(3)


def test_the_overhead_of_the_framework_is_found_and_left_out_models_are_composed(tmp_path: Path) -> None:
    phi = machine("xeon-phi-7120p")
    store = BrickStore(tmp_path / "bricks.sqlite")
    store.add_machine(phi)
    nets, alone = {}, {}
    for count in (3, 5, 9, 17, 33):
        layers = tuple(dense(f"l{i}", 4, 8 * (1 + i % 3), 8) for i in range(count))
        net = nets[f"net{count}"] = Workload(
            f"net{count}", layers, tuple((f"l{i}", f"l{i + 1}") for i in range(count - 1))
        )
        alone |= {measured_key(op): 1e-4 * (1 + i % 3) for i, op in enumerate(net)}
        whole = measured_key(composed(net, count).operations[0])
        alone[whole] = sum(1.05 * alone[measured_key(op)] + 14e-6 for op in net)
        store.add_model(1, Composition(net.name, whole, Table(dict(Counter(measured_key(op) for op in net)))))
    for state, factor in ((COLD, 2.0), (WARM, 1.0)):
        rows = [result(key, value * factor, f"turns{state}") for key, value in alone.items()]
        store.add(Where(phi.fingerprint, "torch"), rows)
    [measured] = store.measured()
    scores = leave_one_model_out(measured, store.models(1))
    assert len(scores) == 5
    for score in scores:
        assert score.calibrated == pytest.approx(score.measured, rel=1e-3)
        assert score.plain < score.measured
    assert summary(scores)["geomean"] == pytest.approx(1.0, abs=1e-3)
    rows = latencies({"net9": nets["net9"]}, 1, [store])
    assert rows[0]["fitted_to"] == 4 and rows[0]["time_s"] == pytest.approx(rows[0]["measured_s"], rel=1e-3)
    path = latencies({"net9": nets["net9"]}, 1, [store], schedule_named("critical-path"))
    assert path[0]["time_s"] == pytest.approx(rows[0]["time_s"])  # a chain: nothing is side by side
    with pytest.raises(InputError, match="0 models have all their bricks measured"):
        leave_one_model_out(measured, [])
    with pytest.raises(InputError, match="unknown schedule 'lucky'"):
        schedule_named("lucky")
    with pytest.raises(InputError, match="takes no rules"):
        schedule_named("sequential", ["a+b"])


def test_a_share_of_the_way_from_cold_to_warm_is_found_again(phi) -> None:
    """Each time inside the model is 0.3 cold + 0.7 warm, and a table of that answers with its sum."""
    cold = Table({f"b{i}": 1e-3 * (1 + i % 4) for i in range(12)})
    warm = Table(dict.fromkeys(cold, 0.001))
    known, wholes = [], {}
    for size in (3, 5, 7, 9, 11):
        counts = {f"b{i}": 1 for i in range(size)}
        known.append(Composition(f"net{size}", f"whole{size}", Table(counts)))
        wholes[f"whole{size}"] = sum(0.3 * cold[key] + 0.7 * warm[key] for key in counts)
    measured = Measured(phi, "torch", "turns", Table({**cold, **wholes}), Table({**warm, **wholes}))
    fit = calibrated(measured, known, free=["operation.warmth"])
    assert fit.values["operation.warmth"] == pytest.approx(0.7, rel=1e-6)


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
    assert [(row["machine"], row["time_s"]) for row in rows] == [("big", 2e-3), ("small", 4e-3)]
    assert run(["bricks", "compose", *arguments, "--schedule", "rules", "--rule", "*+*"]) == 0
    capsys.readouterr()
    assert run(["bricks", "advise", *arguments, "--within", "3 ms"]) == 0
    tight = {row["for"]: row for row in json.loads(capsys.readouterr().out)}
    asked = next(row for name, row in tight.items() if name.startswith("model"))
    assert (asked["known"], asked["within"], asked["fastest"], asked["cheapest"]) == (2, 1, "big", "big")
    assert run(["bricks", "compose", *arguments, "--rule", "*+*"]) == 2
    assert "takes no rules" in capsys.readouterr().err


def test_stores_of_several_machines_are_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = [machine("xeon-gold-6230"), machine("haswell-e5-2630-core")]
    for number, host in enumerate(hosts):
        store = BrickStore(tmp_path / f"{number}.sqlite")
        store.add_machine(host)
        store.add(Where(host.fingerprint, "torch"), [result("a", 1.0 + number), result("b", 2.0)])
        store.add_model(1, Composition(f"net{number}", "whole", Table({"a": 2, "b": 1})))
    one = str(tmp_path / "all.sqlite")
    stores = [str(tmp_path / "0.sqlite"), str(tmp_path / "1.sqlite")]
    assert run(["bricks", "merge", one, *stores, "--format", "json"]) == 0
    assert sorted(row["bricks"] for row in json.loads(capsys.readouterr().out)) == [2, 2]
    merged = BrickStore.existing(Path(one))
    assert merged.seconds(hosts[1].fingerprint, "torch", str(Protocol()))["a"] == 2.0
    assert [model.name for model in merged.models(1)] == ["net0", "net1"]
    assert merged.take_in(BrickStore(tmp_path / "1.sqlite")) == 0
    with closing(sqlite3.connect(tmp_path / "1.sqlite")) as database, database:
        database.execute("UPDATE bricks SET seconds = -1 WHERE identity = 'a'")
    assert run(["bricks", "merge", one, stores[1]]) == 2
    assert "want a finite time > 0 s" in capsys.readouterr().err
    assert run(["bricks", "merge", one, str(tmp_path / "none.sqlite")]) == 2


def test_bricks_of_a_gpu_are_waited_for_on_the_wall_clock_and_kept_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code path of a GPU, with the processor in its place."""
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks import brick_runs
    from slipstick.experiments.measure.clocks.torch_device import TorchDevice

    waited: list[int] = []
    gpu = TorchDevice("cpu:0", "a GPU of the test", lambda: waited.append(1))
    short = Protocol(repeats=3, warmups=1, sample_seconds=0.0, budget_seconds=2.0)
    monkeypatch.setitem(brick_runs.PROTOCOLS, "turns", short)
    monkeypatch.setattr(brick_runs, "build", lambda name, shapes, batch: _net(torch))
    store, on = BrickStore(tmp_path / "gpu.sqlite"), machine("tesla-v100-sxm2-16gb")
    assert brick_runs.measure_models(["m:net"], (1,), store, machine=on, device=gpu) == []
    ((where, software, protocol, count), *_) = store.contents()
    assert where.name == on.name and "a GPU of the test" in software and "wall" in protocol and count > 1
    assert len(waited) > 10
    assert brick_runs.protocol_keys("turns", gpu)["cold"] in {row[2] for row in store.contents()}


def test_a_batch_is_the_first_size_of_every_input_and_a_model_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks import brick_runs
    from slipstick.workloads.importers.torch import torch_by_name
    from slipstick.workloads.importers.torch.torch_recorder import Input

    for shape in ((1, 8), ("batch", 8)):
        own = (torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), [Input(shape)])
        monkeypatch.setattr(torch_by_name, "model_and_inputs", lambda name, shapes, own=own: own)
        one, eight = brick_runs.build("m:net"), brick_runs.build("m:net", batch=8)
        assert (one.name, eight.name) == ("m:net", "m:net, batch 8")
        assert "[1, 8]" in str(one.workload.operations[0].attributes["does"])
        assert "[8, 8]" in str(eight.workload.operations[0].attributes["does"])
        assert one.workload.operations[0].identity != eight.workload.operations[0].identity
    monkeypatch.setattr(torch_by_name, "model_and_inputs", lambda name, shapes: (own[0], [Input((3, 8))]))
    with pytest.raises(InputError, match="wants inputs whose first size is 1 or a name"):
        brick_runs.build("m:net", batch=8)


def test_compiled_bricks_are_kept_apart_and_a_compiler_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler itself takes a minute and is replaced here."""
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks.brick_runs import software
    from slipstick.experiments.measure.clocks.torch_device import torch_device

    compiled = torch_device("cpu", "compiled")
    assert software(compiled) == f"{software(torch_device('cpu'))}, compiled"
    layer, value = torch.nn.ReLU(), torch.rand(2)
    taken: list[object] = []
    monkeypatch.setattr(torch, "compile", lambda module, dynamic: taken.append(module) or module)
    assert compiled.moved(layer, (value,))[0] is layer and taken == [layer]

    def fails(*inputs: object) -> object:
        raise RuntimeError("No working C++ compiler found")

    monkeypatch.setattr(torch, "compile", lambda module, dynamic: fails)
    with pytest.raises(InputError, match=r"wants a C\+\+ compiler .* --mode eager needs neither .*No working"):
        compiled.moved(layer, (value,))
    with pytest.raises(InputError, match="unknown mode 'graphs'"):
        torch_device("cpu", "graphs")


def test_blocks_against_the_sum_of_single_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: three layers of 2 ms, a block of two 3 ms, the whole 4.5 ms: 6 / 5 and 5 / 4.5."""
    store, on = BrickStore(tmp_path / "s.sqlite"), machine("xeon-gold-6230")
    store.add_machine(on)
    times = {"a": 2e-3, "aa": 3e-3, "whole": 4.5e-3}
    store.add(Where(on.fingerprint, "torch"), [result(name, value) for name, value in times.items()])
    store.add_model(1, Composition("net", "whole", Table({"a": 3})))
    store.add_model(2, Composition("net", "whole", Table({"aa": 1, "a": 1})))
    store.add_model(2, Composition("half known", "whole", Table({"aa": 1, "b": 1})))
    assert run(["bricks", "fusion", "--store", str(store.path), "--format", "json"]) == 0
    single, blocks = json.loads(capsys.readouterr().out)
    assert (single["granularity"], single["models"], blocks["granularity"], blocks["models"]) == (1, 1, 2, 1)
    assert single["blocks_over_whole"] == pytest.approx(6 / 4.5) and single["single_over_blocks"] == 1
    assert blocks["blocks_over_whole"] == pytest.approx(5 / 4.5)
    assert blocks["single_over_blocks"] == pytest.approx(1.2)


def _net(torch):
    from slipstick.experiments.measure.bricks.brick_modules import layer_model

    return layer_model("net", torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), (torch.rand(1, 8),))


def test_a_gpu_that_is_not_here_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    assert run(["measure", "bricks", "zoo:resnet18", "--device", "tpu"]) == 2
    assert "unknown device 'tpu'" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert run(["measure", "bricks", "zoo:resnet18", "--device", "cuda"]) == 2
        assert "sees no such device here" in capsys.readouterr().err
