"""What machines count for one another, fitted: measured machines left out in turn and predicted by the others.

Each machine is predicted by all other devices, by those of other chips, of other generations and of other vendors, as
far as these differ. The weights are the numbers of a law whose rows are these left-out times (`SimilarityModel`), with
Student's t likelihood in log time; the rows of a class on what is new (a vendor, a generation, a chip) err alike, so
that each such group counts about as one. How errors grow with distance and how long their tails are is what the same
turns say under these weights. A machine's own fit does not depend on any of these numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.machine_family import MOST_WORDS, shared_words
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_model import (
    QUANTILE,
    Columns,
    FormulaLaw,
    Grouping,
    LawFit,
    LawRows,
    ParameterPrior,
)
from slipstick.estimators.fitting.formula_model import expected
from slipstick.estimators.fitting.prediction_bands import WORTH, stretch
from slipstick.estimators.fitting.scores import normal_spread
from slipstick.estimators.fitting.similarity_weights import DIFFERENCES, SimilarityWeights
from slipstick.estimators.gpu.kernels.kernel_classes import of_step
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, device_name
from slipstick.estimators.gpu.transfer.kernel_class import (
    MODEL,
    PREFIX,
    KernelClass,
    MachineFit,
    differences,
    kind_of,
    of_one_chip,
    pooled,
    times,
    unknown_part,
    weights,
)
from slipstick.estimators.gpu.transfer.operation_times import RowFormula, joined_times, thinned
from slipstick.estimators.gpu.transfer.pooling_constants import LARGEST, LEAST_NOISE, SHARE
from slipstick.estimators.gpu.transfer.transfer_bands import LeaveOneOutDevice, left
from slipstick.hwmodels.machine import Machine

ROWS, FORMS = 80, 6
"""Rows of a machine and class that judge, and of their forms (filters and strides of a convolution) the largest."""
STEP = 1e-3
"""Of a log number, for derivatives."""
WORDS = ("vendor", "generation", "chip")
PRIORS = (
    ParameterPrior("another vendor", "1", "weight of a machine", 1.0, 1.0, 1e-3, 1e3, "weight"),
    *(ParameterPrior(f"same {word}", "1", "times that", 4.0, 1.0, 1.0, 1e3, "weight") for word in WORDS),
    ParameterPrior("scatter", "1", "added to a median error", 0.1, 1.0, 1e-3, 1e1, "scatter"),
    ParameterPrior("other library", "1", "factor on the weight", 0.25, 1.0, 1e-3, 1.0, "other"),
    ParameterPrior("other memory", "1", "factor on the weight", 0.25, 1.0, 1e-3, 1.0, "other"),
)
"""Expected before any row: another vendor's machine counts as what is known without any, each word of the family four
times as much, what differs a quarter; each within a factor of e."""
WORD = float(np.sqrt(2)), 0.35
"""Errors grow by so much where a word less is shared: expected, and width of its logarithm."""
TYPICAL, DIFFER = (0.25, 0.5), 0.4
"""Error of a class (expected, width of its logarithm), and how far classes, and the machines of one, differ."""


@dataclass(frozen=True, eq=False)
class JudgingRows:
    """A machine's rows of a class, by which its prediction from other devices is judged.

    `others`: fits of the other devices.
    `formula`: times of the rows by a kernel's parameters.
    `logs`: of measured seconds, shape (rows,).
    `shaped`: what each of the others takes over its own fit at the nearest shapes, in log time, shape (rows,).
    """

    one: KernelClass
    fit: MachineFit
    machine: Machine
    others: tuple[MachineFit, ...]
    formula: RowFormula
    logs: FloatArray
    shaped: Mapping[str, FloatArray]

    @classmethod
    def of(cls, one: KernelClass, fit: MachineFit, machines: Mapping[str, Machine]) -> JudgingRows:
        """At most `ROWS` of the rows that resemble those to be predicted."""
        machine = machines[fit.machine]
        others = tuple(o for o in one.fits if device_name(machines[o.machine]) != device_name(machine))
        forms = thinned(sorted(one.sampled[fit.machine], key=len, reverse=True)[:FORMS], ROWS)
        shaped = {
            name: np.concatenate([one.residual(name, kind_of(form.op), form.place()) for form in forms])
            for name in (other.machine for other in others)
        }
        return cls(one, fit, machine, others, RowFormula.of(MODEL, forms), np.log(joined_times(forms)), shaped)

    def predicted(self, values: Sequence[Mapping[str, float]]) -> FloatArray:
        """Log seconds by several sets of parameters, shape (sets, rows)."""
        columns = {f"{PREFIX}{name}": np.array([[each[name]] for each in values]) for name in values[0]}
        return np.log(self.formula.evaluate(columns))

    def turns(self, known: Collection[str]) -> list[SimilarityStep]:
        """The machine predicted by others among the `known`, without relatives, then with closer and closer ones."""
        turns: list[SimilarityStep] = []
        for words in range(MOST_WORDS + 1):
            others = [o for o in self.others if o.machine in known and shared_words(o.family, self.fit.family) <= words]
            if len(others) > (len(turns[-1].others) if turns else 0):
                turns.append(SimilarityStep(self, tuple(others)))
        return turns

    def alone(self, known: Collection[str]) -> list[SimilarityStep]:
        """The machine predicted by each other chip alone."""
        chips: dict[str, list[MachineFit]] = {}
        for other in self.others:
            if other.machine in known:
                chips.setdefault(other.family, []).append(other)
        return [SimilarityStep(self, tuple(fits)) for fits in chips.values()]


@dataclass(frozen=True, eq=False)
class SimilarityStep:
    """A machine left out, and the others that predict it."""

    rows: JudgingRows
    others: tuple[MachineFit, ...]

    @property
    def closest(self) -> int:
        """Words of the family that the nearest of the others shares."""
        return max(shared_words(self.rows.fit.family, other.family) for other in self.others)

    @property
    def group(self) -> str:
        """Generation of the machine that is left out."""
        return generation_of(self.rows.fit.family)

    @property
    def new(self) -> str:
        """What the others do not know: a vendor, a generation, a chip or a machine."""
        return unknown_part(self.rows.fit, self.closest)

    @property
    def cluster(self) -> str:
        """The rows of a class on what is new err alike."""
        return f"{self.rows.one.name} {self.new}"

    def logs(self, weightings: Sequence[SimilarityWeights]) -> FloatArray:
        """Log seconds of the rows by the others, shape (weightings, rows)."""
        one, machine = self.rows.one, self.rows.machine
        return self.rows.predicted([pooled(self.others, machine, each, one.priors) for each in weightings])

    def shape_logs(self, similarity: SimilarityWeights) -> FloatArray:
        """What the others' rows add at the nearest shapes, shape (rows,), as much of it as is expected to repeat."""
        each = weights(self.others, similarity, self.rows.fit.family, self.rows.machine.runtime.library)
        parts = (w * self.rows.shaped[o.machine] for w, o in zip(each / each.sum(), self.others, strict=True))
        return np.asarray(SHARE * np.sum(list(parts), axis=0))


@dataclass(frozen=True, eq=False)
class SimilarityModel:
    """Times of machines left out as a function of what the others count for them."""

    turns: tuple[SimilarityStep, ...]
    name: str = "similarity"
    parameters: tuple[ParameterPrior, ...] = PRIORS
    levels: tuple[Grouping, ...] = ()

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of the rows of all turns; see `TimeLaw`."""
        similarity = weighed(parameters)
        return np.asarray(np.exp(np.concatenate([turn.logs([similarity])[0] for turn in self.turns])))

    def slopes(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """See `SlopedLaw`: all differences of a turn at once."""
        moved = [{**parameters, prior.name: parameters[prior.name] * np.exp(STEP)} for prior in PRIORS]
        weightings = [weighed(numbers) for numbers in (parameters, *moved)]
        logs = np.concatenate([turn.logs(weightings) for turn in self.turns], axis=1)
        return np.asarray((logs[1:] - logs[0]).T / STEP)

    @property
    def rows(self) -> LawRows:
        """What was measured."""
        each = [turn for turn in self.turns for _ in turn.rows.logs]
        seconds = np.exp(np.concatenate([turn.rows.logs for turn in self.turns]))
        at = {"row": np.arange(len(each), dtype=float)}
        return LawRows(at, {}, [turn.cluster for turn in each], seconds, [turn.rows.one.name for turn in each])


@dataclass(frozen=True, eq=False)
class SimilarityFit:
    """The fit of the law, and its numbers with those that follow from them."""

    law: LawFit
    similarity: SimilarityWeights


def weighed(numbers: Mapping[str, FloatArray]) -> SimilarityWeights:
    """The weights that numbers of `PRIORS` stand for."""
    plain = {name: float(np.ravel(value)[0]) for name, value in numbers.items()}
    counts = np.cumprod([plain["another vendor"], *(plain[f"same {word}"] for word in WORDS)])
    return SimilarityWeights(tuple(counts.tolist()), plain["scatter"], plain["other library"], plain["other memory"])


@dataclass(frozen=True, eq=False)
class Substitute:
    """A class on a machine by the parameters that another class has there, which differs from it in one thing.

    `added`: to the standard deviation of its log errors.
    """

    family: str
    difference: str
    added: float


def substitutes(whole: DeviceCalibration) -> list[Substitute]:
    """Of each class that a machine has rows of, each other that was fitted there and differs from it in one thing."""
    made = []
    pairs = [(one, other) for one in whole.classes for other in whole.classes if one is not other]
    for one, other in pairs:
        differ = differences(one.name, other.name)
        for mine in one.fits if differ is not None and len(differ) == 1 else ():
            here, forms = device_name(whole.machines[mine.machine]), one.sampled.get(mine.machine)
            known = [each for each in other.fits if device_name(whole.machines[each.machine]) == here]
            known = [each for each in known if each.library == mine.library] or known
            if forms and known and differ:
                logs, alike = np.log(joined_times(forms)), np.ones(sum(map(len, forms)))
                by = mine.values, {**mine.values, **known[0].values}
                left, errors = (normal_spread(logs - np.log(times(forms, values)), alike) for values in by)
                added = np.sqrt(max(errors**2 - left**2, LEAST_NOISE**2))
                made.append(Substitute(mine.family, differ[0], float(added)))
    return made


def _substitute_spread(made_by: Sequence[Substitute]) -> tuple[float, ...]:
    """What each of `DIFFERENCES` adds: its own as far as several generations say it, else what all add on the whole."""
    if not made_by:
        return (TYPICAL[0],) * len(DIFFERENCES)
    level = Grouping("difference", DIFFER)
    law = FormulaLaw(
        "substitutes of classes",
        (ParameterPrior("typical", "1", "added by a difference", *TYPICAL, 1e-3, 1e1, "typical", (level.name,)),),
        lambda numbers, columns: np.broadcast_to(numbers["typical"], len(columns["row"])),
        (level,),
    )
    differ = [one.difference for one in made_by]
    clusters = [f"{one.difference} {generation_of(one.family)}" for one in made_by]
    at = {"row": np.arange(len(differ), dtype=float)}
    made = fit(
        law,
        LawRows(at, {level.name: differ}, clusters, np.array([one.added for one in made_by]), [law.name] * len(differ)),
    )
    return tuple(made.values(law, {level.name: DIFFERENCES}, len(DIFFERENCES))["typical"].tolist())


def judging_rows(whole: DeviceCalibration) -> list[JudgingRows]:
    """Of every machine and class of single kernels that has rows: an operation of `OF_STEPS` is several."""
    pairs = ((one, fit) for one in whole.classes if not of_step(one.name) for fit in one.fits)
    return [JudgingRows.of(one, fit, whole.machines) for one, fit in pairs if one.sampled.get(fit.machine)]


def fitted_to(judges: Sequence[JudgingRows], without: str = "", made_by: Sequence[Substitute] = ()) -> SimilarityFit:
    """Weights that make left-out times most probable, and how their errors grow and scatter.

    `without`: a vendor or generation of which no machine judges or predicts.

    Raises ValueError where no machine can be left out.
    """
    kept = [rows for rows in judges if not _is_of(rows.fit.family, without)]
    spread = _substitute_spread([one for one in made_by if not _is_of(one.family, without)])
    known = {rows.fit.machine for rows in kept}
    turns = [turn for rows in kept for turn in rows.turns(known)]
    law = SimilarityModel(tuple(turns))
    made = fit(law, law.rows)
    first = weighed({c.parameter: np.exp([log]) for c, log in zip(made.coordinates, made.logs, strict=True)})
    off = [turn.logs([first])[0] - turn.rows.logs for turn in turns]
    shaped = [error + turn.shape_logs(first) for error, turn in zip(off, turns, strict=True)]
    grown = replace(first, errors=_growth(turns, off), shaped=_growth(turns, shaped))
    tails = _tails(turns, {(rows.one.name, rows.fit.machine): rows for rows in kept}, grown)
    alone = [turn for rows in kept for turn in rows.alone(known)]
    return SimilarityFit(
        made, _rounded(replace(grown, tails=tails, one_source=_one_source(alone, grown), substitute_spread=spread))
    )


def _is_of(family: str, group: str) -> bool:
    """Whether a machine is one of a vendor or generation."""
    return bool(group) and f"{family}-".startswith(f"{group}-")


def _rounded(similarity: SimilarityWeights) -> SimilarityWeights:
    """Numbers of four digits."""
    numbers = {name: np.ravel(value) for name, value in asdict(similarity).items()}
    short = {name: [float(f"{one:.4g}") for one in value] for name, value in numbers.items()}
    return SimilarityWeights.of({name: value if len(value) > 1 else value[0] for name, value in short.items()})


def _growth(turns: Sequence[SimilarityStep], errors: Sequence[FloatArray]) -> tuple[float, ...]:
    """How large errors are by the words that the closest relative shares, against two.

    A law of the root mean square error of each turn: typical of its class and machine, times a factor for each word
    that is not shared. All classes of what is new, such as a vendor, count as about one.
    """
    sizes = np.array([np.sqrt(np.mean(np.minimum(np.abs(each), LARGEST) ** 2)) for each in errors])
    levels = Grouping("class", DIFFER), Grouping("machine", DIFFER)
    names = tuple(level.name for level in levels)
    typical = ParameterPrior("typical", "1", "error of a class", *TYPICAL, 1e-3, 1e1, "typical", names)
    steps = [expected(f"without the {word}", *WORD) for word in WORDS]
    closest = np.array([turn.closest for turn in turns])

    def predicted(numbers: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        return np.asarray(numbers["typical"] * np.array(_grown(numbers))[columns["closest"].astype(int)])

    law = FormulaLaw("errors by relatives", (typical, *steps), predicted, levels)
    classes = [turn.rows.one.name for turn in turns]
    groups = {"class": classes, "machine": [f"{turn.rows.one.name} {turn.rows.fit.machine}" for turn in turns]}
    at = {"closest": closest.astype(float)}
    made = fit(law, LawRows(at, groups, [turn.new for turn in turns], sizes, [law.name] * len(turns)))
    values = {c.parameter: np.exp([log]) for c, log in zip(made.coordinates, made.logs, strict=True) if not c.level}
    for words, step in enumerate(steps):
        count = len({turn.new for turn in turns if turn.closest == words})
        values[step.name] = drawn(values[step.name], step.expected, count)
    return _grown(values)


def drawn(value: FloatArray, expected: float, groups: int) -> FloatArray:
    """A factor of which so many groups speak, drawn to the expected one, which counts as many as an unstretched band.

    Two vendors do not say how far a third one is.
    """
    return np.asarray(value ** (groups / (groups + WORTH)) * expected ** (WORTH / (groups + WORTH)))


def _grown(numbers: Mapping[str, FloatArray]) -> tuple[float, ...]:
    """Errors of none to three words shared, over those of two."""
    vendor, generations, chip = (float(np.ravel(numbers[f"without the {word}"])[0]) for word in WORDS)
    return vendor * generations, generations, 1.0, 1 / chip


def _one_source(alone: Sequence[SimilarityStep], similarity: SimilarityWeights) -> float:
    """Scatter of a machine by one chip alone, two words shared."""
    groups = [turn.cluster for turn in alone for _ in turn.rows.logs]
    errors = [(turn.logs([similarity])[0] - turn.rows.logs) / similarity.errors[turn.closest] for turn in alone]
    return _spread(np.concatenate(errors), groups)


def _spread(errors: FloatArray, groups: Sequence[str]) -> float:
    """Standard deviation of the normal law whose 80 % band holds 80 % of the errors, each group counting as one."""
    _, place, count = np.unique(groups, return_inverse=True, return_counts=True)
    return normal_spread(errors, 1 / count[place])


def _tails(
    turns: Sequence[SimilarityStep], judges: Mapping[tuple[str, str], JudgingRows], similarity: SimilarityWeights
) -> float:
    """The factor on the 80 % scatter of others' errors within whose band 80 % of a left-out machine's rows lie.

    Each machine's band is that of the others alone, by machines left out among them.
    """
    seconds, half, measured, groups = [], [], [], []
    for turn in turns:
        trials = [] if of_one_chip(turn.others, turn.closest) else _trials(turn, judges, similarity)
        if not trials:
            continue
        logs = turn.logs([similarity])[0]
        seconds.append(np.exp(logs))
        half.append(QUANTILE * left(trials, 0.0, 1.0).of(seconds[-1]))
        measured.append(np.exp(turn.rows.logs))
        groups += [turn.group] * len(logs)
    return stretch(np.concatenate(seconds), np.concatenate(half), np.concatenate(measured), groups) if groups else 1.0


def _trials(
    turn: SimilarityStep, judges: Mapping[tuple[str, str], JudgingRows], similarity: SimilarityWeights
) -> list[LeaveOneOutDevice]:
    """Machines left out among those that predict another, no closer relatives there than it has."""
    trials = []
    names = {other.machine for other in turn.others}
    for name in sorted(names):
        rows = judges.get((turn.rows.one.name, name))
        inner = rows.turns(names) if rows else []
        if inner:
            near = [one for one in inner if one.closest <= turn.closest]
            one = near[-1] if near else inner[-1]
            logs, scale = one.logs([similarity])[0], similarity.errors[turn.closest] / similarity.errors[one.closest]
            trials.append(LeaveOneOutDevice(logs, np.zeros(len(logs)), one.rows.logs, scale, one.new))
    return trials


def fitted_without_each(judges: Sequence[JudgingRows], made_by: Sequence[Substitute]) -> dict[str, SimilarityFit]:
    """Of all machines, under the name "", and without each generation and each vendor."""
    generations = {generation_of(rows.fit.family) for rows in judges}
    made: dict[tuple[bool, ...], SimilarityFit] = {}
    result = {}
    for group in ("", *sorted(generations | {name.partition("-")[0] for name in generations})):
        out = tuple(_is_of(rows.fit.family, group) for rows in judges)  # a vendor with one generation is that
        if out not in made:
            made[out] = fitted_to(judges, group, made_by)
        result[group] = made[out]
    return result
