"""A job as a YAML file of stages and resources, or any workload as a job of one stage; numbers of it by name.

Seconds of a stage that is a workload on a machine: the whole of its estimate, or one side of a fed accelerator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression, value_at
from slipstick.common.readers import read_yaml, require_mapping, unknown_name
from slipstick.common.records import validated
from slipstick.common.trusted_code import TrustedName, named_here
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.simulation.input_pipeline import Checkpoint, Pipeline
from slipstick.estimators.simulation.job import Failures, Job, with_numbers
from slipstick.estimators.simulation.job_calibration import JobCalibration
from slipstick.estimators.simulation.stage import Process, Stage
from slipstick.estimators.symbolic.formula import parameters
from slipstick.experiments.jobs import SHIPPED, is_job, shipped_jobs
from slipstick.experiments.jobs.job_records import JobFile, OperationTime, StageFile
from slipstick.experiments.question.question import question
from slipstick.experiments.question.settings import assignments, number_of
from slipstick.experiments.question.user_code import is_own_program, own_object
from slipstick.workloads.catalog import workload, workload_names

METRICS: dict[OperationTime, str] = {"host": "host", "infeed": "link", "device": "device"}
"""The share of a step that each side of a fed accelerator is busy, by its name among the answer's metrics."""
WORKERS = 16
"""That make examples where run.workers does not say."""


@dataclass(frozen=True)
class StageTime:
    """Seconds of one output of one worker, how sure their mean is (log), and what they assume."""

    seconds: float
    scatter: float
    assumed: str


def stage_time(
    workload: str,
    machine: str,
    estimator: str | None,
    settings: tuple[str, ...],
    dtype: str | None,
    part: OperationTime,
) -> StageTime:
    """The time of a stage; the same question is answered once.

    `part`: whole; or host (one of run.workers makes a batch), infeed (it is handed in), device (it is worked on).
    Raises InputError where the question is wrong, or the estimate knows no such part.
    """
    answer, names = _answered(workload, machine, estimator, settings, dtype)
    seconds = answer.time
    if part != "whole":
        share = answer.metrics.get(METRICS[part])
        if share is None or "idle" not in answer.metrics:
            raise InputError(
                f"{workload} on {machine}: its estimate is one whole; part = {part} is known of accelerators behind an "
                "input pipeline (TPU boards)"
            )
        seconds *= share * (workers_of(settings) if part == "host" else 1)
    scatter = answer.spread.total
    sure = "how sure it is, is not known: the estimator is not calibrated"
    if scatter is not None:
        sure = f"its mean scatters by {scatter:.1%}, drawn once a run"
    what = f"{part} of {names}" if part != "whole" else names
    return StageTime(seconds, scatter or 0.0, f"{what}, {seconds:.4g} s; {sure}")


def _answered(
    workload: str, machine: str, estimator: str | None, settings: tuple[str, ...], dtype: str | None
) -> tuple[Estimate, str]:
    """The estimate and its names; of what ships only once, for files and modules may change in between."""
    ships = not any(mark in name for name in (workload, machine, estimator or "") for mark in "./:")
    return (_kept if ships else _kept.__wrapped__)(workload, machine, estimator, settings, dtype)


@lru_cache(maxsize=256)
def _kept(
    workload: str, machine: str, estimator: str | None, settings: tuple[str, ...], dtype: str | None
) -> tuple[Estimate, str]:
    query = question(workload, machine, estimator, list(settings), dtype)
    return query.answer(), f"{query.workload.name} on {query.machine.name}"


def workers_of(settings: Sequence[str]) -> int:
    """run.workers among settings, else 16."""
    given = [text.partition("=")[2] for text in settings if text.partition("=")[0].strip() == "run.workers"]
    return round(number_of("run.workers", given[-1])) if given else WORKERS


def is_input_bound(
    workload: str, machine: str, estimator: str | None, settings: tuple[str, ...], dtype: str | None
) -> bool:
    """Whether an estimate knows an input pipeline whose host works."""
    answer, _ = _answered(workload, machine, estimator, settings, dtype)
    return "idle" in answer.metrics and answer.metrics.get("host", 0.0) > 0 and "link" in answer.metrics


COPIED = (
    *("workers", "gather", "variation", "distribution", "start_up", "resource"),
    *("order", "together", "slow_share", "slow_factor", "uneven"),
)
SPACES = ("job", "machine", "workload", "run", "estimator")


@dataclass(frozen=True)
class JobQuestion:
    """A job as it was given: its document, and what is set in it.

    `where`: the file, for messages.
    `machine`: the machine of stages that name a workload and no machine.
    `allow_code`: code that the user named himself, which a stage may name as its process.
    `calibration`: what was fitted to measurements of it; a number that is set is the set one.
    """

    document: Mapping[str, Any]
    where: str
    machine: str | None = None
    estimator: str | None = None
    settings: tuple[str, ...] = ()
    calibration: JobCalibration | None = None
    dtype: str | None = None
    allow_code: tuple[str, ...] = ()

    @property
    def ships(self) -> bool:
        """Whether it is none of the user's files, nor of anybody else's."""
        return not self.where.endswith((".yaml", ".yml"))

    @property
    def file(self) -> JobFile:
        """The document with its settings, checked; numbers of processes stand apart."""
        document = dict(self.document)
        for path, text in assignments(self.settings, SPACES)["job"].items():
            if path not in self._of_processes:
                document = _changed(document, path, text)
        return validated(JobFile, document, self.where)

    @cached_property
    def _processes(self) -> dict[str, Process]:
        """The processes that stages of the document name, by stage.

        Raises InputError where the user did not name one as well, or it is none.
        """
        made = {}
        for stage in validated(JobFile, dict(self.document), self.where).stages:
            if stage.process is not None:
                place = f"{self.where}: stage {stage.name!r}: process"
                process = own_object(named_here(stage.process, self.allow_code, place), place)
                if not isinstance(process, Process):
                    raise InputError(
                        f"{place} = {stage.process!r}: a {type(process).__name__} is no Process (ss.runs.Process)"
                    )
                if both := sorted({*parameters(process)} & {*StageFile.model_fields}):
                    raise InputError(
                        f"{place} = {stage.process!r}: {both[0]} is a number of every stage: name it otherwise"
                    )
                made[stage.name] = process
        return made

    @cached_property
    def _of_processes(self) -> dict[str, float]:
        """What is set of the processes, by the job's names."""
        numbers = {f"{name}.{path}" for name, process in self._processes.items() for path in parameters(process)}
        values = assignments(self.settings, SPACES)["job"]
        for path in values:
            stage, _, field = path.partition(".")
            if stage in self._processes and path not in numbers and field not in StageFile.model_fields:
                raise unknown_name("number of the job", f"job.{path}", sorted(f"job.{one}" for one in numbers))
        return {path: number_of(f"job.{path}", text) for path, text in values.items() if path in numbers}

    def using(self, settings: Sequence[str]) -> JobQuestion:
        """The same with these set as well; a later value of a name wins."""
        latest = {text.partition("=")[0].strip(): text for text in (*self.settings, *settings)}
        return replace(self, settings=tuple(latest.values()))

    def job(self) -> tuple[Job, tuple[str, ...]]:
        """The job with its fitted numbers, and what its stages' estimates assume.

        Raises InputError where the file or a setting is wrong, or the calibration is of another job.
        """
        job, lines = self.uncalibrated()
        if self.calibration is None:
            return job, lines
        known = self.calibration
        note = f"calibrated on {known.source}: {', '.join(f'job.{name}' for name in known.names)}"
        taken = [name for name in known.names if name in self.fixed]
        note += f"; set and not taken from it: {', '.join(f'job.{name}' for name in taken)}" if taken else ""
        return self._with(job, known.values), (
            *lines,
            note,
            *(f"the calibration warns: {one}" for one in known.warnings),
        )

    def drawn(self, count: int) -> list[Job]:
        """The job as often as it may be: with draws of its fitted numbers; once, where nothing was fitted."""
        job, _ = self.uncalibrated()
        if self.calibration is None:
            return [job]
        return [self._with(job, row) for row in self.calibration.parameter_draws(job, count).tolist()]

    @property
    def fixed(self) -> frozenset[str]:
        """Numbers of the job that are set, without ``job.``."""
        return frozenset(assignments(self.settings, SPACES)["job"])

    def _with(self, job: Job, values: Sequence[float]) -> Job:
        if self.calibration is None:
            return job
        named = dict(zip(self.calibration.names, values, strict=True))
        try:
            return self.calibration.applied(
                job, {name: value for name, value in named.items() if name not in self.fixed}
            )
        except InputError as error:
            raise InputError(f"the calibration of {self.calibration.source} is of another job: {error}") from None

    def uncalibrated(self) -> tuple[Job, tuple[str, ...]]:
        """The job as its file and settings have it, and what its stages' estimates assume.

        Raises InputError where the file or a setting is wrong, or a stage gives neither a time nor a workload.
        """
        file, lines, stages = self.file, [], []
        others = [text for text in self.settings if not text.startswith("job.")]
        if others and not any(stage.workload for stage in file.stages):
            raise InputError(f"{others[0]}: no stage of {self.where} is a workload; only job.* can be set")
        self._require_read(file)
        for stage in file.stages:
            times, scatter, more = self._service(stage, others)
            lines += more
            fields = {name: getattr(stage, name) for name in COPIED}
            room = None if file.population is not None else stage.buffer
            stages.append(
                Stage(
                    stage.name,
                    times,
                    buffer=room,
                    scatter=scatter if stage.scatter is None else stage.scatter,
                    process=self._processes.get(stage.name),
                    **fields,
                )
            )
        pipeline = Pipeline(tuple(stages), file.device or stages[-1].name, file.resources)
        checkpoint = Checkpoint(file.checkpoint.every, file.checkpoint.time) if file.checkpoint else None
        failures = Failures(file.failures.between, file.failures.restart) if file.failures else None
        job = Job(file.name, pipeline, file.steps, file.copies, file.population, checkpoint, failures)
        return with_numbers(job, self._of_processes), tuple(lines)

    def _require_read(self, file: JobFile) -> None:
        """Refuse a machine, an estimator or a data type that no stage reads."""
        options = {"--on": self.machine, "--estimator": self.estimator, "--dtype": self.dtype}
        for option, field in (("--on", "machine"), ("--estimator", "estimator"), ("--dtype", "dtype")):
            if options[option] is not None and not any(
                stage.workload and (getattr(stage, field) is None or (field == "estimator" and self._is_own(stage)))
                for stage in file.stages
            ):
                raise InputError(
                    f"{option} {options[option]}: no stage of {self.where} reads it: each gives its time, or names "
                    f"its own {field}"
                )

    def _is_own(self, stage: StageFile) -> bool:
        """Whether the code that the user named may be a stage's: what a file names runs only where he names it too."""
        return isinstance(self.estimator, TrustedName) and ":" in (stage.estimator or "")

    def formula(self, job: Job) -> tuple[float, str]:
        """Seconds of the job by a formula, and which: the file's own, or the slowest stage without waiting.

        Raises InputError where the file's formula names what the job has not, or gives no time.
        """
        text = self.file.formula
        if text is None:
            meet = job.copies > 1 and any(stage.together for stage in job.pipeline.stages)
            rest = "copies wait for the expected longest, nothing else varies" if meet else "nothing varies"
            added = [stage.name for stage in job.pipeline.stages if stage.process is not None]
            without = f"; without what the process of {' and '.join(added)} adds" if added else ""
            return job.ideal(), f"the slowest stage or resource, {rest} and nothing waits{without}"
        values: dict[str, float] = {"job.steps": job.steps, "job.copies": job.copies}
        if job.population is not None:
            values["job.population"] = job.population
        values |= {f"job.resources.{name}": capacity for name, capacity in job.pipeline.resources.items()}
        for stage in job.pipeline.stages:
            values[f"job.{stage.name}.service"] = stage.mean
            for name in ("workers", "gather", "buffer", "variation", "start_up"):
                value = getattr(stage, name)
                if value is not None:
                    values[f"job.{stage.name}.{name}"] = value
        where = f"{self.where}: formula.seconds"
        seconds = float(value_at(parse_expression(text.seconds, sorted(values), where), values, where))
        if not (math.isfinite(seconds) and seconds > 0):
            raise InputError(f"{self.where}: the formula gives {seconds:g} s: want a time > 0")
        return seconds, text.source

    def _service(self, stage: StageFile, others: Sequence[str]) -> tuple[tuple[float, ...], float, list[str]]:
        """Seconds of the stage's outputs, how sure their mean is, and what that assumes."""
        if (stage.service is None) == (stage.workload is None):
            raise InputError(f"{self.where}: stage {stage.name!r}: give service (seconds) or workload, one of them")
        if stage.service is not None:
            return stage.service, 0.0, []
        machine = stage.machine or self.machine
        if machine is None or stage.workload is None:
            raise InputError(f"{self.where}: stage {stage.name!r}: on which machine? Give machine, or --on MACHINE")
        latest = {text.partition("=")[0].strip(): text for text in (*stage.set, *others)}
        estimator = self.estimator
        if stage.estimator is not None:
            trusted = {estimator} if isinstance(estimator, TrustedName) else ()
            estimator = named_here(stage.estimator, trusted, f"{self.where}: stage {stage.name!r}: estimator")
        dtype = stage.dtype or self.dtype
        answer = stage_time(stage.workload, machine, estimator, tuple(latest.values()), dtype, stage.part)
        note = "" if stage.scatter is None else f" (set: {stage.scatter:.1%})"
        return (answer.seconds,), answer.scatter, [f"{stage.name}: {answer.assumed}{note}"]


def job_question(
    name: str,
    machine: str | None = None,
    estimator: str | None = None,
    settings: Sequence[str] = (),
    dtype: str | None = None,
    allow_code: Sequence[str] = (),
) -> JobQuestion:
    """A job by file or name, or a workload as a job of one stage, `step`, whose copies wait for each other.

    Where the estimate knows an input pipeline, `host` and `infeed` are stages before it.
    Raises InputError where there is no such job or workload.
    """
    if is_job(name):
        path = Path(name) if name.endswith((".yaml", ".yml")) else SHIPPED / f"{name}.yaml"
        document = require_mapping(read_yaml(path), path, "the document")
        return JobQuestion(
            document,
            str(path if name.endswith((".yaml", ".yml")) else name),
            machine,
            estimator,
            tuple(settings),
            dtype=dtype,
            allow_code=tuple(allow_code),
        )
    if is_own_program(name):
        graph = f"{name.rpartition(':')[2]}.json"
        raise InputError(f"{name}: is simulated by its graph: slipstick workloads import {name} --out {graph}")
    try:
        workload(name)
    except InputError:
        if "." in name or ":" in name:
            raise
        raise unknown_name("workload or job", name, [*shipped_jobs(), *workload_names()]) from None
    whole = {"workload": name}
    stages: list[dict[str, Any]] = [{"name": "step", "together": True, **whole}]
    others = tuple(text for text in settings if not text.startswith("job."))
    if machine is not None and is_input_bound(name, machine, estimator, others, dtype):
        host = {"name": "host", "part": "host", "workers": workers_of(others), "buffer": 2}
        stages = [host, {"name": "infeed", "part": "infeed"}, {**stages[0], "part": "device"}]
        stages = [{**whole, **stage} for stage in stages]
    return JobQuestion({"name": name, "stages": stages}, name, machine, estimator, tuple(settings), dtype=dtype)


def _changed(document: Mapping[str, Any], path: str, text: str) -> dict[str, Any]:
    """The document with one number or word changed: ``steps``, ``resources.NAME``, ``STAGE.FIELD``."""
    value: Any = None if text in ("null", "none") else text
    head, _, rest = path.partition(".")
    if not rest:
        return {**document, head: value}
    if head in ("resources", "checkpoint", "failures"):
        inner = document.get(head) or {}
        return {**document, head: {**require_mapping(inner, "the job", head), rest: value}}
    stages = list(document.get("stages") or [])
    names = [stage.get("name") if isinstance(stage, Mapping) else None for stage in stages]
    if head not in names:
        raise unknown_name("part of the job", head, [str(n) for n in names] + ["resources", "checkpoint", "failures"])
    place = names.index(head)
    changed = {key: entry for key, entry in stages[place].items() if not (rest == "service" and key == "workload")}
    stages[place] = {**changed, rest: value}
    return {**document, "stages": stages}
