"""Scoreboard: whole-model latency composed from the DLBricks authors' layer sequences, on machines left out.

Whole networks on a machine left out: its sequences composed, and what other machines say of the rest.

Scoreboard rows: whole models composed from the project's own measured bricks, each model left out.

What a framework adds to bricks by three sources (`slipstick validate --refit bricks`), each left out in turn: the
authors' four instances (MXNet, sequences timed warm), our 35 networks of the model collections on a Xeon and 13 small
networks on an EPYC (torch, cold and warm, each twice).

Sequences of layers that others timed, several granularities of each network: their sum, and what went wrong in it.

A network is timed as sequences of G layers, for several G. Their sum differs from the network's time in three ways.
A timed sequence costs something of its own (`call_seconds`): 65 us on eight threads of a Haswell, less than nothing
where it finds its data in cache. This shows on the machine itself, since all granularities time the same layers. A
sequence that failed returns at once: a time that no machine can reach (`repaired`). What is left belongs to the network
and to the family of machines, and is learned on other machines (`WHOLE_LAW`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.bricks.brick_law import NAME, WHOLE_LAW
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.fitted_model import QUANTILE, UNGROUPED, LawFit, LawRows
from slipstick.estimators.fitting.prediction_bands import calibrated, folds, left_out, stretch
from slipstick.estimators.fitting.scores import LEVEL, log_errors, weighted_quantile
from slipstick.experiments.calibrate.public_data import data_folder, why_missing
from slipstick.experiments.methods.bricks.brick_composition import (
    LAW,
    ModelScore,
    law_rows,
    leave_one_model_out,
    summary,
)
from slipstick.experiments.papers.dlbricks.dlbricks_data import SEQUENCES, Timings, timings
from slipstick.experiments.scoreboards.dlbricks.own_bricks import FOLDER, SMALL, BundledBricks, own_bricks
from slipstick.experiments.scoring.score import Board, Data, Metric, MissingError, Scored, of_errors
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

if TYPE_CHECKING:
    import pandas as pd


FAILED = 10.0
"""A sequence so many times faster than the rest of its network, by other machines' times, did not run to its end."""
LEAST = 0.3
"""Share of a sum of sequences that is left to the layers, whatever a sequence costs."""
STEPS = 400
NORMAL_DEVIATION, OF_MEDIAN = 1.4826, 1.2533
"""Standard deviation over median absolute deviation, and of a median over that of a mean, in a normal distribution."""


@dataclass(frozen=True, eq=False)
class TimedSequences:
    """The timed sequences of one network, arrays of shape (sequences,).

    `granularity`: the G that a sequence was cut with; only those of which every layer was timed should be here.
    `first`, `layers`: number of a sequence's first layer (the network's first is 0), and how many it has.
    `seconds`: its time.
    """

    granularity: npt.NDArray[np.intp]
    first: npt.NDArray[np.intp]
    layers: npt.NDArray[np.intp]
    seconds: FloatArray

    def without(self, call: float) -> FloatArray:
        """Seconds of each sequence without what it costs to time one."""
        return np.asarray(np.maximum(self.seconds - call, LEAST * self.seconds))

    def sums(self, call: float = 0.0) -> FloatArray:
        """Seconds of the network by each granularity, shape (granularities,)."""
        _, place = np.unique(self.granularity, return_inverse=True)
        return np.bincount(place, self.without(call)).astype(float)

    @property
    def counts(self) -> FloatArray:
        """Sequences of each granularity, shape (granularities,)."""
        return np.unique(self.granularity, return_counts=True)[1].astype(float)


@dataclass(frozen=True)
class ComposedTime:
    """A network's time composed of its sequences: seconds, and the standard error of their logarithm."""

    seconds: float
    error: float


def call_seconds(networks: Sequence[TimedSequences]) -> float:
    """What one timed sequence costs, seconds: with it the granularities agree best.

    Least absolute deviation of log sums from their network's median, over the slopes that pairs of granularities show.
    It is negative where layers that follow each other in a longer sequence are slower than alone.
    """
    sums = [(timed.sums(), timed.counts) for timed in networks]
    slopes = np.concatenate([_slopes(*pair) for pair in sums]) if sums else np.empty(0)
    if not len(slopes):
        return 0.0
    candidates = np.append(np.quantile(slopes, np.linspace(0, 1, STEPS + 1)), 0.0)
    apart = np.zeros(len(candidates))
    for seconds, counts in sums:
        logs = np.log(np.maximum(seconds - candidates[:, None] * counts, LEAST * seconds))
        apart += np.abs(logs - np.median(logs, axis=1, keepdims=True)).sum(axis=1)
    return float(candidates[np.argmin(apart)])


def composed(timed: TimedSequences, call: float) -> ComposedTime:
    """The sum over the layers of what the median granularity says of each.

    A sequence's time goes to its layers in proportion to what each takes alone. So a sequence that was timed in a slow
    spell counts at its own layers only. Where no layer was timed alone, the median of the sums. The error follows from
    how far the sums are apart.
    """
    sums = timed.sums(call)
    logs = np.log(sums)
    deviation = NORMAL_DEVIATION * float(np.median(np.abs(logs - np.median(logs))))
    error = OF_MEDIAN * deviation / float(np.sqrt(len(logs)))
    single = timed.granularity == 1
    alone = np.zeros(int((timed.first + timed.layers).max()))
    alone[timed.first[single]] = timed.seconds[single]
    if not (alone > 0).all():
        return ComposedTime(float(np.exp(np.median(logs))), error)
    before = np.concatenate([[0.0], np.cumsum(alone)])
    ratios = timed.without(call) / (before[timed.first + timed.layers] - before[timed.first])
    sizes, place = np.unique(timed.granularity, return_inverse=True)
    table = np.full((len(sizes), len(alone)), np.nan)
    for row, first, layers, ratio in zip(place, timed.first, timed.layers, ratios, strict=True):
        table[row, first : first + layers] = ratio
    return ComposedTime(float(np.nanmedian(table, axis=0) @ alone), error)


def repaired(seconds: FloatArray, elsewhere: FloatArray, network: Sequence[str]) -> FloatArray:
    """Times of sequences, those that failed replaced by what other machines predict, shape (sequences,).

    `seconds`, `elsewhere`: on this machine, and a typical time on others; not a number where unknown.
    `network`: each sequence's. A sequence failed where it is `FAILED` times faster than half of its network's
        sequences; it is replaced at the machine's speed in half of the time of the others.
    """
    result, names = seconds.copy(), np.array([str(name) for name in network])
    for name in set(network):
        mine = np.flatnonzero((names == name) & np.isfinite(seconds) & np.isfinite(elsewhere))
        if not len(mine):
            continue
        ratio, weight = np.log(seconds[mine] / elsewhere[mine]), elsewhere[mine]
        failed = ratio < np.median(ratio) - np.log(FAILED)
        if failed.any():
            usual = weighted_quantile(ratio[~failed], weight[~failed])
            result[mine[failed]] = weight[failed] * np.exp(usual)
    return result


def carried(residuals: FloatArray, scatter: float) -> float:
    """What a network's residuals on other machines, in log time, say of its next one: their mean, shrunk.

    The positive part of James and Stein's estimator (1961, Estimation with quadratic loss) with the scatter of all
    networks or this one's, whichever is larger: nothing of a mean within its error, nearly all of one far beyond it.
    """
    count = len(residuals)
    if not count:
        return 0.0
    alone = float(np.var(residuals, ddof=1)) if count > 1 else 0.0
    mean = float(np.mean(residuals))
    return mean * max(0.0, 1.0 - max(scatter**2, alone) / (count * mean**2)) if mean else 0.0


def _slopes(seconds: FloatArray, counts: FloatArray) -> FloatArray:
    first, second = np.triu_indices(len(seconds), 1)
    apart = counts[first] - counts[second]
    there = apart != 0
    return np.asarray((seconds[first] - seconds[second])[there] / apart[there])


SEQUENCE = ["model", "G", "start_index"]


@dataclass(frozen=True)
class TimedMachine:
    """The networks of one machine: composed of their sequences, and the whole ones' seconds."""

    name: str
    composed: dict[str, ComposedTime]
    whole: dict[str, float]

    @property
    def family(self) -> str:
        """Instances of one family are one processor in parts of different sizes: c5 of c5.large."""
        return self.name.partition(".")[0]

    @property
    def networks(self) -> list[str]:
        """Those both composed and measured as a whole."""
        return sorted(set(self.composed) & set(self.whole))


@dataclass(frozen=True, eq=False)
class ComposedModels:
    """Of one machine's networks: predicted seconds and half of the 80 % band of log time, beside the measured ones."""

    networks: list[str]
    seconds: FloatArray
    half: FloatArray
    measured: FloatArray


def machine_of(judged: Timings, name: str, references: pd.DataFrame) -> TimedMachine:
    """A machine's networks; sequences that failed are found by those of other machines (of any but itself)."""
    mine = judged.sequences[judged.sequences.instance == name]
    typical = _typical(references[references.instance != name]).reindex(_index(mine))
    seconds, elsewhere = (np.asarray(column, dtype=np.float64) for column in (mine.seconds, typical))
    mine = mine.assign(seconds=repaired(seconds, elsewhere, mine.model.tolist()))
    layers = mine.groupby(["model", "G"]).layers.transform("sum")
    whole = mine[layers == layers.groupby(mine.model).transform("max")]
    networks = {str(model): _timed(rows) for model, rows in whole.groupby("model")}
    call = call_seconds(list(networks.values()))
    measured = judged.end_to_end[judged.end_to_end.index.get_level_values(0) == name].droplevel(0).dropna()
    return TimedMachine(
        name,
        {model: composed(timed, call) for model, timed in networks.items()},
        {str(model): float(seconds) for model, seconds in measured.items()},
    )


def answers(target: TimedMachine, known: Sequence[TimedMachine]) -> ComposedModels:
    """The target's networks from what is known of other machines; its own whole networks are not read.

    The band holds what is unknown of the network, the family and the instance, and how far the granularities disagree;
    each known machine left out in turn says by which factor that falls short (`bands.stretch`).
    """
    seconds, half = _predicted(target, known)
    inner: list[tuple[TimedMachine, FloatArray, FloatArray]] = []
    for one in known if len(known) > 1 else ():
        inner.append((one, *_predicted(one, [other for other in known if other.name != one.name])))
    if inner:
        half = half * stretch(
            np.concatenate([seconds for _, seconds, _ in inner]),
            np.concatenate([width for _, _, width in inner]),
            np.concatenate([_measured(one) for one, _, _ in inner]),
            [one.name for one, _, _ in inner for _ in one.networks],
        )
    return ComposedModels(target.networks, seconds, half, _measured(target))


def _predicted(target: TimedMachine, known: Sequence[TimedMachine]) -> tuple[FloatArray, FloatArray]:
    law, rows, wanted = WHOLE_LAW, machine_rows(known), machine_rows([target])
    made = fit(law, rows)
    rest = np.log(rows.seconds / made.seconds(law, rows.columns, rows.groups))
    scatter, names = max(made.scatter.values()), np.array(rows.cluster)
    particular = np.array([carried(rest[names == network], scatter) for network in target.networks])
    errors = np.array([target.composed[network].error for network in target.networks])
    half = np.hypot(made.half_width(law, wanted.columns, wanted.groups), QUANTILE * errors)
    return made.seconds(law, wanted.columns, wanted.groups) * np.exp(particular), np.asarray(half)


def machine_rows(machines: Sequence[TimedMachine], source: str = "") -> LawRows:
    """Networks of machines as rows of `WHOLE_LAW`; their sequences were timed warm."""
    cells = [(one, network) for one in machines for network in one.networks]
    return LawRows(
        {
            "warm": np.array([one.composed[network].seconds for one, network in cells]),
            "extra": np.zeros(len(cells)),
        },
        {
            "family": [one.family for one, _ in cells],
            "instance": [one.name for one, _ in cells],
            **dict.fromkeys(("host", "network", "caches"), [UNGROUPED] * len(cells)),
        },
        [network for _, network in cells],
        np.array([one.whole[network] for one, network in cells]),
        [source] * len(cells),
    )


def _timed(rows: pd.DataFrame) -> TimedSequences:
    first = rows.start_index.to_numpy(dtype=np.intp)
    return TimedSequences(
        rows.G.to_numpy(dtype=np.intp),
        first - first.min(),
        rows.layers.to_numpy(dtype=np.intp),
        rows.seconds.to_numpy(dtype=float),
    )


def _measured(one: TimedMachine) -> FloatArray:
    return np.array([one.whole[network] for network in one.networks])


def _typical(others: pd.DataFrame) -> pd.Series[float]:
    """Geometric mean of the machines' times of each sequence."""
    return np.exp(np.log(others.seconds).groupby([others[name] for name in SEQUENCE]).mean())  # type: ignore[no-any-return]


def _index(sequences: pd.DataFrame) -> pd.MultiIndex:
    import pandas as pd

    return pd.MultiIndex.from_frame(sequences[SEQUENCE])


GRANULARITIES = (1, 3, 5)
MEAN_GOAL, WORST_GOAL, REPEAT_GOAL, GEOMEAN_GOAL = 4.0, 15.0, 2.0, 3.0


def rows() -> list[ValidationRow]:
    """For each granularity the error of the first run, and how far the second run agrees; the best geometric mean."""
    bricks, prior = own_bricks(), fitted(source_rows(FOLDER, AUTHORS))
    scores = {size: [leave_one_model_out(run, bricks.at(size), prior) for run in bricks.runs] for size in GRANULARITIES}
    return [row for size in GRANULARITIES for row in _rows(size, scores[size])] + [_best(scores, bricks)]


def _rows(granularity: int, runs: list[list[ModelScore]]) -> list[ValidationRow]:
    first, second = (summary(scores) for scores in runs)
    errors = np.array([score.error for score in runs[0]])
    plain = np.array([score.plain / score.measured - 1 for score in runs[0]])
    ratios = np.array([[score.calibrated / score.measured for score in scores] for scores in runs])
    noise = 100 * float(np.mean(np.abs(np.log(ratios[0] / ratios[1])))) / np.sqrt(2)
    width = float(np.median([score.high / score.low for score in runs[0]]))
    mean, worst = 100 * first["mean_error"], 100 * first["worst_error"]
    repeat = 100 * abs(np.log(second["geomean_plain"] / first["geomean_plain"]))
    case = f"whole models live, G = {granularity}"
    return [
        ValidationRow(
            dataset="own bricks",
            case=case,
            held_out="model",
            n=len(errors),
            metric="mean |error|",
            unit="%",
            ours=mean,
            baselines={"sum of bricks": 100 * float(np.mean(np.abs(plain)))},
            goal=MEAN_GOAL,
            ok=mean <= MEAN_GOAL and worst <= WORST_GOAL,
            interval_level=0.8,
            interval_coverage=first["coverage"],
            interval_width=width,
            noise_floor=float(noise),
            reason=f"worst model {worst:.1f} % (goal {WORST_GOAL:g} %); "
            f"in the second run {100 * second['mean_error']:.1f} and {100 * second['worst_error']:.1f} %",
        ),
        ValidationRow(
            dataset="own bricks",
            case=f"{case}: second run",
            held_out="run",
            n=len(errors),
            metric="change of the geometric mean",
            unit="%",
            ours=float(repeat),
            baselines={},
            goal=REPEAT_GOAL,
            ok=bool(repeat <= REPEAT_GOAL),
            reason=f"plain sum over whole {first['geomean_plain']:.3f} and {second['geomean_plain']:.3f}",
        ),
    ]


def _best(scores: dict[int, list[list[ModelScore]]], bricks: BundledBricks) -> ValidationRow:
    off = {size: abs(100 * (summary(runs[0])["geomean_plain"] - 1)) for size, runs in scores.items()}
    best = min(off, key=off.__getitem__)
    return ValidationRow(
        dataset="own bricks",
        case="whole models live, best granularity",
        held_out="model",
        n=len(bricks.at(best)),
        metric="|geometric mean of the plain sum over whole - 1|",
        unit="%",
        ours=off[best],
        baselines={f"G = {size}": value for size, value in off.items()},
        goal=GEOMEAN_GOAL,
        ok=off[best] <= GEOMEAN_GOAL,
        reason=f"G = {best}",
    )


AUTHORS = "the authors' instances"
SOURCES = {FOLDER: "model collections", SMALL: "small networks"}


def source_rows(*without: Path | str) -> LawRows:
    """All sources but some: `AUTHORS`, or the folder of an own measurement.

    Raises InputError where the authors' timings are needed and missing.
    """
    made: list[LawRows] = []
    for folder, source in SOURCES.items():
        if folder not in without:
            bricks = own_bricks(folder)
            made += [law_rows(run, known, source) for run in bricks.runs for known in bricks.models.values()]
    if AUTHORS not in without:
        public = timings()
        if public is None:
            raise InputError(why_missing(SEQUENCES))
        machines = [machine_of(public, name, public.sequences) for name in sorted(set(public.sequences.instance))]
        made.append(machine_rows(machines, AUTHORS))
    return sum(made[1:], made[0])


UNSEEN_HOST = "a host that was not fitted"
APART, WORTH = 0.54, 4.0
"""Standard deviation of the log of sources' scatters, root mean square over the twelve other fitted laws that have two
sources or more (.12 to 1.15), and the sources that this is worth beside those of bricks."""


def fitted(known: LawRows) -> LawFit:
    """The law, with bands that hold networks and sources left out, none narrower than it says itself.

    A host that was not fitted scatters as the next source does: log-normal about those that were, of which few are
    known, and never less than the widest of them.
    """
    made = calibrated(LAW, known, list(known.cluster), list(known.source), least=1.0)
    logs = np.log(list(made.scatter.values()))
    apart = (WORTH * APART**2 + float(np.sum((logs - logs.mean()) ** 2))) / (WORTH + len(logs) - 1)
    unseen = float(np.exp(logs.mean() + apart * (1 + 1 / len(logs))))
    shared = {**made.shared, UNSEEN_HOST: max(made.shared.values())}
    return replace(made, scatter={**made.scatter, UNSEEN_HOST: unseen}, shared=shared)


def refit() -> FittedFile:
    """The law fitted to all sources; outer folds leave a source out, a network, and a host.

    Raises InputError where the authors' timings are missing.
    """
    known = source_rows()
    outer = []
    for held_out, groups in (("source", known.source), ("network", known.cluster)):
        made = left_out(LAW, known, folds(groups), list(groups), least=1.0)
        count = len(set(groups))
        outer.append(
            OuterScore.of(held_out, "whole networks", count, made.seconds, known.seconds, made.half, made.inner)
        )
    hosts = known.groups["instance"]
    seconds, half = np.zeros(len(known)), np.zeros(len(known))
    for fold in folds(hosts):
        others, scored = fitted(known.take(fold.known)), known.take(fold.scored)
        seconds[fold.scored] = others.seconds(LAW, scored.columns, scored.groups)
        half[fold.scored] = others.half_width(LAW, scored.columns, scored.groups)
    outer.append(OuterScore.of("host", "whole networks", len(set(hosts)), seconds, known.seconds, half))
    bricks = own_bricks()
    extra = float(np.median([run.cold[one] - run.warm[one] for run in bricks.runs for one in _layers(bricks)]))
    files = {
        path.name if path.parent == FOLDER else f"{path.parent.name}/{path.name}": digest(path) for path in _files()
    }
    note = "Networks timed whole over the sequences they are made of; cold and warm where both were timed."
    fits = {WHOLE_LAW.name: fitted(known)}
    return FittedFile(NAME, files, len(known), fits, tuple(outer), note, {"extra_seconds": float(f"{extra:.6g}")})


def _layers(bricks: BundledBricks) -> list[str]:
    return sorted({one for known in bricks.at(1) for one in known.bricks})


def _files() -> list[Path]:
    folder = data_folder()
    public = [folder / SEQUENCES] if folder is not None else []
    return [folder_of / "bricks.csv.gz" for folder_of in SOURCES] + public


WORST = 0.12
METRICS = (Metric("mean |log error|", lambda ours, measured: float(np.mean(log_errors(ours, measured))), "%"),)


def _machines(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each machine from the others and from those of other families; with `--data`, each there from the shared ones."""
    shared, judged = timings(), timings(data.scored)
    if shared is None or judged is None:
        raise MissingError(why_missing(SEQUENCES, data.scored if shared is not None else None))
    for name in sorted(set(judged.sequences.instance)):
        known = [other for other in sorted(set(shared.sequences.instance)) if other != name]
        unrelated = [other for other in known if other.partition(".")[0] != name.partition(".")[0]]
        yield _scored(shared, judged, name, known, "machine")
        if unrelated and unrelated != known:
            yield _scored(shared, judged, name, unrelated, "family of machines")


def _scored(training: Timings, judged: Timings, name: str, others: list[str], left_out: str) -> Scored | ValidationRow:
    references = training.sequences[training.sequences.instance.isin(others)]
    target = machine_of(judged, name, references)
    if not target.networks:
        return skipped("dlbricks", f"{name}: no model with both composed and end-to-end latency")
    predicted = answers(target, [machine_of(training, other, references) for other in others])
    errors = np.log(predicted.seconds / predicted.measured)
    worst = float(np.max(np.abs(errors)))
    return replace(
        of_errors(f"whole models on {name}", left_out, errors, _baselines(judged, target)),
        metrics=METRICS,
        goals=(4.0,),
        holds=worst <= WORST,
        half=predicted.half,
        level=LEVEL,
        groups=name,
        reason=f"worst model {100 * worst:.1f} % (goal 12 %)",
    )


def _baselines(judged: Timings, target: TimedMachine) -> dict[str, Sequence[float]]:
    """Log errors of sums as they are."""
    sums = judged.composed.loc[target.name].reindex(target.networks)
    measured = np.log([target.whole[network] for network in target.networks])
    return {
        "sum of single layers": list(np.log(sums[min(sums.columns)].to_numpy(dtype=float)) - measured),
        "median over granularities": list(np.log(np.nanmedian(sums.to_numpy(dtype=float), axis=1)) - measured),
    }


BOARD = Board(
    "How long does a network take on a machine where only its layers were measured elsewhere?",
    {"dlbricks": _machines, "own bricks": lambda _: rows()},
    closed={"own bricks": "the project's own measurements are scored as they are"},
)
