"""A user's own input pipeline as a job to tune: found tunable calls, stretches of steps, checkpoints, going on."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from inspect import getsourcefile, signature
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.trusted_code import found_here
from slipstick.experiments.methods.tuning.instrumented import Tunable, instrumented, knob_of, own_parameters
from slipstick.experiments.methods.tuning.tuner import Knob, Settings, Trial
from slipstick.workloads.runs.step_profiles import Operation, StepProfile

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
    try:
        build = found_here(target)
    except InputError:
        raise
    except Exception as error:  # whatever the code raises is the user's to read
        raise InputError(f"job {target!r}: want MODULE:ATTRIBUTE: {type(error).__name__}: {error}") from error
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
