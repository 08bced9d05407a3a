"""Eager training steps on this host, whole and taken apart: every ATen operation of a step timed alone.

A dispatch mode sees the operations of one real step with their tensors; each distinct one (operator, shapes, strides,
data types, numbers) is then called by itself in a loop. The clock is the CPU time of the thread, with one thread.

Twelve small networks of very different operation sizes, each with a batch and a loss: what steps are measured on.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

from slipstick.common.lazy_packages import nn, torch
from slipstick.common.readers import unknown_name
from slipstick.common.writer import atomic_write, write_json
from slipstick.experiments.measure.clocks.one_thread import one_thread
from slipstick.experiments.measure.clocks.timing import processor

Built = tuple[Any, Any, Any]
"""A module, its input, and the targets of a cross entropy over the last axis (or over axis 1 of images)."""


def _dense(batch: int, *widths: int) -> Built:
    layers: list[Any] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1]), torch.randn(batch, widths[0]), torch.randint(widths[-1], (batch,))


def _lenet() -> Built:
    module = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )
    return module, torch.randn(32, 1, 28, 28), torch.randint(10, (32,))


def _vgg() -> Built:
    layers: list[Any] = []
    for before, after, pooled in ((3, 32, False), (32, 32, True), (32, 64, False), (64, 64, True), (64, 128, True)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        layers += [nn.MaxPool2d(2)] if pooled else []
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 10))
    return module, torch.randn(16, 3, 32, 32), torch.randint(10, (16,))


def _residual() -> Built:
    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first, self.one = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
            self.second, self.two = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

        def forward(self, x: Any) -> Any:
            return torch.relu(x + self.two(self.second(torch.relu(self.one(self.first(x))))))

    down = [nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    module = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), Block(16), Block(16), Block(16)),
        *(*down, Block(32), Block(32), Block(32)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )
    return module, torch.randn(4, 3, 32, 32), torch.randint(10, (4,))


def _mobile() -> Built:
    def unit(before: int, after: int, stride: int) -> list[Any]:
        depthwise = [nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False), nn.BatchNorm2d(before)]
        return [*depthwise, nn.ReLU6(), nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU6()]

    layers = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6()]
    for before, after, stride in ((16, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 128, 1)):
        layers += unit(before, after, stride)
    module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    return module, torch.randn(4, 3, 64, 64), torch.randint(10, (4,))


def _autoencoder() -> Built:
    module = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, 2, 1), nn.GELU(), nn.Conv2d(16, 32, 3, 2, 1), nn.GELU()),
        *(nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.GELU(), nn.ConvTranspose2d(16, 4, 4, 2, 1)),
    )
    return module, torch.randn(8, 1, 48, 48), torch.randint(4, (8, 48, 48))


def _recurrent(cell: str, batch: int, length: int, width: int, words: int) -> Built:
    class Reader(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.cells = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](width, width, 2, batch_first=True)
            self.classifier = nn.Linear(width, words)

        def forward(self, x: Any) -> Any:
            return self.classifier(self.cells(self.embedding(x))[0]).flatten(0, 1)

    return Reader(), torch.randint(words, (batch, length)), torch.randint(words, (batch * length,))


def transformer(batch: int, length: int, width: int, layers: int, words: int) -> Built:
    """Encoder layers of four heads over words (token ids, shape (batch, length)), with scores of every word."""

    class Encoder(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.classifier = nn.Linear(width, words)

        def forward(self, x: Any) -> Any:
            return self.classifier(self.encoder(self.embedding(x))).flatten(0, 1)

    return Encoder(), torch.randint(words, (batch, length)), torch.randint(words, (batch * length,))


MODELS: Mapping[str, Callable[[], Built]] = {
    "narrow deep dense": lambda: _dense(8, *([32] * 24), 10),
    "digits dense": lambda: _dense(16, 784, 128, 10),
    "wide dense": lambda: _dense(64, 1024, 1024, 1024, 100),
    "lenet": _lenet,
    "vgg": _vgg,
    "residual": _residual,
    "depthwise": _mobile,
    "autoencoder": _autoencoder,
    "lstm": lambda: _recurrent("lstm", 4, 24, 96, 500),
    "gru": lambda: _recurrent("gru", 16, 32, 128, 1000),
    "small transformer": lambda: transformer(2, 16, 64, 3, 200),
    "transformer": lambda: transformer(4, 96, 192, 2, 2000),
}
"""By name: from operations of a microsecond to some of ten milliseconds."""


COLUMNS = ("model", "phase", "operation", "signature", "kind", "count", "flop", "byte", "time_s")
STEP, CALL = "step", "call"
"""Rows that hold a whole step, and the time of a call that does next to nothing."""
WARM_UP, ROUNDS = 8, 21
SAMPLE = 2e-4
"""Seconds of a sample; shorter calls are repeated inside one."""


@dataclass
class StepOperation:
    """One distinct operation of a step: how often it came in which phase, what it costs, and how to call it again."""

    name: str
    signature: str
    kind: str
    flop: float
    byte: float
    again: Callable[[], object]
    counts: dict[str, int]


def measure_steps(path: str | os.PathLike[str], names: Sequence[str] = (), say: Callable[[str], None] = print) -> None:
    """Write a CSV of the steps of the named networks (all of them if none is named) and of their operations.

    Beside it `PATH.json` says where, when and how. A row `step` is the median of a whole step, three times over.
    Raises InputError where a network is unknown.
    """

    for name in names:
        if name not in MODELS:
            raise unknown_name("network", name, list(MODELS))
    rows: list[tuple[Any, ...]] = []
    load = [os.getloadavg()[0]]
    with one_thread():
        for name in names or MODELS:
            rows += _measured(name)
            say(f"{name}: step {median(row[-1] for row in rows if row[0] == name and row[2] == STEP) * 1e3:.3f} ms")
    load.append(os.getloadavg()[0])
    with atomic_write(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    document = {
        "processor": processor(),
        "software": f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}",
        "date": date.today().isoformat(),
        "load": load,
        "protocol": (
            f"one thread, thread CPU time; {ROUNDS} rounds of a step, every operation alone ({SAMPLE} s a sample, same "
            "tensors again) and a step; an operation takes its median over that of the steps beside it, times the "
            "median step: a virtual core changes its speed with its neighbours; steps: medians of odd and even rounds"
        ),
    }
    write_json(f"{os.fspath(path)}.json", document, indent=1)


def _measured(name: str) -> list[tuple[Any, ...]]:
    """Rows of one network: its step, an almost empty call, and each distinct operation alone."""

    torch.manual_seed(0)
    module, x, y = MODELS[name]()
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4, momentum=0.9)

    def forward() -> Any:
        optimizer.zero_grad(set_to_none=True)
        return torch.nn.functional.cross_entropy(module(x), y)

    def step() -> None:
        forward().backward()
        optimizer.step()

    for _ in range(WARM_UP):
        step()
    recorder = _recorder()
    with recorder:
        loss = forward()
        recorder.phase = "backward"
        loss.backward()
        recorder.phase = "optimizer"
        optimizer.step()
    tasks = {key: seen.again for key, seen in recorder.seen.items()}
    seconds, whole = _beside(tasks, step)
    rows: list[tuple[Any, ...]] = [(name, "", STEP, "", "", 1, 0, recorder.footprint, value) for value in whole]
    rows.append((name, "", CALL, "", "", 1, 0, 0, seconds[CALL]))
    for key, seen in recorder.seen.items():
        for phase, count in seen.counts.items():
            what = (name, phase, seen.name, seen.signature, seen.kind, count, seen.flop, seen.byte)
            rows.append((*what, seconds[key]))
    return [(*row[:-1], round(row[-1], 9)) for row in rows]


def _beside(
    tasks: Mapping[str, Callable[[], object]], step: Callable[[], None]
) -> tuple[dict[str, float], list[float]]:
    """Seconds of a call of each task and of an almost empty one; medians of the step in odd and even rounds."""

    one, empty = torch.ones(1), torch.ops.aten.detach.default
    everything = {**tasks, CALL: lambda: empty(one)}
    with torch.no_grad():
        inner = {key: max(1, round(SAMPLE / _taken(task, 3))) for key, task in everything.items()}
    shares: dict[str, list[float]] = {key: [] for key in everything}
    steps = [_taken(step, 1)]
    for _ in range(ROUNDS):
        with torch.no_grad():
            taken = {key: _taken(everything[key], count) for key, count in inner.items()}
        steps.append(_taken(step, 1))
        usual = (steps[-1] + steps[-2]) / 2
        for key, value in taken.items():
            shares[key].append(value / usual)
    whole = median(steps)
    return {key: median(share) * whole for key, share in shares.items()}, [median(steps[::2]), median(steps[1::2])]


def _taken(task: Callable[[], object], count: int) -> float:
    begin = time.thread_time()
    for _ in range(count):
        task()
    return max(time.thread_time() - begin, 1e-9) / count


def _recorder() -> Any:
    """A mode that keeps one example of every distinct operation."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map

    def held(value: Any) -> Any:
        return value.detach() if isinstance(value, torch.Tensor) else value

    class StepRecorder(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.phase = "forward"
            self.seen: dict[str, StepOperation] = {}
            self._storages: dict[int, Any] = {}

        @property
        def footprint(self) -> int:
            """Bytes of all that the step touches."""
            return sum(int(storage.nbytes()) for storage in self._storages.values())

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            signature = ";".join(_written(value) for value in (*args, *kwargs.values()))
            key = f"{func} {signature}"
            if key not in self.seen:
                kept, named = tree_map(held, args), tree_map(held, kwargs)
            out = func(*args, **kwargs)
            if key not in self.seen:
                kind, flop, byte = _work(func, args, kwargs, out)
                call = partial(func, *kept, **named)
                self.seen[key] = StepOperation(str(func), signature, kind, flop, byte, call, {})
            for leaf in tree_leaves((args, kwargs, out)):
                if isinstance(leaf, torch.Tensor):
                    self._storages.setdefault(leaf.untyped_storage()._cdata, leaf.untyped_storage())
            counts = self.seen[key].counts
            counts[self.phase] = counts.get(self.phase, 0) + 1
            return out

    return StepRecorder()


def _written(value: Any) -> str:
    """An argument as text: what decides the time of a call, and nothing else."""

    if isinstance(value, torch.Tensor):
        shape = "x".join(map(str, value.shape))
        plain = value.is_contiguous()
        return f"{str(value.dtype).removeprefix('torch.')}[{shape}]" + ("" if plain else f"/{tuple(value.stride())}")
    if isinstance(value, (list, tuple)):
        return "(" + ",".join(_written(part) for part in value) + ")"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _work(func: Any, args: Any, kwargs: Any, out: Any) -> tuple[str, float, float]:
    """Kind, flop and bytes of a call by the taxonomy; "uncounted" with the bytes of its operands where unknown."""
    from torch.utils._pytree import tree_leaves

    from slipstick.workloads.graph.assembly import Tensor
    from slipstick.workloads.graph.kinds import operation
    from slipstick.workloads.importers.torch.aten import Call, read_call

    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return Tensor(tuple(value.shape), str(value.dtype).removeprefix("torch."), tuple(value.stride()))
        if isinstance(value, (list, tuple)):
            return tuple(map(plain, value))
        return value if isinstance(value, (int, float, bool)) or value is None else str(value)

    values = [
        args[i] if i < len(args) else kwargs.get(a.name, a.default_value if a.has_default_value() else None)
        for i, a in enumerate(func._schema.arguments)
    ]
    results = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
    tags = {*(str(tag).removeprefix("Tag.") for tag in func.tags), *(("view",) if func.is_view else ())}
    call = Call(func._opname, tuple(map(plain, values)), tuple(map(plain, results)), frozenset(tags))
    dtype = next((t.dtype for t in call.tensors() if "float" in t.dtype), "float32")
    pieces = read_call(call)
    if pieces is None:
        moved = sum(t.numel() * t.element_size() for t in [*_tensors(args), *results])
        return "uncounted", 0.0, float(moved)
    made = [operation(f"{i}", piece.kind, piece.dims, dtype, piece.attributes) for i, piece in enumerate(pieces)]
    kind = made[0].kind if made else "view"
    return kind, float(sum(op.cost.flop for op in made)), float(sum(op.cost.bytes_moved for op in made))


def _tensors(tree: Any) -> list[Any]:
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
