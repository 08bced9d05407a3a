"""A question: a workload on a machine in one run, for an estimator; numbers and objects (`settings` parses text)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, Same
from slipstick.common.renamed_arguments import checked
from slipstick.common.trusted_code import is_own
from slipstick.estimators.base.conditions import Condition, conditions_of
from slipstick.estimators.base.estimate import Estimate, RunParameters
from slipstick.estimators.base.estimator_base import check_run_names
from slipstick.estimators.base.protocols import Estimator, Fitted
from slipstick.estimators.base.schedule_model import check_run_number
from slipstick.estimators.base.shipped_estimator import ShippedEstimator
from slipstick.estimators.simulation.job_estimator import JobEstimator
from slipstick.estimators.symbolic.formula import parameters
from slipstick.experiments.question import registry
from slipstick.experiments.question.axes import Values, axes_of
from slipstick.experiments.question.defaults import Asked, as_executed, default, kept_open
from slipstick.experiments.question.precision import TENSOR_FLOAT, in_type, type_settings
from slipstick.experiments.question.settings import (
    Value,
    by_namespace,
    number_of,
    run_number,
    server_numbers,
    today_and_varied,
    with_numbers,
)
from slipstick.experiments.question.space import Space
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import work_named
from slipstick.workloads.catalog import workload as workload_by_name
from slipstick.workloads.graph.cost import check_size
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WorkTimed, workload_kind
from slipstick.workloads.runs.feed import run_of
from slipstick.workloads.transforms.attention import in_one_kernel
from slipstick.workloads.transforms.narrow import number_type

if TYPE_CHECKING:
    import networkx as nx

    from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration


@dataclass(frozen=True)
class Original:
    """A question before its answer was chosen: the same may be put at other sizes, or without what it sets."""

    workload: Workload
    machine: str | Machine
    settings: FrozenDict[Value]
    dtype: str | None
    estimator: str | ShippedEstimator | Estimator | None = None
    calibration: Fitted | None = None
    quantity: str | None = None
    attention: tuple[Condition, ...] = ()

    @property
    def given(self) -> dict[str, Value]:
        """What the question sets, by its dotted name; the data type as the option."""
        return {**self.settings, **({} if self.dtype is None else {"dtype": self.dtype})}

    def put(self, given: Mapping[str, Value]) -> Question:
        """The question with these set, and nothing else.

        Raises InputError where it is refused so.
        """
        settings = {name: value for name, value in given.items() if name != "dtype"}
        dtype = str(given["dtype"]) if "dtype" in given else None
        query = question(
            self.workload, self.machine, self.estimator, settings, dtype, calibration=self.calibration,
            quantity=self.quantity,
        )  # fmt: skip
        return query.with_attention(self.attention) if self.attention else query


@dataclass(frozen=True)
class Question:
    """A workload on a machine in one run, evaluated by an estimator.

    Parameters
    ----------
    run
        Numbers of the run (threads, images, epochs, ...); they also bind the workload's symbols of their name.
    why
        One line: what answers, where nobody named an estimator.
    reason
        The same, with why the table of routes chose it.
    sizes
        The sizes of the workload that were set (batch, seq_len, ...); they are in its operations already.
    vary
        What varies: axes of numbers in SI units, ranges to draw from, conditions; empty for one point.
    dtype
        The data type that was set ("bfloat16"); it is in the operations already. "" where none was.
    calibration
        What was fitted to measurements and answers; it is in the estimator already. None where none was given.
    original
        The question as it was put.
    conditions
        What the default answer takes that the question may set, and what makes its band wider.
    query
        What the default answers, before its law chose types and runtime; None where another answers.
    """

    workload: Workload
    machine: Machine
    estimator: Estimator
    run: RunParameters = RunParameters()
    why: str = ""
    sizes: RunParameters = RunParameters()
    vary: Space = Space()
    dtype: str = ""
    calibration: Fitted | None = None
    original: Original | None = None
    conditions: tuple[Condition, ...] = ()
    reason: str = ""
    query: Asked | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        kind = type(self.estimator).__name__
        return f"Question({self.workload!r}, {self.machine!r}, {kind}, run={dict(self.run)!r})"

    @property
    def by_default(self) -> bool:
        """Whether the default answers: its band depends on the sizes (`at`)."""
        put = self.original
        return put is not None and put.estimator is None and put.calibration is None and put.quantity is None

    def at(self, sizes: Mapping[str, float]) -> Question:
        """The same question at other sizes, ``{"workload.batch": 64}``, answered as if it were asked there."""
        if self.original is None or not self.by_default:
            return self
        return self.original.put({**self.original.given, **sizes})

    def with_attention(self, conditions: tuple[Condition, ...]) -> Question:
        """The same with what was said of attention, which is in the workload already."""
        original = self.original and replace(self.original, attention=conditions)
        return replace(self, conditions=(*self.conditions, *conditions), original=original)

    def answer(self) -> Estimate:
        """The estimate; the same question is answered once."""
        return self._answer

    def work(self, point: Mapping[str, float] | None = None) -> WorkTimed:
        """What its time is for, as the estimator says; at other sizes and numbers of the run where some are given."""
        return self.estimator.model.work(self.workload, self.machine, {**self.sizes, **self.run, **(point or {})})

    @cached_property
    def _answer(self) -> Estimate:
        made = self.estimator.estimate(self.workload, self.machine, self.run)
        chosen = (
            type_settings(self.workload, self.machine, made)
            if self.by_default and made.sides and self.dtype != TENSOR_FLOAT
            else []
        )
        work = ", ".join([self.work().text(self.machine.runtime.mode, made.devices), *chosen])
        made = replace(made, work=work, conditions=self._conditions(made))
        if self.calibration is None or made.provenance != "estimated":
            return made
        return replace(made, provenance="calibrated")

    def _conditions(self, made: Estimate) -> tuple[Condition, ...]:
        """What the time depends on beside sizes and peaks, and who said it."""
        put = self.original
        base = self.machine.stated if put is None or isinstance(put.machine, str) else put.machine
        given = {f"run.{name}": value for name, value in self.run.items()} if put is None else put.given
        issued = self.work().issued
        known = (*self.conditions, *made.conditions)
        measured = self.calibration is not None and _of_a_table(self.calibration)
        return conditions_of(self.workload, base, self.machine, given, known, issued=issued, measured=measured)


def _of_a_table(fitted: Fitted) -> bool:
    """Whether steps, runs or tokens that were measured answer: a time of the question says itself on which machine."""
    from slipstick.estimators.training.training_estimator import MeasuredTraining
    from slipstick.estimators.user_measured.measured_serving import MeasuredRuns, MeasuredSteps, MeasuredTokens

    return isinstance(fitted, MeasuredTraining | MeasuredRuns | MeasuredSteps | MeasuredTokens)


@checked
def question(
    workload: str | Workload | nx.DiGraph[Any],
    machine: str | Machine,
    estimator: str | ShippedEstimator | Estimator | None = None,
    settings: Mapping[str, Value] | Sequence[str] = (),
    dtype: str | None = None,
    vary: Mapping[str, Values] | Sequence[str] = (),
    calibration: Fitted | DeviceCalibration | None = None,
    where: Sequence[str] = (),
    quantity: str | None = None,
    work: str | None = None,
    attention: str | None = None,
    **numbers: Value,
) -> Question:
    """A question from names or objects, changed numbers, a data type, what varies and what was fitted.

    Parameters
    ----------
    estimator
        A name, a record of your own, an object, or None for the best answer that is known (`defaults.default`).
    settings
        Dotted name -> number (SI) or text with a unit, in the namespaces machine, workload, run and estimator:
        ``{"run.threads": 240, "machine.clock": "1.5 GHz"}``; or texts ``"run.threads=240"``.
    dtype
        The data type to compute in ("bfloat16").
    vary
        Name -> values, shape (values,): numbers in SI units or texts with units; or texts ``name=values``.
    calibration
        Answers instead of `estimator` (`Calibration`, `DeviceCalibration`, `read_calibration`).
    where
        Conditions between formulas of the names that vary ("machine.clock*machine.cores <= 2e11").
    quantity
        What is wanted ("ttft"), one of `Estimate.quantities`; None for the one that the estimator names.
    work
        "train", "forward", "prefill" or "decode", where the workload is a model's name.
    attention
        "flash", in one kernel, or "parts", as the graph has it.
    numbers
        Sizes and numbers of the run by their words, as options of the command line: ``batch=8``, ``threads=240``.

    Raises
    ------
    InputError
        Where a name is unknown or a value cannot be used.

    Examples
    --------
    >>> import slipstick as ss
    >>> ss.question("gpt2", "H100", settings={"machine.clock": "1.2 GHz"}, dtype="bf16").machine.clock
    1200000000.0
    """
    if work is not None:
        workload = work_named(workload, work)
    graph = workload if isinstance(workload, Workload) else workload_by_name(workload)
    if attention is not None:
        return _with_attention(
            graph, attention, machine, estimator=estimator, settings=settings, dtype=dtype, vary=vary,
            calibration=calibration, where=where, quantity=quantity, **numbers,
        )  # fmt: skip
    base = machine_by_name(machine) if isinstance(machine, str) else machine
    settings, vary = today_and_varied(with_numbers(question, settings, numbers, graph), vary)
    if workload_kind(graph) == "requests":
        settings, vary = server_numbers(settings), server_numbers(vary)
    values = by_namespace(settings)
    plain = not (vary or where or quantity or calibration is not None)
    if not plain or not (estimator is None or isinstance(estimator, str)) or is_own(estimator):
        return _about(_resolved(graph, base, estimator, values, dtype, vary, calibration, where), quantity)
    settled = FrozenDict({space: FrozenDict(each) for space, each in values.items()})
    kept = _kept(Same(graph), base, estimator, settled, dtype)
    if not kept:
        kept.append(_resolved(graph, base, estimator, values, dtype))
    return kept[0]


def _with_attention(graph: Workload, attention: str, machine: str | Machine, **more: Any) -> Question:
    """The question with attention computed so, which is one of its conditions."""
    made = in_one_kernel(graph, attention)
    known = Condition("attention", attention, "given", "as its graph has it" if made is graph else "")
    return question(made, machine, **more).with_attention((known,))


def _about(query: Question, quantity: str | None) -> Question:
    """The question about one quantity of its answer."""
    if not quantity:
        return query
    original = None if query.original is None else replace(query.original, quantity=quantity)
    return replace(query, estimator=query.estimator.about(quantity), original=original)


@lru_cache(maxsize=8)
def _kept(
    workload: Same[Workload],
    machine: Machine,
    estimator: str | None,
    values: FrozenDict[FrozenDict[Value]],
    dtype: str | None,
) -> list[Question]:
    """The place for a question to an estimator that ships: the same one is often asked again."""
    return []


def _resolved(
    workload: Workload,
    base: Machine,
    estimator: str | ShippedEstimator | Estimator | None,
    values: Mapping[str, Mapping[str, Value]],
    dtype: str | None = None,
    vary: Mapping[str, Values] | Sequence[str] = (),
    calibration: Fitted | DeviceCalibration | None = None,
    where: Sequence[str] = (),
) -> Question:
    """See `question`; `values` by namespace."""
    wanted_type, wanted = dtype, estimator
    settled = values
    library, dtype = _for_one_user(workload, base, values, dtype, vary)
    if library:
        values = {**values, "machine": {**values["machine"], "runtime.library": library}}
    graph, stored = _stored(workload, dtype)
    dtype = number_type(dtype) if dtype is not None and not stored else None
    target = as_executed(graph, base.using(values["machine"]) if values["machine"] else base, values["machine"])
    run = {name: run_number(graph, name, value) for name, value in values["run"].items()}
    for name, value in run.items():
        if name in graph.symbols:
            check_size(name, value, graph.defaults, "run")
        else:
            check_run_number(name, value)
    why, reason, sizes, conditions = "", "", values["workload"], tuple[Condition, ...]()
    query = None
    if estimator is None:
        open_ = kept_open(graph, target, run)
        bound = with_sizes(graph, _without(sizes, open_))
        best = default(bound, target, run, dtype, values["machine"])
        graph, target, chosen, why = best.workload, best.machine, best.estimator, best.why
        reason, conditions, query = best.reason, best.conditions, best.query
    else:
        graph = in_type(graph, target, dtype)
        chosen = registry.estimator_of(estimator, graph, target)
        open_ = chosen.keeps_open & graph.symbols
        graph = with_sizes(graph, _without(sizes, open_))
    for name in open_ & set(sizes):
        run[name] = _size(name, sizes[name])
        check_size(name, run[name], graph.defaults)
    _check_threads(chosen, graph, target, run)
    check_run_names(chosen, graph, target, run)
    if given := run_of(graph):  # the workload is a run, whose numbers hold where none are given
        known = chosen.run_names(graph, target)
        run = {**{name: value for name, value in given.items() if name in known}, **run}
    if calibration is not None:
        from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
        from slipstick.estimators.user_measured.measured_operations import MeasuredOperations

        if isinstance(calibration, DeviceCalibration):  # what answers is its kernels on a host
            calibration = MeasuredOperations(calibration)
        stands = {name: value for name, value in values["machine"].items() if name.startswith("runtime.")}
        under = {**values, "machine": stands}  # what was measured ran under this software, on the machine as it is
        calibration = _over_sizes(calibration, chosen, workload, base, estimator, under, wanted_type, run)
        ran = {f"runtime.{name}": getattr(target.runtime, name) for name in ("library", "mode")}
        chosen = calibration.for_question(graph, base.using({**stands, **ran}), run, chosen)
        why, reason, conditions = "", "", ()  # those are the default answer's; a calibration says its own
    if values["job"] and not isinstance(chosen, JobEstimator):
        raise InputError(f"job.{next(iter(values['job']))}: {graph.name} is no job; jobs are files of stages (.yaml)")
    if given_parameters := {**values["estimator"], **values["job"]}:
        chosen = set_parameters(chosen, parameter_values(chosen, given_parameters))
    if calibration is not None:
        from slipstick.estimators.user_measured.measured_time import as_put

        calibration = as_put(calibration, chosen)
    numbers = {name: number_of(f"workload.{name}", value) for name, value in sizes.items()}
    space = Space(FrozenDict(axes_of(vary, target)), where=tuple(where)) if vary else Space()
    named = {f"{name}.{key}": value for name, inner in settled.items() for key, value in inner.items()}
    original = Original(workload, base, FrozenDict(named), wanted_type, wanted, calibration)
    made = Question(
        graph,
        target,
        chosen,
        RunParameters(run),
        why,
        RunParameters(numbers),
        space,
        dtype or stored,
        calibration,
    )
    return replace(made, original=original, conditions=conditions, reason=reason, query=query)


def _over_sizes(
    measured: Fitted,
    chosen: Estimator,
    workload: Workload,
    base: Machine,
    estimator: str | ShippedEstimator | Estimator | None,
    values: Mapping[str, Mapping[str, Value]],
    dtype: str | None,
    run: Mapping[str, float],
) -> Fitted:
    """Times with what stood beside them: those over sizes as questions, each on the machine as it stands."""
    from slipstick.estimators.user_measured.measured_time import AnsweredRow, MatchedToTime, MeasuredTime

    here = {name: number_of(f"workload.{name}", value) for name, value in values["workload"].items()}
    here = {**workload.defaults, **here, **run}
    if isinstance(measured, MatchedToTime):
        return measured.at_sizes(here)
    if not isinstance(measured, MeasuredTime) or not measured.rows:
        return measured
    sizes, kind = workload.symbols | workload.defaults.keys(), workload_kind(workload)
    numbers = chosen.run_names(workload, base)
    names = {name for row in measured.rows for name in row.numbers}
    known = {name: name for name in names if name.partition(".")[0] in values}
    known |= {name: f"workload.{name}" for name in names & sizes}
    known |= {name: f"run.{name}" for name in names - sizes if name in numbers}

    def answer(row: Mapping[str, float]) -> AnsweredRow:
        at = {space: {**each} for space, each in values.items()}
        for name, value in row.items():
            space, _, short = name.partition(".")
            for other in ("run", "workload"):
                at[other].pop(short, None)
            at[space][short] = value
        query = _resolved(workload, base, estimator, at, dtype)
        short_named = {name if name.startswith("machine.") else name.partition(".")[2]: v for name, v in row.items()}
        return AnsweredRow(short_named, query.workload, query.machine, query.run, query.estimator)

    sized = {name for name, dotted in known.items() if kind == "requests" or dotted.startswith("machine.")}
    return measured.over_sizes(known, sized, here, answer)


def _for_one_user(
    workload: Workload,
    base: Machine,
    values: Mapping[str, Mapping[str, Value]],
    dtype: str | None,
    vary: Mapping[str, Values] | Sequence[str],
) -> tuple[str, str | None]:
    """The program on the machine of one user and how it stores weights; "" and `dtype` for all other questions."""
    if workload_kind(workload) != "requests":
        return "", dtype
    from slipstick.experiments.question.one_user import for_one_user
    from slipstick.workloads.language.language_requests import Requests

    if not isinstance(workload, Requests) or workload.given:
        return "", dtype
    names = [*values["run"], *(text.partition("=")[0].removeprefix("run.") for text in vary)]
    machine = base.using(values["machine"]) if values["machine"] else base
    return for_one_user(workload.model, machine, dtype, names)


def _stored(graph: Workload, dtype: str | None) -> tuple[Workload, str]:
    """A step or requests with weights stored in a type, and that type's name; any other graph as it is, and "".

    Training multiplies in the type, and stores its weights in bfloat16.
    """
    if dtype is not None and workload_kind(graph) == "training":
        from slipstick.workloads.language.language_training import Training

        trained = graph.trained_in(dtype) if isinstance(graph, Training) else graph
        return trained, str(trained.metadata["training"])
    if dtype is not None and workload_kind(graph) == "requests":
        from slipstick.workloads.language.language_requests import Requests

        requests = graph.stored_in(dtype) if isinstance(graph, Requests) else graph
        return requests, str(requests.metadata["weights"])
    if dtype is None or "weights" not in graph.metadata:
        return graph, ""
    from slipstick.workloads.language.language_step import in_stored_type

    made = in_stored_type(graph, dtype)
    return (graph, "") if made is None else (made, str(made.metadata["weights"]))


def _check_threads(estimator: Estimator, workload: Workload, machine: Machine, run: Mapping[str, float]) -> None:
    """Sparse products of a matrix of the user's own have threads; those of a workload run on one core."""
    if "threads" not in run or workload_kind(workload) != "sparse product":
        return
    if "threads" not in estimator.run_names(workload, machine):
        raise InputError(
            f"run.threads = {run['threads']:g}: this estimator computes a sparse product on one core; several threads "
            f"on your matrix: slipstick spmv predict FILE.mtx --threads {run['threads']:g} --on MACHINE"
        )


def with_sizes(workload: Workload, sizes: Mapping[str, Value]) -> Workload:
    """The workload with symbols given values, numbers or texts such as ``{"batch": "64"}``.

    Raises InputError where a name is no symbol of the workload or a value is no number above 0.
    """
    if "dtype" in sizes:
        raise InputError("workload.dtype is no size: give --dtype NAME, in a study file dtype = 'NAME'")
    bound = workload.bind(**{name: _size(name, value) for name, value in sizes.items()})
    if "devices" in sizes and all(op.kind == "collective" for op in bound):
        count = _size("devices", sizes["devices"])
        if count < 2:
            raise InputError(f"workload.devices = {count:g}: a collective of one device moves nothing: want >= 2")
    return bound


def _without(sizes: Mapping[str, Value], names: frozenset[str]) -> dict[str, Value]:
    return {name: value for name, value in sizes.items() if name not in names}


def _size(name: str, value: Value) -> float:
    return number_of(f"workload.{name}", value)


def set_parameters(estimator: Estimator, values: Mapping[str, float]) -> Estimator:
    """The estimator with some parameters given; those of a calibration then count as known.

    Raises InputError where a name is unknown.
    """
    for name in values:
        if name not in estimator.parameters:
            raise unknown_name("estimator parameter", name, sorted(estimator.parameters))
    return estimator.with_parameters(values)


def parameter_values(estimator: Estimator, values: Mapping[str, Value]) -> dict[str, float]:
    """Values of an estimator's parameters, each a number in its unit or a text with a unit that converts to it."""
    known = parameters(estimator.model)
    return {
        name: number_of(f"estimator.{name}", value, known[name][1].unit if name in known else "1")
        for name, value in values.items()
    }
