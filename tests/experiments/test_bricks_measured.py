"""Bricks of torch models run on their own, results outlive a kill, overhead is found again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from estimators.operation.measured import measured_key
from experiments.bricks import composed, composer, leave_one_model_out
from experiments.cli import run
from experiments.measure.brick_store import BrickStore
from experiments.measure.timing import Protocol, Timing
from hwmodels.catalog import machine
from hwmodels.files import InputError
from workloads.bricks import find_bricks
from workloads.layers import dense
from workloads.workload import Workload

ROOT = Path(__file__).parents[2]


def timing(value: float) -> Timing:
    return Timing(value, value, value, 0.0, (value,) * 3, 1, 1.0, None, 0.0, 0.0, Protocol())


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

    from experiments.measure.brick_modules import layer_model

    return layer_model("net", Net(), (torch.rand(1, 3, 16, 16),))


def test_every_brick_runs_and_gives_what_its_layers_give(small_model) -> None:
    from experiments.measure.brick_modules import brick_module, task

    for granularity in (1, 2, 3, len(small_model.workload)):
        for brick in find_bricks(small_model.workload, granularity):
            module, inputs = brick_module(small_model, brick)
            outputs = task(module, inputs)()
            last = small_model.nodes[brick.layers[-1]][-1]
            assert outputs[-1].shape == last.meta["val"].shape


def test_a_brick_holds_nothing_of_the_model_but_its_own_layers(small_model) -> None:
    from experiments.measure.brick_modules import brick_module

    brick = find_bricks(small_model.workload, 1)[0]
    module, _ = brick_module(small_model, brick)
    assert len([node for node in module.graph.nodes if node.op == "call_function"]) == 1
    names = [name for name, _ in module.named_buffers()]
    assert all(name.startswith("constant") for name in names)


def test_identity_is_shape_and_parameters_not_weights() -> None:
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from experiments.measure.brick_modules import layer_model

    def identities(stride: int, seed: int):
        torch.manual_seed(seed)
        model = layer_model("m", torch.nn.Conv2d(3, 4, 3, stride=stride), (torch.rand(1, 3, 9, 9),))
        return [op.identity for op in model.workload]

    assert identities(1, 0) == identities(1, 1)
    assert identities(1, 0) != identities(2, 0)


def test_bricks_export_to_disk_and_load_again(small_model, tmp_path: Path) -> None:
    import torch

    from experiments.measure.brick_modules import brick_module, save_brick

    module, inputs = brick_module(small_model, find_bricks(small_model.workload, 3)[0])
    save_brick(module, inputs, tmp_path / "brick.pt2")
    again = torch.export.load(str(tmp_path / "brick.pt2")).module()
    assert torch.equal(again(*inputs)[-1], module(*inputs)[-1])


def test_the_store_keeps_results_by_key_and_asks_only_for_what_is_new(tmp_path: Path, phi) -> None:
    store = BrickStore(tmp_path / "bricks.sqlite")
    store.add_machine(phi)
    store.add("a", phi.fingerprint, "torch", timing(1e-3), "conv")
    assert store.missing(["a", "b", "b"], phi.fingerprint, "torch", str(Protocol())) == ["b"]
    assert store.missing(["a"], phi.fingerprint, "torch 3", str(Protocol())) == ["a"]
    assert dict(store.seconds(phi.fingerprint, "torch", str(Protocol()))) == {"a": 1e-3}
    [(on, software, _, count)] = store.contents()
    assert (on, software, count) == (phi, "torch", 1)
    broken = tmp_path / "broken.sqlite"
    broken.write_text("not a database, but long enough to be looked at " * 40)
    with pytest.raises(InputError, match="no store of bricks"):
        BrickStore(broken)


KILLED = """
import sys
from experiments.measure.brick_store import BrickStore
from pathlib import Path
sys.path.insert(0, "tests/experiments")
from test_bricks_measured import timing
store = BrickStore(Path(sys.argv[1]))
todo = store.missing([f"brick{i}" for i in range(400)], "host", "torch", str(timing(1.0).protocol))
print("ready", flush=True)
for identity in todo:
    store.add(identity, "host", "torch", timing(1.0), "x" * 100)
"""


def test_a_killed_measurement_resumes_and_ends_with_the_same_results(tmp_path: Path) -> None:
    path = tmp_path / "bricks.sqlite"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    before = 0
    for attempt in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        time.sleep(0.02 * (attempt + 1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        count = len(BrickStore(path).seconds("host", "torch", str(Protocol())))
        assert count >= before
        before = count
    assert (
        subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT, env=environment, check=False).returncode
        == 0
    )
    results = BrickStore(path).seconds("host", "torch", str(Protocol()))
    assert sorted(results) == sorted(f"brick{i}" for i in range(400))


def test_the_overhead_of_the_framework_is_found_and_left_out_models_are_composed() -> None:
    phi = machine("xeon-phi-7120p")
    models, seconds = {}, {}
    for count in (3, 5, 9, 17, 33):
        layers = tuple(dense(f"l{i}", 4, 8 * (1 + i % 3), 8) for i in range(count))
        net = Workload(f"net{count}", layers, tuple((f"l{i}", f"l{i + 1}") for i in range(count - 1)))
        models[net.name] = net
        alone = {measured_key(op): 1e-4 * (1 + i % 3) for i, op in enumerate(net)}
        seconds |= alone
        whole = measured_key(composed(net, count).operations[0])
        seconds[whole] = sum(1.05 * alone[measured_key(op)] + 14e-6 for op in net)
    scores = leave_one_model_out(models, 1, seconds, phi)
    assert len(scores) == 5
    for score in scores:
        assert score.calibrated == pytest.approx(score.measured, rel=1e-3)
        assert score.plain < score.measured
    with pytest.raises(InputError, match="0 models have all their bricks measured"):
        leave_one_model_out(models, 1, {}, phi)
    with pytest.raises(InputError, match="unknown schedule 'lucky'"):
        composer(seconds, phi, "lucky")


def test_splitting_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bricks", "split", "resnet50", "-g", "2", "--format", "json"]) == 0
    assert '"unique_share"' in capsys.readouterr().out
