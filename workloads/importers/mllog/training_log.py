"""One run of training as its log states it: settings, initialisation, training, evaluations, steps."""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.workloads.runs.step_profiles import Operation, StepProfile


@dataclass(frozen=True)
class LogSpan:
    """Something that began and ended: its kind, seconds from the first event, and samples trained (None: unknown)."""

    kind: str
    start: float
    stop: float
    samples: float | None = None

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.stop - self.start


@dataclass(frozen=True)
class LoggedSteps:
    """Steps that were logged together: when they began, how many, the seconds of each, and the number that the log
    gives to the last of them (None: it numbers none).
    """

    start: float
    count: int
    seconds: float
    last: int | None = None


@dataclass(frozen=True)
class TrainingLog:
    """One run of training.

    `settings`: numbers that the log states (global_batch_size, max_sequence_length, ...).
    `seconds`: from run_start to run_stop; None where the log ends before.
    `status`: what run_stop says ("success", "aborted"); "" without one.
    `steps_from`: where step times come from: "statistics of steps", "losses", "blocks", or "" where the log has none.
    `words`: settings that are no numbers, where the log states them: precision ("fp8"), recompute ("selective").
    `program`: what printed it ("Megatron-LM"); "" of a run of MLPerf, which has a benchmark, a start and a stop.
    """

    source: str
    benchmark: str
    organisation: str
    platform: str
    settings: FrozenDict[float]
    seconds: float | None
    status: str
    spans: tuple[LogSpan, ...]
    steps: tuple[LoggedSteps, ...]
    steps_from: str
    words: FrozenDict[str] = FrozenDict()
    program: str = ""

    @property
    def batch(self) -> int | None:
        """Samples of a step."""
        size = self.settings.get("global_batch_size")
        return int(size) if size else None

    @property
    def sequence(self) -> int | None:
        """Tokens of a sample."""
        length = self.settings.get("max_sequence_length")
        return int(length) if length else None

    @property
    def step_seconds(self) -> float:
        """Median step.

        Raises InputError where the log holds no steps.
        """
        if not self.steps:
            raise InputError(f"{self.source}: holds no steps (no statistics, losses or blocks with their samples)")
        ordered = sorted((each.seconds, each.count) for each in self.steps)
        half, done = sum(count for _, count in ordered) / 2, 0
        for seconds, count in ordered:
            done += count
            if done >= half:
                return seconds
        return ordered[-1][0]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The log's own number of the last step of each line; empty where it has none, or a run began again."""
        steps, known = self.steps, tuple(each.last for each in self.steps if each.last is not None)
        follow = all(now - each.count == before for before, now, each in zip(known, known[1:], steps[1:], strict=False))
        return known if follow and len(known) == len(steps) else ()

    def lines(self) -> list[str]:
        """What the log is, in words."""
        result = [self._of_program() if self.program else self._of_benchmark()]
        if self.steps:
            count = sum(each.count for each in self.steps)
            result.append(f"{count:,} steps, median {self.step_seconds:.4g} s, from {self.steps_from}")
        evaluated = sum(span.seconds for span in self.spans if span.kind == "evaluation")
        if evaluated:
            result.append(f"{evaluated:,.4g} s of evaluation, apart from the steps")
        return result

    def _of_program(self) -> str:
        stated = [f"{name} {value:g}" for name, value in self.settings.items()]
        stated += [f"{name} {word}" for name, word in self.words.items()]
        return ", ".join([self.program, *stated])

    def _of_benchmark(self) -> str:
        whole = "the log ends before run_stop"
        if self.seconds is not None:
            whole = f"{self.seconds:,.4g} s from run_start to run_stop ({self.status or 'no status'})"
        return f"{self.benchmark or 'a benchmark without a name'}, {self.organisation or 'no organisation'}: {whole}"

    def profiles(self) -> list[StepProfile]:
        """Initialisation, stretches of training and evaluations in order, as steps of phases.

        A stretch has the log's own number of its last step, where the log numbers them.
        """
        training = [LogSpan("training", s.start, s.start + s.count * s.seconds, float(s.count)) for s in self.steps]
        others = [span for span in self.spans if span.kind != "training" or not self.steps]
        ordered = sorted((span for span in (*training, *others) if span.seconds > 0), key=lambda span: span.start)
        numbers = self.numbers if len(self.numbers) == len(ordered) else range(len(ordered))
        return [
            StepProfile(
                number, span.start, span.seconds,
                {span.kind: Operation(max(1, round(span.samples or 1)), span.seconds)}, span.kind,
            )
            for number, span in zip(numbers, ordered, strict=True)
        ]  # fmt: skip
