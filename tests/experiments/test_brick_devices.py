"""Stores of several machines, and bricks of GPUs, batches and compiled models."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.bricks.brick_store import (
    BrickStore,
    Composition,
    Where,
)
from slipstick.experiments.measure.clocks.timing import Protocol
from slipstick.hwmodels.catalog import machine
from tests.experiments.brick_parts import net, result


def test_stores_of_several_machines_are_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = [machine("xeon-gold-6230"), machine("haswell-e5-2630-core")]
    for number, host in enumerate(hosts):
        store = BrickStore(tmp_path / f"{number}.sqlite")
        store.add_machine(host)
        store.add(Where(host.fingerprint, "torch"), [result("a", 1.0 + number), result("b", 2.0)])
        store.add_model(1, Composition(f"net{number}", "whole", FrozenDict({"a": 2, "b": 1})))
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
    assert gpu.protocol(short).clock == "wall"
    assert TorchDevice().protocol(short) == short and short.clock == "thread"
    monkeypatch.setitem(brick_runs.PROTOCOLS, "turns", short)
    monkeypatch.setattr(brick_runs, "build", lambda name, shapes, batch: net(torch))
    store, on = BrickStore(tmp_path / "gpu.sqlite"), machine("tesla-v100-sxm2-16gb")
    assert brick_runs.measure_models(["m:net"], (1,), store, machine=on, device=gpu) == []
    ((where, software, protocol, count), *_) = store.contents()
    assert where.name == on.name and "a GPU of the test" in software and "wall" in protocol and count > 1
    assert len(waited) > 10
    assert brick_runs.protocol_keys("turns", gpu)["cold"] in {row[2] for row in store.contents()}


def test_a_batch_is_the_first_size_of_every_input_and_a_model_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks import brick_runs
    from slipstick.workloads.importers.torch import named_program as torch_by_name
    from slipstick.workloads.importers.torch.arguments import Input

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
    from slipstick.experiments.measure.clocks import torch_device as devices

    monkeypatch.setattr(devices, "torch", torch)  # not the lazy module, which keeps what it looked up
    torch_device = devices.torch_device
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


def test_a_gpu_that_is_not_here_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    assert run(["measure", "bricks", "zoo:resnet18", "--device", "tpu"]) == 2
    assert "unknown device 'tpu'" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert run(["measure", "bricks", "zoo:resnet18", "--device", "cuda"]) == 2
        assert "sees no such device here" in capsys.readouterr().err
