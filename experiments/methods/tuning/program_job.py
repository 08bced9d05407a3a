"""A user's own input pipeline as a job to tune: found tunable calls, stretches of steps, checkpoints, going on.

The tunable calls of an input pipeline, found by running it: workers, buffers, batches of calls, order of maps.

While a program is instrumented, calls of `TUNABLE` that its own code makes are noted with the place they stand at, and
get other values where some are set. Nothing of the program is rewritten; other code's calls stay as they are.
"""

from __future__ import annotations

import copy
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from inspect import Signature, getsourcefile, signature
from itertools import islice, permutations
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from slipstick.common.errors import InputError
from slipstick.common.trusted_code import code_refused, found_here
from slipstick.experiments.methods.tuning.tuner import Knob, Settings, Trial
from slipstick.workloads.runs.step_profiles import Operation, StepProfile

Kind = Literal["workers", "buffer", "batch", "order"]
MOST_ORDERS = 24
BETWEEN = ("multiprocessing/context.py", "multiprocessing/pool.py")
"""Files of the standard library that stand between a program's call and the class that it makes."""


@dataclass(frozen=True)
class TunableCall:
    """A parameter of a call that changes how fast data come, not what comes; modules are not imported for it."""

    module: str
    owner: str
    method: str
    parameter: str
    kind: Kind


TUNABLE = (
    TunableCall("torch.utils.data", "DataLoader", "__init__", "num_workers", "workers"),
    TunableCall("torch.utils.data", "DataLoader", "__init__", "prefetch_factor", "buffer"),
    TunableCall("concurrent.futures", "ThreadPoolExecutor", "__init__", "max_workers", "workers"),
    TunableCall("concurrent.futures", "ProcessPoolExecutor", "__init__", "max_workers", "workers"),
    TunableCall("concurrent.futures", "ProcessPoolExecutor", "map", "chunksize", "batch"),
    TunableCall("multiprocessing.pool", "Pool", "__init__", "processes", "workers"),
    TunableCall("multiprocessing.pool", "ThreadPool", "__init__", "processes", "workers"),
    TunableCall("multiprocessing.pool", "Pool", "imap", "chunksize", "batch"),
    TunableCall("multiprocessing.pool", "Pool", "map", "chunksize", "batch"),
    TunableCall("queue", "Queue", "__init__", "maxsize", "buffer"),
    TunableCall("torchvision.transforms", "Compose", "__init__", "transforms", "order"),
    TunableCall("tensorflow.data", "Dataset", "prefetch", "buffer_size", "buffer"),
    TunableCall("tensorflow.data", "Dataset", "shuffle", "buffer_size", "buffer"),
    TunableCall("tensorflow.data", "Dataset", "map", "num_parallel_calls", "workers"),
    TunableCall("tensorflow.data", "Dataset", "interleave", "num_parallel_calls", "workers"),
)
OWNERS = frozenset(call.owner for call in TUNABLE)
WORDS: Mapping[Kind, tuple[str, ...]] = {
    "batch": ("chunk", "map_batch", "batched_calls"),
    "workers": ("workers", "threads", "processes", "parallel"),
    "buffer": ("buffer", "prefetch", "queue", "shuffle", "ahead"),
    "order": ("order", "maps", "transforms"),
}
"""Words in the names of a pipeline function's own parameters that show what they are."""


@dataclass(frozen=True)
class Tunable:
    """A tunable value of a program: where it stands, what it is, and the value that the program gives it."""

    name: str
    kind: Kind
    value: Any


@contextmanager
def instrumented(folder: Path, settings: Mapping[str, Any]) -> Iterator[dict[str, Tunable]]:
    """Calls made by files in `folder` get the values of `settings` by their names; gives what is found meanwhile."""
    values: dict[str, Tunable] = {}
    methods: dict[tuple[str, str, str], list[TunableCall]] = {}
    for call in TUNABLE:
        methods.setdefault((call.module, call.owner, call.method), []).append(call)
    with ExitStack() as undo:
        for (module, name, method), calls in methods.items():
            if module.partition(".")[0] not in sys.modules:
                continue
            try:
                owner = getattr(import_module(module), name)
            except (ImportError, AttributeError):
                continue
            original = owner.__dict__.get(method)
            if original is None or not callable(original):
                continue
            setattr(owner, method, _noting(original, calls, folder, settings, values))
            undo.callback(setattr, owner, method, original)
        yield values


def _noting(
    original: Callable[..., Any],
    calls: Sequence[TunableCall],
    folder: Path,
    settings: Mapping[str, Any],
    values: dict[str, Tunable],
) -> Callable[..., Any]:
    form = signature(original)
    owner, method = calls[0].owner, calls[0].method

    def noted(*args: Any, **kwargs: Any) -> Any:
        place = _place(sys._getframe(1), folder)
        inner = method == "__init__" and type(args[0]).__name__ in OWNERS - {owner}
        if place is None or inner:
            return original(*args, **kwargs)
        bound = form.bind(*args, **kwargs)
        for call in calls:
            name = f"{place} {owner}{'' if method == '__init__' else '.' + method}.{call.parameter}"
            value = bound.arguments.get(call.parameter, _default(form, call.parameter))
            values.setdefault(name, Tunable(name, call.kind, tuple(value) if call.kind == "order" else value))
            if name in settings and _means_something(call, bound.arguments):
                bound.arguments[call.parameter] = settings[name]
        return original(*bound.args, **bound.kwargs)

    return noted


def _default(form: Signature, parameter: str) -> Any:
    entry = form.parameters.get(parameter)
    return None if entry is None or entry.default is entry.empty else entry.default


def _means_something(call: TunableCall, arguments: Mapping[str, Any]) -> bool:
    """A loader without workers has nothing to fetch ahead, and refuses a number to fetch."""
    return call.parameter != "prefetch_factor" or bool(arguments.get("num_workers"))


def _place(frame: FrameType | None, folder: Path) -> str | None:
    """FILE:LINE of the call where the program's own code makes it; None for other code."""
    while frame is not None and frame.f_code.co_filename.replace("\\", "/").endswith(BETWEEN):
        frame = frame.f_back
    if frame is None:
        return None
    path = Path(frame.f_code.co_filename)
    if folder != path.parent and folder not in path.parents:
        return None
    return None if "site-packages" in path.parts else f"{path.name}:{frame.f_lineno}"


def own_parameters(build: Callable[..., Any]) -> dict[str, Tunable]:
    """Parameters of a pipeline function whose names and defaults say that they can be tuned."""
    parameters = {}
    for name, parameter in signature(build).parameters.items():
        kind = next((kind for kind, words in WORDS.items() if any(word in name.lower() for word in words)), None)
        value = parameter.default
        sequence = isinstance(value, (tuple, list)) and 2 <= len(value) <= 5
        number = isinstance(value, int) and not isinstance(value, bool)
        if kind is not None and (sequence if kind == "order" else number):
            parameters[name] = Tunable(name, kind, tuple(value) if kind == "order" else value)
    return parameters


def knob_of(noted: Tunable, cores: int) -> Knob | None:
    """The values to try for a tunable value, its own among them; None where there is but one."""
    if noted.kind == "order":
        orders = list(islice(permutations(noted.value), MOST_ORDERS))
        return Knob(noted.name, tuple(orders), noted.value)
    today = noted.value if isinstance(noted.value, int) else None
    if noted.kind == "workers":
        numbers = {number for number in (1, 2, 4, 8, 16) if number <= max(4, 2 * cores)}
        numbers |= {0} if noted.name.endswith("num_workers") else set()
    elif noted.kind == "batch":
        numbers = {1, 4, 16, 64}
    else:
        numbers = {1, 2, 4, 8, 16} | ({today // 4, today // 2, 2 * today, 4 * today} if today else set())
        numbers.discard(0)
    values: list[Any] = sorted(numbers | ({today} if today is not None else set()))
    return Knob(noted.name, (None, *values) if today is None else tuple(values), today)


KEPT_BYTES = 256_000_000
"""Of batches that wait for their digest until a stretch is over; more are taken at once, which costs time."""
SLOWEST = 20.0
"""A stretch that takes so many times the default's is given up."""


@dataclass
class ProgramJob:
    """A function that builds an input pipeline, and perhaps the step that uses its batches.

    `build` needs no arguments and returns an iterable of batches, or the pair (iterable, step): `step(batch)` is called
    for each batch. A parameter `start` of `build` is the batch to begin with. Where `step` has `state_dict` and
    `load_state_dict`, trials are taken back: the state is that after the stretch under the defaults.

    `steps`: of a stretch; the first quarter fills buffers and is not timed.
    `step_seconds`: time that an accelerator would work on a batch meanwhile: waited after each step.
    """

    build: Callable[..., Any]
    steps: int = 30
    step_seconds: float = 0.0
    name: str = ""
    gain: float = 0.03
    """Relative improvement that counts on a wall clock."""
    tunable: dict[str, Tunable] = field(default_factory=dict)
    _default_time: float | None = None
    _checkpoint: Any = None

    def __post_init__(self) -> None:
        if self.steps < 4:
            raise InputError(f"steps = {self.steps}: want at least 4 of a stretch")

    def knobs(self) -> tuple[Knob, ...]:
        """What can be tuned: parameters of `build`, and calls that a first short run of it makes.

        Raises InputError where nothing can be.
        """
        self.tunable = own_parameters(self.build)
        with instrumented(self.folder, {}) as calls:
            batches, _ = self._opened({}, 0)
            for _ in range(2):
                next(batches, None)
            _close(batches)
        self.tunable |= calls
        cores = os.cpu_count() or 1
        knobs = tuple(knob for each in self.tunable.values() if (knob := knob_of(each, cores)) is not None)
        if not knobs:
            raise InputError(
                f"{self.name or 'the pipeline'}: nothing to tune: no parameter named like workers, prefetch, buffer, "
                "chunk or order, and no DataLoader, executor, pool or queue in its own files"
            )
        return knobs

    @property
    def folder(self) -> Path:
        """Where the program's own code lies."""
        return Path(getsourcefile(self.build) or ".").resolve().parent

    def stretch(self, settings: Settings) -> Trial:
        """Seconds per step of a stretch from the first batch, and a digest of its batches.

        Raises InputError where the pipeline ends early, or takes `SLOWEST` times as long as under its defaults.
        """
        first = self._default_time is None
        taken, digest, step = self._run(settings, 0, self.steps)
        if first:
            self._default_time = taken
            self._checkpoint = _state(step)
        return Trial(dict(settings), taken, digest)

    def steps_under_defaults(self) -> Iterator[StepProfile]:
        """The job's steps by wall clock: waiting for the next batch, and the work on it."""
        origin = time.perf_counter()
        with instrumented(self.folder, {}):
            batches, step = self._opened({}, 0)
            for number in range(self.steps):
                began = time.perf_counter()
                batch = next(batches, None)
                waited = time.perf_counter() - began
                self._work(step, batch)
                took = time.perf_counter() - began
                work = {"infeed": Operation(1, waited), "training step": Operation(1, took - waited, "device")}
                yield StepProfile(number, began - origin, took, work)
            _close(batches)

    def go_on(self, settings: Settings, steps: int) -> tuple[float, Any]:
        """Seconds per step of the run that goes on from the checkpoint under the settings, and the state it ends in."""
        taken, _, step = self._run(settings, self.steps, steps, self._checkpoint)
        return taken, _state(step)

    def _opened(self, settings: Settings, start: int) -> tuple[Iterator[Any], Any]:
        arguments = {name: value for name, value in settings.items() if name in signature(self.build).parameters}
        takes_start = "start" in signature(self.build).parameters
        made = self.build(**arguments, **({"start": start} if takes_start else {}))
        batches, step = made if isinstance(made, tuple) and len(made) == 2 and callable(made[1]) else (made, None)
        iterator = iter(batches)
        for _ in range(0 if takes_start else start):
            next(iterator, None)
        return iterator, step

    def _run(self, settings: Settings, start: int, steps: int, state: Any = None) -> tuple[float, str, Any]:
        """Seconds per step, the digest, and the step with its state."""
        digest, kept, size = sha256(), [], 0
        warm = max(1, steps // 4)
        with instrumented(self.folder, settings):
            batches, step = self._opened(settings, start)
            if state is not None:
                step.load_state_dict(copy.deepcopy(state))
            try:
                began = entered = time.perf_counter()
                for number in range(steps):
                    if number == warm:
                        began = time.perf_counter()
                    try:
                        batch = next(batches)
                    except StopIteration:
                        raise InputError(
                            f"the pipeline ends after {start + number} batches, want {start + steps}"
                        ) from None
                    self._work(step, batch)
                    kept.append(batch)
                    size += _size(batch)
                    if size > KEPT_BYTES:
                        _add(digest, kept)
                        kept, size = [], 0
                    given_up = SLOWEST * (self._default_time or float("inf")) * steps
                    if time.perf_counter() - entered > given_up:
                        raise InputError(f"takes more than {SLOWEST:g} times as long as under the defaults")
                taken = (time.perf_counter() - began) / (steps - warm)
            finally:
                _close(batches)
        _add(digest, kept)
        return taken, digest.hexdigest()[:16], step

    def _work(self, step: Any, batch: Any) -> None:
        if step is not None:
            step(batch)
        if self.step_seconds:
            time.sleep(self.step_seconds)


def load_program(target: str, steps: int, step_seconds: float) -> ProgramJob:
    """The job of MODULE:ATTRIBUTE, a function that builds an input pipeline; modules of the current folder too.

    What is imported is reported on standard error.

    `step_seconds`: seconds that the device takes for a step.
    Raises InputError where there is no such function, or it needs arguments.
    """
    with code_refused(f"job {target!r}: want MODULE:ATTRIBUTE"):
        build = found_here(target)
    if not callable(build):
        raise InputError(f"job {target!r}: a {type(build).__name__} is no function that builds a pipeline")
    needed = [
        p.name for p in signature(build).parameters.values() if p.default is p.empty and p.kind < p.VAR_POSITIONAL
    ]
    if needed:
        raise InputError(f"job {target!r}: needs arguments {', '.join(needed)}: give them defaults")
    return ProgramJob(build, steps, step_seconds, target)


def _state(step: Any) -> Any:
    """A copy of the step's state; None where it has none to give and take."""
    if not (hasattr(step, "state_dict") and hasattr(step, "load_state_dict")):
        return None
    return copy.deepcopy(step.state_dict())


def _close(batches: Any) -> None:
    close = getattr(batches, "close", None)
    if callable(close):
        close()


def _add(digest: Any, batches: Sequence[Any]) -> None:
    for batch in batches:
        for part in _parts(batch):
            digest.update(part)


def _parts(value: Any) -> Iterator[bytes]:
    """The content of a batch: arrays and tensors with their shape, numbers, texts, and what holds them."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield str(key).encode()
            yield from _parts(value[key])
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _parts(each)
    elif hasattr(value, "numpy") and hasattr(value, "detach"):
        yield from _parts(value.detach().cpu().numpy())
    elif hasattr(value, "tobytes") and hasattr(value, "shape"):
        yield f"{value.dtype}{value.shape}".encode()
        yield value.tobytes()
    elif isinstance(value, (bytes, bytearray)):
        yield bytes(value)
    elif value is None or isinstance(value, (str, int, float, complex)):
        yield repr(value).encode()
    else:
        raise InputError(f"a batch holds a {type(value).__name__}: want arrays, tensors, numbers, texts, lists, dicts")


def _size(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_size(each) for each in value.values())
    if isinstance(value, (tuple, list)):
        return sum(_size(each) for each in value)
    return int(getattr(value, "nbytes", 64))
