"""A study as a file: workloads, machines, what varies, the estimator and its calibration.

What a study names: files found from its folder, workloads of every kind that an estimate takes.

Plain data as TOML, which the standard library only reads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from pydantic import Field, PrivateAttr, field_validator, model_validator

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.common.formatting import short_name
from slipstick.common.readers import read_toml
from slipstick.common.records import FrozenDict, Record, validated
from slipstick.common.renamed_arguments import checked
from slipstick.common.trusted_code import TrustedName, is_own, named_here
from slipstick.common.writer import write_text
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Measurement
from slipstick.estimators.base.protocols import Fitted
from slipstick.estimators.fitting.calibration import Calibration, calibrate
from slipstick.estimators.simulation.job_estimator import JobEstimator
from slipstick.experiments.calibrate.measured_argument import known_time
from slipstick.experiments.calibrate.measurements import read_measurements
from slipstick.experiments.jobs import is_job
from slipstick.experiments.jobs.job_file import job_question
from slipstick.experiments.jobs.simulate_job import runs_of
from slipstick.experiments.question.axes import counts_values, is_count, merged_steps, quantity, values_of
from slipstick.experiments.question.objectives import Objective, objective_of
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.question.registry import estimator_to_fit
from slipstick.experiments.question.settings import name_and_value, number_of
from slipstick.experiments.question.space import Range, Space
from slipstick.experiments.question.user_code import is_own_program, own_program
from slipstick.experiments.studies.study_records import Fitting as Fitting
from slipstick.experiments.studies.study_records import Sample, SampledRange, Value, Values, with_todays_keys
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import MATRIX_FILES, REQUESTS, STEPS, TRAINING
from slipstick.workloads.catalog import workload as workload_by_name
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.transforms.attention import in_one_kernel

if TYPE_CHECKING:
    from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration

BEFORE = ("pagerank:", REQUESTS, TRAINING, *STEPS)
"""Words that may stand before a file."""
FILES = (".json", ".yaml", ".yml", ".csv", ".gguf", *MATRIX_FILES)


def _is_of_workload(known: Fitted | None) -> bool:
    """Whether it was measured of one workload and says nothing of another."""
    from slipstick.estimators.power.power_limit_run import PowerLimitRun
    from slipstick.estimators.training.training_estimator import MeasuredTraining
    from slipstick.estimators.user_measured.measured_time import MatchedToTime

    return isinstance(known, MatchedToTime | PowerLimitRun | MeasuredTraining)


def study_workload(
    name: str, folder: Path, allow_code: Collection[str], inputs: Sequence[str] = (), train: str | None = None
) -> Workload:
    """A workload that a study in `folder` names: one that ships, a file, or code that the user named himself.

    Raises InputError where there is none, or the file names code that the user does not.
    """
    if is_own_program(name):
        return own_program(named_here(name, allow_code, "workload"), inputs, train)
    if inputs or train:
        raise InputError(f"workload {name!r}: input and train are of a torch program, FILE.py:FUNCTION")
    return workload_by_name(located(name, folder))


def located(name: str, folder: Path) -> str:
    """The path of a file that a study in `folder` names; another name stays.

    Examples
    --------
    >>> located("pagerank:web.mtx.gz", Path("mine")), located("gpt2", Path("mine"))
    ('pagerank:mine/web.mtx.gz', 'gpt2')
    """
    before, path = _parts(name)
    return f"{before}{folder / path}" if path else name


def relative(name: str, folder: Path, to: Path) -> str:
    """A file that a study in `folder` names, as one in the folder `to` has to; another name stays."""
    before, path = _parts(name)
    return f"{before}{os.path.relpath((folder / path).resolve(), to)}" if path else name


def known_from(name: str | None, folder: Path) -> str | None:
    """What was measured as a study in `folder` says it: a file from there, or words as they are; None without."""
    if name is None:
        return None
    words = "=" in name or known_time(name) is not None
    return name if words and not (folder / name).exists() else str(folder / name)


def known_in(name: str | None, folder: Path, to: Path) -> dict[str, str]:
    """The line that says what was measured, of a study in `folder`, where it is written to the folder `to`."""
    if name is None:
        return {}
    return {"measured": os.path.relpath((folder / name).resolve(), to) if (folder / name).exists() else name}


def _parts(name: str) -> tuple[str, str]:
    """What stands before a file, and the file; no file where the name is none: code is found from where it is run."""
    before = next((word for word in BEFORE if name.startswith(word)), "")
    path = name.removeprefix(before)
    is_file = path.removesuffix(".gz").endswith(FILES) or ("/" in path and not path.startswith("imported/"))
    return before, path if is_file and not is_own_program(name) else ""


def toml_text(document: Mapping[str, Any]) -> str:
    """Plain data as TOML: values first, then tables."""
    return "\n".join(_toml_lines(document, ())) + "\n"


def _toml_lines(table: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[str]:
    for name, value in table.items():
        if not isinstance(value, Mapping):
            yield f"{_toml_key(name)} = {_toml_value(value)}"
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield ""
            yield f"[{'.'.join(_toml_key(word) for word in (*place, name))}]"
            yield from _toml_lines(value, (*place, name))


def _toml_key(name: str) -> str:
    plain = name.replace("_", "").replace("-", "")
    return name if plain.isascii() and plain.isalnum() else json.dumps(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(entry) for entry in value) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


SCHEMA = "slipstick-study-1"
Made = TypeVar("Made")


class Study(Record):
    """Every point of a space, for every workload on every machine, evaluated by one estimator.

    Parameters
    ----------
    dtype
        The data type of every workload (bfloat16, ...), or several, each a case; as it is written down if left out.
    quantity
        Of answers with several ("ttft"); measurements that are fitted are of it.
    input, train
        Of workloads FILE.py:FUNCTION, as the options of these names.
    attention
        "flash" where it is in one kernel.
    set
        What stays ("run.threads" = 240).
    vary
        Axes: lists of values, or texts ``low..high``, ``low..high:n``, ``low..high:nlog``.
    where
        Conditions between formulas of the names that vary.
    measured
        A time of the first workload on the first machine in the first data type, or what else `read_calibration` takes.
    chunk
        Points answered and stored together; by the kind of estimator if left out.
    objectives
        What the report looks for the Pareto front of: time, energy, cost, or NAME=FORMULA of columns; if left out,
        time and what is known of energy and cost.
    """

    schema_: Literal["slipstick-study-1"] = Field(alias="schema")
    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]*$")
    description: str = ""
    workloads: tuple[str, ...] = Field(min_length=1, max_length=1000)
    machines: tuple[str, ...] = Field(min_length=1, max_length=1000)
    estimator: str | None = None
    dtype: str | tuple[str, ...] | None = None
    quantity: str | None = None
    input: tuple[str, ...] = ()
    train: str | None = None
    attention: str | None = None
    level: float = Field(default=DEFAULT_LEVEL, gt=0, lt=1)
    bands: Literal["auto", "always", "never"] = "auto"
    set: FrozenDict[Value] = FrozenDict()
    vary: FrozenDict[Values] = FrozenDict()
    sample: Sample | None = None
    where: tuple[str, ...] = ()
    fit: Fitting | None = None
    calibration_file: str | None = Field(default=None, alias="calibration")
    measured: str | None = None
    chunk: int | None = Field(default=None, ge=1, le=10_000_000)
    objectives: tuple[str, ...] = Field(default=(), max_length=20)

    _folder: Path = PrivateAttr(default=Path())
    _file: str = PrivateAttr(default="")
    _trusted: frozenset[str] = PrivateAttr(default=frozenset())
    _graphs: dict[str, Workload] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _something_varies(self) -> Self:
        if not self.vary and self.sample is None and self.fit is None:
            raise ValueError("nothing varies and nothing is fitted: give [vary], [sample] or [fit]")
        return self

    @field_validator("workloads", "machines")
    @classmethod
    def _named_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
        if twice is not None:
            raise ValueError(f"{twice[:60]!r} stands twice: its rows would be the same")
        return names

    @field_validator("vary")
    @classmethod
    def _axes_have_values(cls, vary: FrozenDict[Values]) -> FrozenDict[Values]:
        for name, values in vary.items():
            if not values:
                raise ValueError(f"axis {name} has no values")
        return vary

    @field_validator("objectives")
    @classmethod
    def _objectives_can_be_read(cls, objectives: tuple[str, ...]) -> tuple[str, ...]:
        for word in objectives:
            name, equals, formula = word.partition("=")
            if not name.strip():
                raise ValueError(f"objective {word[:60]!r}: want time, energy, cost, a column or NAME=FORMULA")
            if equals and not is_own(formula):  # which columns there are is known with the results only
                parse_expression(formula, None, f"objective {name.strip()[:60]}")
        return objectives

    @classmethod
    def of_question(
        cls,
        workload: str,
        machine: str,
        estimator: str | None,
        set_: Sequence[str],
        vary: Sequence[str],
        where: Sequence[str] = (),
        objectives: Sequence[str] = (),
        dtype: str | None = None,
        graph: Workload | None = None,
        input_: Sequence[str] = (),
        train: str | None = None,
        attention: str | None = None,
    ) -> Study:
        """A study from the texts of the command line.

        Parameters
        ----------
        graph
            The workload where it was made already: that of the user's own program.
        """
        made: Study = validated(
            cls,
            {
                "schema": SCHEMA,
                "name": f"{short_name(workload)} on {short_name(machine)}",
                "workloads": [workload],
                "machines": [machine],
                "estimator": estimator,
                "dtype": dtype,
                "set": dict(name_and_value(text) for text in set_),
                "vary": dict(name_and_value(text) for text in vary),
                "where": list(where),
                "objectives": list(objectives),
                "input": list(input_),
                "train": train,
                "attention": attention,
            },
            "what-if",
        )
        code = [word.partition("=")[2].strip() for word in objectives if isinstance(word, TrustedName)]
        typed = (name for name in (estimator, workload) if isinstance(name, TrustedName))
        made._trusted = frozenset((*typed, *filter(is_own, code)))
        made._graphs = {} if graph is None else {str(workload): graph}
        return made

    def wanted(self, words: Sequence[str] = ()) -> list[Objective]:
        """Objectives, of the study where none are given, with the functions of those that are code.

        Raises
        ------
        InputError
            Where one is code that the user did not name himself.
        """
        return [objective_of(word, self._trusted) for word in words or self.objectives]

    def query_of(self, row: Mapping[str, Any]) -> Question:
        """The question of a row of the results; its case's, of the first where the row names none."""
        first = {"workload": self.workloads[0], "machine": self.machines[0], "dtype": self.dtypes[0]}
        return self.question(*(row.get(name, value) for name, value in first.items()))

    @property
    def dtypes(self) -> tuple[str | None, ...]:
        """Data types, each a case of every workload on every machine; None: as workloads are written down."""
        return (self.dtype,) if self.dtype is None or isinstance(self.dtype, str) else self.dtype or (None,)

    def cases(self) -> Iterator[tuple[str, str, str | None]]:
        """Every workload on every machine in every data type."""
        yield from product(self.workloads, self.machines, self.dtypes)

    def workload(self, name: str | Workload) -> Workload:
        """A workload that the study names, found from its folder and built once.

        Raises
        ------
        InputError
            Where it is unknown, or code that the user did not name himself.
        """
        if isinstance(name, Workload):
            return name
        if name not in self._graphs:
            make = partial(study_workload, name, self._folder, self._trusted, self.input, self.train)
            self._graphs[name] = self._located(make)
        made = self._graphs[name]
        return made if self.attention is None else in_one_kernel(made, self.attention)

    def question(self, workload: str | Workload, machine: str, dtype: str | None = None) -> Question:
        """What stays, for one case, evaluated by the estimator, calibrated where the study says so.

        Raises
        ------
        InputError
            Where a name or value cannot be used.
        """
        if self.fit is not None:
            if self.calibration_file:
                raise InputError(f"study {self.name!r}: give calibration = FILE or [fit], not both")
            query = self.fitted_question(workload, machine, dtype)
            made = self.calibration(query)
            answers = self._estimator() or estimator_to_fit(query.workload)
            why = f"{answers}; {', '.join(made.names)} fitted to {made.source}"
            return replace(query, estimator=made, why=why, calibration=made)
        if isinstance(workload, str) and is_job(workload):
            self._refuse_unread_by(workload, dtype or self.dtypes[0])
            job = self._job(workload, machine)
            return question(job.workload, self._path(machine), job, self.set)
        case = self.workload(workload), self._path(machine), dtype or self.dtypes[0]
        first = self.workload(self.workloads[0]), self._path(self.machines[0]), self.dtypes[0]
        today = self._asked(*first if self.measured else case, None)
        if case == first or not self.measured:
            return today
        if case[0] != first[0] and _is_of_workload(today.calibration):
            raise InputError(f"study {self.name!r}: measured = {self.measured!r} is a time of {first[0].name} alone")
        return self._asked(*case, today.calibration)  # the first case was measured: others are its ratio

    def _asked(
        self, workload: Workload, machine: str, dtype: str | None, known: Fitted | DeviceCalibration | None
    ) -> Question:
        """A case; `known`: of measurements that were read already."""
        fitted = known or self._read_calibration(machine)
        return question(workload, machine, self._estimator(), self.set, dtype, (), fitted, (), self.quantity)

    def _refuse_unread_by(self, job: str, dtype: str | None) -> None:
        """Raise InputError where the study sets what a job in it does not read: none of it is dropped in silence."""
        fields: dict[str, object] = {"dtype": dtype, "quantity": self.quantity, "measured": self.measured}
        fields |= {"calibration": self.calibration_file, "input": self.input, "train": self.train}
        fields["attention"] = self.attention
        unread = [name for name, given in fields.items() if given]
        unread += [f"set.{name}" for name in self.set if not name.startswith(("job.", "estimator."))]
        if unread:
            raise InputError(
                f"study {self.name!r}: {unread[0]}: {job} is a job, which reads job.NAME and estimator alone"
            )

    def _job(self, name: str, machine: str) -> JobEstimator:
        """A job that the study names, whose stages that name no machine run on the case's."""
        query = job_question(self._path(name), None, self._estimator(), allow_code=tuple(self._trusted))
        open_stages = [stage for stage in query.file.stages if stage.workload and stage.machine is None]
        job, notes = replace(query, machine=self._path(machine) if open_stages else None).job()
        return JobEstimator(job, query.file.runs or runs_of(job), notes)

    def _read_calibration(self, machine: str) -> Fitted | DeviceCalibration | None:
        if not self.calibration_file and not self.measured:
            return None
        from slipstick.experiments.calibrate.calibrated import read_calibration

        file, known = known_from(self.calibration_file, self._folder), known_from(self.measured, self._folder)
        return read_calibration(file, known, machine, self._trusted)

    def _estimator(self) -> str | None:
        """The estimator's name; one of code only where the user named the same."""
        return self._located(lambda: self.estimator and named_here(self.estimator, self._trusted, "estimator"))

    def fitted_question(self, workload: str | Workload, machine: str, dtype: str | None = None) -> Question:
        """The question whose estimator's parameters are to be fitted: a model as it is, no calibration that ships."""
        model = self.workload(workload)
        estimator = self._estimator() or estimator_to_fit(model)
        target, dtype = self._path(machine), dtype or self.dtypes[0]
        return question(model, target, estimator, self.set, dtype, quantity=self.quantity)

    def calibration(self, question: Question) -> Calibration:
        """The estimator fitted to the study's measurements.

        Raises
        ------
        InputError
            Where the study has no [fit].
        """
        if self.fit is None:
            raise InputError(f"study {self.name!r}: no [fit]: nothing to calibrate")
        inner = question.estimator.model
        names = [name.removeprefix("estimator.") for name in self.fit.parameters]
        source = self.fit.source or Path(self.fit.measured).name
        measured = self.measurements()
        source = f"{source} ({len(measured)} measurements)"
        return calibrate(inner, measured, names, source, self.fit.loss, self.fit.starts)

    def measurements(self) -> tuple[Measurement, ...]:
        """The measurements that are fitted; none where nothing is."""
        if self.fit is None:
            return ()
        symbols = {name: value for name, value in self.set.items() if name.startswith("workload.")}
        settings = {name: self.set[name] for name in self.set if not name.startswith(("workload.", "estimator."))}
        workload, machine = self.workload(self.fit.workload or self.workloads[0]), self.fit.machine or self.machines[0]
        estimator = self._estimator() or estimator_to_fit(workload)
        query = question(workload, self._path(machine), estimator, settings, self.dtypes[0])
        result = read_measurements(str(self._folder / self.fit.measured), query.workload, query.machine, self.quantity)
        # what a row says of the workload goes before what stays, which is for the question
        rest = {name.partition(".")[2]: number_of(name, value) for name, value in symbols.items()}
        return tuple(
            replace(one, workload=one.workload.bind_known(rest), run=FrozenDict({**query.run, **one.run}))
            for one in result
        )

    def spaces(self) -> list[Space]:
        """The points of a workload on each machine, in the order of `machines`: nothing is evaluated for it."""
        return [self.space(machine(self._path(name))) for name in self.machines]

    def notes(self, space: Space) -> tuple[str, ...]:
        """What the axes as written do not give: steps that fall on one whole number."""
        written = ((name, text, len(space.axes[name])) for name, text in self.vary.items() if isinstance(text, str))
        return tuple(filter(None, (merged_steps(*one) for one in written)))

    def space(self, machine: Machine) -> Space:
        """The points, with units read as the machine's fields have them."""
        axes = {}
        for name, values in self.vary.items():
            made = counts_values(name, values, machine) if isinstance(values, str) else values_of(name, values, machine)
            axes[name] = tuple(made.tolist())
        if (sample := self.sample) is None:
            return self._located(lambda: Space(FrozenDict(axes), where=self.where))
        ranges = {name: self._range(name, limits, machine) for name, limits in sample.ranges.items()}
        return self._located(
            lambda: Space(FrozenDict(axes), FrozenDict(ranges), sample.count, sample.method, sample.seed, self.where)
        )

    def _range(self, name: str, limits: SampledRange, machine: Machine) -> Range:
        low, high = quantity(name, str(limits.low), machine), quantity(name, str(limits.high), machine)
        kind = limits.kind or ("whole" if is_count(name, machine) else "real")
        return self._located(lambda: Range(low, high, limits.scale, kind), f"sample.ranges.{name}: ")

    def _located(self, make: Callable[[], Made], field: str = "") -> Made:
        """What `make` gives; where it refuses, the file and the field are named."""
        try:
            return make()
        except InputError as error:
            raise InputError(f"{self._file or f'study {self.name!r}'}: {field}{error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the TOML file; `load_study` reads it back. Paths are written relative to it."""
        folder = Path(path).resolve().parent
        content = self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
        listed = {key: [self._relative(one, folder) for one in content[key]] for key in ("workloads", "machines")}
        document = {"schema": SCHEMA, **content, **listed, **known_in(self.measured, self._folder, folder)}
        fit = document.get("fit", {})
        for part, keys in ((document, ("calibration",)), (fit, ("measured", "workload", "machine"))):
            part |= {key: self._relative(part[key], folder) for key in keys if key in part}
        write_text(path, toml_text(document))

    def _path(self, name: str) -> str:
        """A file of the study, found from the study's folder; a built-in name stays."""
        return located(name, self._folder)

    def _relative(self, name: str, folder: Path) -> str:
        return relative(name, self._folder, folder)


@checked
def load_study(path: str | os.PathLike[str], allow_code: Collection[str] = ()) -> Study:
    r"""A study from a TOML file.

    Parameters
    ----------
    allow_code
        Estimators MODULE:ATTRIBUTE that the file, or its calibration, may name: what the user named himself.

    Raises
    ------
    InputError
        Names the file, the field, the value and what is allowed.

    Examples
    --------
    >>> import slipstick as ss
    >>> import pathlib, tempfile
    >>> text = 'schema = "slipstick-study-1"\nname = "clocks"\nworkloads = ["gnmt"]\nmachines = ["v100-sxm"]\n'
    >>> text += 'estimator = "roofline"\n[vary]\n"machine.clock" = ["1 GHz", "1.5 GHz"]\n'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "clocks.toml")
    ...     _ = path.write_text(text)
    ...     store = ss.run_study(ss.load_study(path), f"{folder}/results")
    ...     len(store.frame())
    2
    """
    study = validated(Study, with_todays_keys(read_toml(path), path), str(path))
    study._folder, study._file, study._trusted = Path(path).parent, str(path), frozenset(allow_code)
    study._estimator()
    return study
