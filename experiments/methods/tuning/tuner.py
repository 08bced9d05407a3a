"""Tuning the input of a running job: online hill climbing from checkpoint to checkpoint (TPUPoint, Section VII).

The published rules ("published"): tuning starts when the hot operations are those of moving data, or when one phase
has taken more than half of the time; a parameter is moved in one direction while that improves the job, else the
other way, else it keeps its default; a parameter that raises an error when altered is not adjustable; the job's
output must not change.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from slipstick.common.errors import InputError

GAIN = 0.01
"""Relative improvement that counts; smaller ones are the clock's noise."""

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Knob:
    """An adjustable parameter: its values in order, neighbours beside each other, and the default."""

    name: str
    values: tuple[Any, ...]
    default: Any

    def __post_init__(self) -> None:
        if self.default not in self.values:
            raise InputError(f"knob {self.name!r}: default {self.default!r} is none of its values {self.values}")
        if len(set(self.values)) != len(self.values):
            raise InputError(f"knob {self.name!r}: values {self.values} repeat")


@dataclass(frozen=True)
class Trial:
    """One stretch of the job under some settings: seconds per step, and a digest of what came out."""

    settings: Mapping[str, Any]
    time: float
    output: str = ""


@dataclass(frozen=True)
class Tuning:
    """How a tuning went: every trial in order, the settings kept, the knobs (or values) that could not be used and
    why.
    """

    trials: tuple[Trial, ...]
    best: Trial
    default: Trial
    fixed: Mapping[str, str] = field(default_factory=dict)

    @property
    def speedup(self) -> float:
        """Seconds per step of the default over those of the best."""
        return self.default.time / self.best.time


Stretch = Callable[[Settings], Trial]
"""Runs the job from one checkpoint to the next under the settings; raises where they cannot be used."""


def tune(
    knobs: Sequence[Knob],
    stretch: Stretch,
    budget: int | None = None,
    gain: float = GAIN,
    rules: Literal["published", "patient"] = "patient",
) -> Tuning:
    """Hill climbing, one knob after the other, until a round brings no gain or `budget` stretches are spent.

    Parameters
    ----------
    gain
        Ratio by which a setting must be faster to be kept.

    Raises
    ------
    InputError
        Where the job cannot run under its defaults, or `budget` is below 1.
    """
    if budget is not None and budget < 1:
        raise InputError(f"budget = {budget}: want at least one stretch of the job")
    return _Climb(
        knobs, stretch, budget if budget is not None else math.prod(len(knob.values) for knob in knobs), gain, rules
    ).run()


class _Climb:
    def __init__(self, knobs: Sequence[Knob], stretch: Stretch, budget: int, gain: float, rules: str) -> None:
        self.knobs, self.stretch, self.budget, self.gain, self.rules = knobs, stretch, budget, gain, rules
        self.trials: list[Trial] = []
        self.known: dict[tuple[Any, ...], Trial | None] = {}
        self.fixed: dict[str, str] = {}

    def run(self) -> Tuning:
        settings = {knob.name: knob.default for knob in self.knobs}
        try:
            default = self.stretch(settings)
        except Exception as error:
            raise InputError(f"the job does not run under its defaults {settings}: {error}") from error
        self.trials.append(default)
        best = default
        improved = True
        while improved:
            improved = False
            for knob in self.knobs:
                if knob.name in self.fixed:
                    continue
                better = self._along(knob, best, default.output)
                if better is not best:
                    best, improved = better, True
            if not improved and self.rules == "patient":
                better = self._beyond(best, default.output)
                best, improved = better, better is not best
        return Tuning(tuple(self.trials), best, default, self.fixed)

    def _along(self, knob: Knob, best: Trial, output: str) -> Trial:
        """The best settings along one knob: up while it improves, and down if up did not."""
        for direction in (1, -1):
            start = best
            place = knob.values.index(best.settings[knob.name]) + direction
            while 0 <= place < len(knob.values):
                trial = self._try({**best.settings, knob.name: knob.values[place]}, knob, output)
                if not self._better(trial, best):
                    break
                best = trial or best
                place += direction
            if best is not start or knob.name in self.fixed:
                break
        return best

    def _beyond(self, best: Trial, output: str) -> Trial:
        """The first improvement among the values that are no neighbours, the far ends of every knob first."""
        for knob in self.knobs:
            place = knob.values.index(best.settings[knob.name])
            for value in sorted(knob.values, key=lambda value: -abs(knob.values.index(value) - place)):
                trial = self._try({**best.settings, knob.name: value}, knob, output)
                if trial is not None and self._better(trial, best):
                    return trial
        return best

    def _better(self, trial: Trial | None, best: Trial) -> bool:
        return trial is not None and trial.time < best.time * (1 - self.gain)

    def _try(self, settings: dict[str, Any], knob: Knob, output: str) -> Trial | None:
        key = tuple(settings.values())
        if key in self.known:
            return self.known[key]
        if len(self.trials) >= self.budget:
            return None
        trial: Trial | None
        try:
            trial = self.stretch(settings)
        except Exception as error:  # whatever the job raises: these settings cannot be used
            self._refuse(knob, settings[knob.name], f"{type(error).__name__}: {error}")
            trial = None
        else:
            self.trials.append(trial)
            if trial.output != output:
                self._refuse(knob, settings[knob.name], "changes the output")
                trial = None
        self.known[key] = trial
        return trial

    def _refuse(self, knob: Knob, value: Any, why: str) -> None:
        self.fixed[knob.name if self.rules == "published" else f"{knob.name} = {value!r}"] = why


def exhaustive(knobs: Sequence[Knob], stretch: Stretch) -> list[Trial]:
    """Every combination that runs and keeps the output of the default, fastest first."""
    default = stretch({knob.name: knob.default for knob in knobs})
    runs = []
    for settings in _grid(knobs):
        try:
            trial = stretch(settings)
        except Exception:  # not adjustable, as in `tune`
            continue
        if trial.output == default.output:
            runs.append(trial)
    return sorted(runs, key=lambda trial: trial.time)


def by_formula(knobs: Sequence[Knob], predict: Callable[[Settings], float]) -> dict[str, Any]:
    """The settings that a formula says are fastest; of equals the one nearest the defaults. No stretch of the job
    is run. `predict` gives seconds a step.

    Raises InputError where no combination of settings can be used.
    """
    places = {knob.name: knob.values.index(knob.default) for knob in knobs}

    def distance(settings: Settings) -> int:
        return sum(abs(knob.values.index(settings[knob.name]) - places[knob.name]) for knob in knobs)

    best: tuple[float, int] | None = None
    chosen: dict[str, Any] = {}
    for settings in _grid(knobs):
        try:
            time = predict(settings)
        except InputError:
            continue
        if (
            best is None
            or time < best[0] * (1 - 1e-9)
            or (time <= best[0] * (1 + 1e-9) and distance(settings) < best[1])
        ):
            best, chosen = (min(time, best[0]) if best else time, distance(settings)), settings
    if best is None:
        raise InputError("no combination of settings can be used")
    return chosen


def _grid(knobs: Sequence[Knob]) -> Iterator[dict[str, Any]]:
    names = [knob.name for knob in knobs]
    for values in itertools.product(*(knob.values for knob in knobs)):
        yield dict(zip(names, values, strict=True))


def in_turns(stretch: Callable[[Settings], Trial], choices: Sequence[Settings], rounds: int = 3) -> list[list[float]]:
    """Stretches of several settings, interleaved: one list of seconds per step for each."""
    taken = [[stretch(settings).time for settings in choices] for _ in range(rounds)]
    return [list(series) for series in zip(*taken, strict=True)]


def paired_interval(
    one: Sequence[float], other: Sequence[float], level: float = 0.95, draws: int = 4000, seed: int = 0
) -> tuple[float, float]:
    """Bootstrap interval of the ratio of medians one / other, from stretches taken in pairs.

    Raises InputError where the two are not of one length, or shorter than 3.
    """
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if len(a) != len(b) or len(a) < 3:
        raise InputError(f"{len(a)} and {len(b)} stretches: want pairs, at least 3")
    picks = np.random.default_rng(seed).integers(0, len(a), (draws, len(a)))
    ratios = np.median(a[picks], axis=1) / np.median(b[picks], axis=1)
    low, high = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
