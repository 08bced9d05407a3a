"""Running a study: chunks through any executor, each stored as soon as it is done, resumed after any end.

Ctrl-C ends a long run also where the library that it falls into loses it.
"""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.records import content_digest
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.conditions import Condition, NotUsed
from slipstick.experiments.question.space import MAX_POINTS
from slipstick.experiments.question.unused_inputs import examined
from slipstick.experiments.question.user_code import code_digest
from slipstick.experiments.studies.array_share import WHOLE, Share
from slipstick.experiments.studies.store import Store, create
from slipstick.experiments.studies.study import Study
from slipstick.experiments.studies.sweep import Task, task
from slipstick.experiments.studies.versions import formulas_digest, installed_version

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def heard_interrupts() -> Iterator[Callable[[], None]]:
    """Gives a call for between two parts of the work, which ends the run where an interrupt came and was lost.

    Three of sixty interrupts of a study were: numpy compares records by Python code, drops what that raises, and goes
    on or says that it cannot compare them (numpy/_core/src/multiarray/arrayobject.c, `_void_compare`). An error that
    follows an interrupt is taken for it. Outside the main thread, and where the caller has a handler of his own, all
    stays as it is.

    Raises
    ------
    KeyboardInterrupt
        Where one was sent meanwhile, whatever became of it.
    """
    sent: list[int] = []

    def heard(number: int, frame: FrameType | None) -> None:
        sent.append(number)
        signal.default_int_handler(number, frame)

    def check() -> None:
        if sent:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, heard)
    try:
        yield check
        check()
    except Exception:
        check()
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


MAX_CHUNKS = 10_000_000
IN_FLIGHT = 8
"""Chunks handed out at once: enough to keep workers busy, few enough to bound memory."""


@dataclass(frozen=True)
class StudyCase:
    """One workload on one machine of a study; its data type, where the study has several."""

    workload: str
    machine: str
    work: Task
    dtype: str | None = None

    def __str__(self) -> str:
        return f"{self.workload} on {self.machine}" + (f" in {self.dtype}" if self.dtype else "")

    def rows(self, start: int, stop: int) -> pd.DataFrame:
        """The points start..stop with the case's names."""
        frame = self.work.rows(start, stop)
        frame.insert(0, "workload", self.workload)
        frame.insert(1, "machine", self.machine)
        if self.dtype is not None:
            frame.insert(2, "dtype", self.dtype)
        return frame


@dataclass(frozen=True)
class PreparedStudy:
    """A study made ready: its cases, its numbered chunks, the fingerprint of all that decides the answers, notes."""

    cases: tuple[StudyCase, ...]
    chunks: tuple[tuple[int, int, int], ...]
    fingerprint: str
    notes: tuple[str, ...] = ()

    def relative_to(self, today: Sequence[float]) -> PreparedStudy:
        """The same plan with ratios to these times, one a case: what is measured anew would differ a little."""
        cases = [replace(c, work=replace(c.work, today=t)) for c, t in zip(self.cases, today, strict=True)]
        return replace(self, cases=tuple(cases))

    @property
    def points(self) -> int:
        """Points of all cases, before conditions."""
        return sum(case.work.space.size for case in self.cases)


def plan(study: Study) -> PreparedStudy:
    """Compile every case of a study.

    Raises InputError where a name or a value of the study cannot be used, or its points are more than `MAX_POINTS`.
    """
    spaces = study.spaces()
    made_of = len(study.workloads) * len(study.dtypes)
    points = made_of * sum(space.size for space in spaces)
    if not spaces[0].names:
        raise InputError(f"study {study.name!r}: nothing varies; use slipstick calibrate for a calibration alone")
    if points > MAX_POINTS:
        raise InputError(
            f"study {study.name!r}: {points:,} points in its {made_of * len(spaces)} cases (a case has "
            f"{spaces[0].counted}): want at most {MAX_POINTS:,} points in all cases together"
        )
    cases: list[StudyCase] = []
    contents: list[Any] = []
    of_machine = dict(zip(study.machines, spaces, strict=True))
    for workload, machine, dtype in study.cases():
        space, question = of_machine[machine], study.question(workload, machine, dtype)
        made = task(replace(question, vary=space), study.level, study.bands)
        cases.append(StudyCase(workload, machine, made, dtype if len(study.dtypes) > 1 else None))
        machine_state = [question.machine.fingerprint, question.machine.price]
        contents.append([question.workload.identity, machine_state, question.estimator, question.run, space])
    steps = [study.chunk or case.work.chunk for case in cases]
    count = sum(-(-case.work.space.size // step) for case, step in zip(cases, steps, strict=True))
    if count > MAX_CHUNKS:
        raise InputError(
            f"study {study.name!r}: {points:,} points in {count:,} chunks of {min(steps):,}: want at most "
            f"{MAX_CHUNKS:,} chunks; fewer points, or a larger chunk (chunk = N)"
        )
    chunks = []
    for index, case in enumerate(cases):
        step = steps[index]
        chunks += [
            (index, start, min(start + step, case.work.space.size)) for start in range(0, case.work.space.size, step)
        ]
    return PreparedStudy(
        tuple(cases),
        tuple(chunks),
        content_digest(
            [contents, study.level, study.bands, chunks[-1], versions(), *filter(None, [code_digest(study.estimator)])]
        ),
        (*study.notes(spaces[0]), *_notes(cases)),
    )


MOST_EXAMINED = 12
"""Cases of a study whose answers are asked again without each number that stays."""


def examined_settings(study: Study) -> tuple[tuple[Condition, ...], tuple[NotUsed, ...]]:
    """What a study sets, as its first case has it, and what of that none of its first cases reads."""
    if not study.set:
        return (), ()
    looked = [examined(study.question(*case)) for case in itertools.islice(study.cases(), MOST_EXAMINED)]
    everywhere = set.intersection(*({one.name for one in answer.not_used} for answer in looked))
    given = (one for one in looked[0].conditions if one.origin == "given")
    return tuple(given), tuple(one for one in looked[0].not_used if one.name in everywhere)


def _notes(cases: Sequence[StudyCase]) -> tuple[str, ...]:
    """Notes on the cases; of which one, where it does not hold of all."""
    by_text: dict[str, list[StudyCase]] = {}
    for case in cases:
        for text in case.work.lines:
            by_text.setdefault(text, []).append(case)
    return tuple(
        text if len(those) == len(cases) else f"{', '.join(map(str, those))}: {text}" for text, those in by_text.items()
    )


def versions() -> dict[str, str]:
    """What else decides the last digit of an answer."""
    return {
        **{name: installed_version(name) for name in ("slipstick", "numpy", "sympy")},
        "formulas": formulas_digest(),
    }


def about(made: PreparedStudy) -> dict[str, Any]:
    """What a store's study.json says of a plan."""
    return {
        "cases": [[part for part in (case.workload, case.machine, case.dtype) if part] for case in made.cases],
        "versions": versions(),
        "chunks": len(made.chunks),
        "points": made.points,
        "today_s": [case.work.today for case in made.cases],
        "notes": list(made.notes),
    }


def stored_plan(made: PreparedStudy, store: Store) -> PreparedStudy:
    """The plan with ratios to the times that the store's ratios are relative to.

    Raises InputError where the store has another number of them.
    """
    if store.today and len(store.today) != len(made.cases):
        raise InputError(f"{store.folder}/study.json: today_s has {len(store.today)} times for {len(made.cases)} cases")
    return made.relative_to(store.today) if store.today else made


def run(
    made: PreparedStudy,
    folder: Path,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    share: Share = WHOLE,
) -> Store:
    """Evaluate every point of a share that is not stored yet; `progress` gets (points done, points of the share).

    Whatever ends it (an error, Ctrl-C, a kill), every finished chunk stays, and the next run goes on from there.
    Raises InputError where the folder holds another study, or a stored part is damaged.
    """
    if executor is not None and any(case.work.function.alone for case in made.cases):
        raise InputError("points of this estimator are taken one at a time: use the serial executor")
    store = create(folder, made.fingerprint, about(made))
    made = stored_plan(made, store)
    with store.locked(), heard_interrupts() as check:
        stored = store.verify()
        mine = share.of(len(made.chunks))
        points = sum(made.chunks[number][2] - made.chunks[number][1] for number in mine)
        done = sum(made.chunks[number][2] - made.chunks[number][1] for number in mine if number in stored)
        todo = [number for number in mine if number not in stored]
        if progress:
            progress(done, points)
        for number, frame in _answers(made, todo, executor):
            store.append(number, frame)
            done += made.chunks[number][2] - made.chunks[number][1]
            if progress:
                progress(done, points)
            check()
    for case in made.cases:
        case.work.keep()
    return store


@checked
def run_study(
    study: Study,
    folder: str | Path,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Store:
    """Evaluate every point of a study that the folder does not hold yet; see `run`.

    Parameters
    ----------
    executor
        Any `concurrent.futures.Executor`; None: one point after the other, here.
    progress
        Called with (points done, points in all).

    Raises
    ------
    InputError
        As `plan` and `run`.
    """
    return run(plan(study), Path(folder), executor, progress)


def _answers(made: PreparedStudy, todo: list[int], executor: Executor | None) -> Iterator[tuple[int, pd.DataFrame]]:
    """Finished chunks as they come, few in flight at a time."""
    if executor is None:
        for number in todo:
            index, start, stop = made.chunks[number]
            yield number, made.cases[index].rows(start, stop)
        return
    waiting = iter(todo)
    flying: dict[Future[Any], int] = {}
    try:
        while True:
            for number in waiting:
                index, start, stop = made.chunks[number]
                flying[executor.submit(made.cases[index].rows, start, stop)] = number
                if len(flying) >= IN_FLIGHT:
                    break
            if not flying:
                return
            finished, _ = wait(flying, return_when=FIRST_COMPLETED)
            for future in finished:
                yield flying.pop(future), future.result()
    finally:
        for future in flying:
            future.cancel()
