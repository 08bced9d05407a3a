"""Rows that teach most about a machine are measured where torch sees it: on a GPU that is not there, and here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.calibrate.operation_measurements import read_operation_times
from slipstick.experiments.cli.cli import run
from slipstick.experiments.measure.clocks.anchor_times import (
    CAPTURED,
    AnchorOperation,
    EventStopwatch,
    WallStopwatch,
    read_rows,
    timed,
    torch_call,
    write_rows,
)

ROWS = [
    AnchorOperation.of("gemm.float32", [("batch", 1), ("m", 32), ("n", 16), ("k", 64)]),
    AnchorOperation.of("gemm.float32", [("batch", 3), ("m", 8), ("n", 16), ("k", 64)]),
    AnchorOperation.of("elementwise.float32", [("elements", 256), ("reads", 512), ("writes", 256)]),
    AnchorOperation.of("softmax.float32", [("rows", 16), ("columns", 32)]),
    AnchorOperation.of("norm.float32", [("elements", 512), ("groups", 16)]),
    AnchorOperation.of(
        "attention.float32",
        [("batch", 2), ("heads", 4), ("kv_heads", 2), ("queries", 8), ("keys", 8), ("head_dim", 16), ("value_dim", 16)],
    ),
]


@dataclass
class FakeCuda:
    """A device with a clock of its own: work takes its seconds there, and a replay repeats what was captured."""

    capturable: bool = True
    now: float = 0.0
    gap: float = 0.0
    recording: list[float] | None = None
    launched: int = 0

    def launch(self, seconds: float) -> None:
        if self.recording is not None:
            if not self.capturable:
                raise RuntimeError("operation not permitted when stream is capturing")
            self.recording.append(seconds)
            return
        self.launched += 1
        self.now += seconds + self.gap  # the host stands between two launches

    def synchronize(self) -> None:
        assert self.recording is None

    def Event(self, *, enable_timing: bool) -> FakeEvent:
        assert enable_timing
        return FakeEvent(self)

    def CUDAGraph(self) -> FakeGraph:
        return FakeGraph(self)

    @contextmanager
    def graph(self, graph: FakeGraph) -> Iterator[None]:
        self.recording = graph.captured
        try:
            yield
        finally:
            self.recording = None


@dataclass
class FakeEvent:
    device: FakeCuda
    at: float = 0.0

    def record(self) -> None:
        self.at = self.device.now

    def elapsed_time(self, end: FakeEvent) -> float:
        return (end.at - self.at) * 1e3


@dataclass
class FakeGraph:
    device: FakeCuda
    captured: list[float] = field(default_factory=list)

    def replay(self) -> None:
        self.device.now += sum(self.captured)


@pytest.mark.parametrize("seconds", [2e-6, 3e-4, 0.5])
def test_a_gpu_is_timed_by_its_own_clock_without_the_host_between_kernels(seconds: float) -> None:
    device = FakeCuda(gap=30e-6)
    samples = EventStopwatch(device).samples(lambda: device.launch(seconds))
    assert len(samples) == 11 and samples == pytest.approx([seconds] * 11)
    assert device.launched == 3  # warm-ups alone run outside the graph


def test_what_cannot_be_captured_is_launched_again_and_again() -> None:
    device = FakeCuda(capturable=False)
    assert EventStopwatch(device).samples(lambda: device.launch(1e-4)) == pytest.approx([1e-4] * 11)
    assert CAPTURED > 1 and device.launched > 11


def test_a_stopped_measurement_goes_on_where_it_was(tmp_path: Path) -> None:
    device, path, called = FakeCuda(), tmp_path / "anchors.csv", list[AnchorOperation]()

    def call(stops: AnchorOperation | None) -> Callable[[AnchorOperation], Callable[[], object]]:
        def made(row: AnchorOperation) -> Callable[[], object]:
            if row == stops:
                raise KeyboardInterrupt
            called.append(row)
            return lambda: device.launch(1e-5 * (1 + ROWS.index(row)))

        return made

    with pytest.raises(KeyboardInterrupt):
        timed(ROWS, path, EventStopwatch(device), call(ROWS[3]))
    assert list(read_rows(path)) == ROWS[:3]
    lines: list[str] = []
    found = timed(ROWS, path, EventStopwatch(device), call(None), lines.append)
    assert called == ROWS and list(found) == ROWS and read_rows(path).keys() == found.keys()
    assert ["in anchors.csv already" in line for line in lines] == [True] * 3 + [False] * 3
    assert found[ROWS[5]] == pytest.approx(6e-5)


def test_rows_that_cannot_be_measured_are_left_out_and_named(tmp_path: Path) -> None:
    def call(row: AnchorOperation) -> Callable[[], object]:
        raise RuntimeError("CUDA out of memory") if row == ROWS[0] else InputError("no such kernel")

    lines: list[str] = []
    with pytest.raises(InputError, match="no row could be measured"):
        timed(ROWS[:2], tmp_path / "a.csv", WallStopwatch(), call, lines.append)
    assert "out of memory" in lines[0] and "no such kernel" in lines[1]


def test_the_file_is_what_anchors_read(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.csv", dict.fromkeys(ROWS, 1e-05))
    forms = read_operation_times(tmp_path / "a.csv", defaults={"machine": "l40s"})
    assert sum(map(len, forms)) == len(ROWS)
    assert [form.op.attributes.get("causal") for form in forms if form.op.kind == "attention"] == [True]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.kind)
def test_calls_of_torch_do_what_the_dims_say(row: AnchorOperation) -> None:
    torch = pytest.importorskip("torch")
    result = torch_call(row, "cpu")()
    sizes = dict(row.sizes)
    shapes = {
        "gemm": (sizes.get("n"), sizes.get("m")),
        "elementwise": (sizes.get("elements"),),
        "softmax": (sizes.get("rows"), sizes.get("columns")),
        "norm": (16, 32),
        "attention": (2, 4, 8, 16),
    }
    shape = shapes[row.kind] if sizes.get("batch") != 3 else (3, 16, 8)
    assert isinstance(result, torch.Tensor) and tuple(result.shape) == shape


def test_the_command_measures_here_and_the_answer_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "anchors.csv"
    command = ["measure", "anchors", "--on", "l40s", "--dtype", "float32", "--next", "2", "--device", "cpu"]
    command += ["--out", str(path), "--format", "json", "--most-seconds", "3e-5"]
    assert run(command) == 0
    out = capsys.readouterr()
    assert "1 of" in out.err and "processor" in out.err
    rows = json.loads(out.out)
    assert all(row["time_s"] > 0 for row in rows) and read_rows(path)
    assert run(command) == 0 and "already" in capsys.readouterr().err
    # a GPU that is not there is refused
    if not __import__("torch").cuda.is_available():
        assert run([*command[:-2], "--device", "cuda"]) == 2
