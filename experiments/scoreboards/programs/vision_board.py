"""Image networks of timm on GPUs and CPUs, eager and compiled: families of networks left out, and devices.

What is scored is the default answer to a question about the network as it was run (under autocast in 16 bits on GPUs,
channels together where they lay so), from fits that never saw its family, or neither family nor device. Baselines: the
rule of thumb of each operation, and two numbers a device and mode (multiply-adds and activations, a rate each).

Which batch of a training step fits: bytes of timm's networks beside the batches that its benchmark fell back to.

The benchmark lowers the batch along `LADDER` until a step runs (timm, `benchmark.py`, `_try_run` and
`decay_batch_step`): the batch of a row fitted, and the next larger one did not; of the first it is only known that it
fitted. It trains under autocast by SGD with momentum (`--opt sgd --momentum 0.9`): twelve bytes a parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray, Mask
from slipstick.common.errors import InputError
from slipstick.common.records import Same
from slipstick.estimators.cpu.cpu_library_law import CPU_LIBRARY_LAW
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import FittedFile, digest
from slipstick.estimators.fitting.fitted_model import QUANTILE
from slipstick.estimators.fitting.prediction_bands import Fold, folds
from slipstick.experiments.question.memory_need import CONTEXT, NAME
from slipstick.experiments.scoreboards.programs.cpu_library_fit import cpu_rows, on_cpu
from slipstick.experiments.scoreboards.programs.image_networks import image_network, names
from slipstick.experiments.scoreboards.programs.program_data import programs, runs_of
from slipstick.experiments.scoreboards.programs.program_refit import ProgramTimes, some_networks
from slipstick.experiments.scoreboards.programs.timed_networks import catalogued
from slipstick.experiments.scoreboards.programs.vision_law import as_run, unfused
from slipstick.experiments.scoreboards.programs.vision_rows import FILE, KEY, read_rows, setting_of, two_numbers
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import GIVEN, LOGARITHMIC, Board, Data, Rows, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.unseen_answers import Answers, Fits, answers_left_out, unseen
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.graph.live import peak_bytes
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.transforms.mixed import autocast

if TYPE_CHECKING:
    import pandas as pd


MEMORY_FOLDS, ENOUGH, GOAL = 5, 30, 0.85
LADDER = (512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 2, 1)
KEPT_BYTES = 12.0
"""Of a parameter: itself, its gradient, its momentum; the copy in 16 bits is among what autograd saves."""
TRIED = (16, 32)
"""Batches at which bytes are counted: they are affine in the batch."""
FACTORS = np.linspace(0.8, 1.25, 226)
SCATTERS = np.geomspace(0.01, 0.3, 35)


@dataclass(frozen=True)
class LargestBatches:
    """Networks whose largest batch is known: bytes allocated at it and at the next larger, arrays of shape (networks,).

    `fitted`, `refused`: bytes at the batch that fitted; at the next larger one, infinite where none was tried.
    `there`: capacity of the card's main memory.
    """

    frame: pd.DataFrame
    fitted: FloatArray
    refused: FloatArray
    there: float

    def only(self, chosen: Mask) -> LargestBatches:
        """Those of which `chosen` is true."""
        return LargestBatches(self.frame[chosen], self.fitted[chosen], self.refused[chosen], self.there)

    def shares(self) -> tuple[FloatArray, FloatArray]:
        """What the card has over what is allocated, at both batches: the factor lies between second and first."""
        with np.errstate(divide="ignore"):
            left = self.there - CONTEXT
            return left / self.fitted, np.where(np.isinf(self.refused), 0.0, left / self.refused)


@lru_cache(maxsize=1024)
def _allocated(model: str, pixels: int, batch: int) -> float:
    return float(peak_bytes(autocast(unfused(image_network(model, pixels, batch)), "float16")))


def allocated(model: str, pixels: int, parameters: float, batch: int) -> float:
    """Bytes of a training step at a batch."""
    one, other = (_allocated(model, pixels, tried) for tried in TRIED)
    return KEPT_BYTES * parameters + one + (other - one) / (TRIED[1] - TRIED[0]) * (batch - TRIED[0])


def larger(batch: int) -> int | None:
    """The next larger batch of the ladder; None for the first."""
    above = [one for one in LADDER if one > batch]
    return above[-1] if above else None


def of_rows(frame: pd.DataFrame, machine: Machine) -> LargestBatches:
    """Rows of training on one card, of the networks that were traced."""
    known = [(str(r["model"]), int(r["image"])) in names() and int(r["batch"]) in LADDER for _, r in frame.iterrows()]
    kept = frame[known].reset_index(drop=True)
    fitted, refused = [], []
    for _, row in kept.iterrows():
        network = str(row["model"]), int(row["image"]), float(row["parameters"])
        above = larger(int(row["batch"]))
        fitted.append(allocated(*network, int(row["batch"])))
        refused.append(np.inf if above is None else allocated(*network, above))
    main = machine.memory[machine.main_memory]
    return LargestBatches(kept, np.array(fitted), np.array(refused), float(main.capacity))


def trained(path: Path) -> LargestBatches:
    """Rows of training on the device that most of them are of.

    Raises InputError where there is none.
    """
    frame = read_rows(path)
    frame = frame[(frame["task"] == "training") & frame["device"].map(lambda device: bool(catalogued(str(device))))]
    if frame.empty:
        raise InputError(f"{path}: no row of training on a device of the catalogue")
    device = str(frame["device"].mode().iloc[0])
    return of_rows(frame[frame["device"] == device], machine(catalogued(device)))


def most_likely(steps: LargestBatches) -> tuple[float, float]:
    """(factor, scatter) under which the batches that fitted, and those that did not, are most likely.

    A network's factor has a normal logarithm of one mean and scatter; a row says between which bounds it lies.
    """
    from scipy.special import ndtr

    high, low = (np.log(np.maximum(side, 1e-9))[:, None, None] for side in steps.shares())
    mean, scatter = np.log(FACTORS)[None, :, None], SCATTERS[None, None, :]
    inside = ndtr((high - mean) / scatter) - ndtr((low - mean) / scatter)
    likely = np.log(np.maximum(inside, 1e-6)).sum(axis=0)
    at, wide = np.unravel_index(int(np.argmax(likely)), likely.shape)
    return float(FACTORS[at]), float(SCATTERS[wide])


def right(steps: LargestBatches, factor: npt.ArrayLike) -> Mask:
    """Whether the batch that fitted is said to fit, and the next larger one not to, shape (networks,)."""
    high, low = steps.shares()
    return np.asarray((np.asarray(factor) <= high) & (np.asarray(factor) > low))


def within_a_step(steps: LargestBatches, factor: FloatArray) -> Mask:
    """Whether the largest batch that is said to fit is the right one or its neighbour, shape (networks,)."""
    result = []
    for place, (_, row) in enumerate(steps.frame.iterrows()):
        network = str(row["model"]), int(row["image"]), float(row["parameters"])
        left = (steps.there - CONTEXT) / float(factor[place])
        fitting = [batch for batch in LADDER if allocated(*network, batch) <= left]
        at = LADDER.index(fitting[0]) if fitting else len(LADDER)
        result.append(abs(at - LADDER.index(int(row["batch"]))) <= 1)
    return np.array(result)


def words(steps: LargestBatches, factor: FloatArray, scatter: FloatArray) -> tuple[float, float]:
    """Shares of wrong verdicts ("fits" of what did not run, "does not fit" of what did), and of "may not fit"."""
    wide = np.exp(QUANTILE * scatter)
    left = steps.there - CONTEXT
    wrong: list[Mask] = []
    open_: list[Mask] = []
    for size, ran in ((steps.fitted, True), (steps.refused[np.isfinite(steps.refused)], False)):
        there = np.isfinite(steps.refused) if not ran else np.ones(len(steps.fitted), dtype=bool)
        fits, not_ = size * factor[there] * wide[there] <= left, size * factor[there] / wide[there] > left
        wrong.append(not_ if ran else fits)
        open_.append(~fits & ~not_)
    return float(np.concatenate(wrong).mean()), float(np.concatenate(open_).mean())


def by_activations(known: LargestBatches, wanted: LargestBatches) -> Mask:
    """`right` by bytes in proportion to a network's activations, the share fitted to known rows: the baseline."""
    both = np.isfinite(known.refused)
    plain_known, plain = (_plain(steps) for steps in (known, wanted))
    high, low = plain_known.only(both).shares()
    return right(plain, float(np.median(np.sqrt(high * low))))


def _plain(steps: LargestBatches) -> LargestBatches:
    """Bytes of activations alone, in 16 bits; parameters count for nothing."""
    each = 2 * steps.frame["activations"].to_numpy(dtype=float)
    batch = steps.frame["batch"].to_numpy(dtype=int)
    above = np.array([larger(int(one)) or np.inf for one in batch])
    return LargestBatches(steps.frame, each * batch, each * above, steps.there)


def repeated(frame: pd.DataFrame) -> float:
    """Share of networks whose batch is the same in both memory formats: what no count of bytes can know."""
    same = [set(part["batch"]) for _, part in frame.groupby(["model", "image"]) if len(part) > 1]
    return float(np.mean([len(one) == 1 for one in same])) if same else float("nan")


def left_out(known: LargestBatches, judged: LargestBatches) -> tuple[FloatArray, FloatArray, Mask]:
    """(factor, scatter, `right` by activations) of each row, by the other families, in five folds."""
    families = judged.frame["family"].astype(str)
    factor, scatter = np.empty(len(families)), np.empty(len(families))
    plain = np.zeros(len(families), dtype=bool)
    for fold in folds(families.tolist(), at_most=MEMORY_FOLDS):
        others = known.only(~known.frame["family"].astype(str).isin(set(families.iloc[fold.scored])).to_numpy())
        factor[fold.scored], scatter[fold.scored] = most_likely(others)
        chosen = np.isin(np.arange(len(factor)), fold.scored)
        plain[chosen] = by_activations(others, judged.only(chosen))
    return factor, scatter, plain


def refit() -> FittedFile:
    """Factor and scatter of all rows of the device of most of them; facts hold what families left out say.

    Raises InputError where the public rows are missing.
    """
    path = Data().known(FILE)
    steps = trained(path)
    taken, scatter = most_likely(steps)
    factor, wide, _ = left_out(steps, steps)
    wrong, unsure = words(steps, factor, wide)
    facts = {
        "taken": round(taken, 4),
        "scatter": round(scatter, 4),
        "families left out": {
            "largest batch right": round(float(right(steps, factor).mean()), 4),
            "wrong words": round(wrong, 4),
            "may not fit": round(unsure, 4),
        },
    }
    note = "Batches of huggingface/pytorch-image-models (aa4b585) that fitted, and the next larger ones that did not."
    return FittedFile(NAME, {FILE: digest(path)}, len(steps.fitted), {}, (), note, facts)


def memory_rows(dataset: str, known: LargestBatches, judged: LargestBatches) -> Iterator[ValidationRow]:
    """Families left out in five folds of the fit of factor and scatter, then what all known rows say of both."""
    factor, scatter, plain = left_out(known, judged)
    exact, two = right(judged, factor), np.isfinite(judged.refused)
    wrong, unsure = words(judged, factor, scatter)
    middle, wide = most_likely(known)
    fitted_to_all = f"of all rows {middle:.3f} and {wide:.3f}: fitted/{NAME}.json"
    noise = f"both memory formats agree on {100 * repeated(judged.frame):.0f} %"
    predicted, enough = "share that is predicted", len(factor) >= ENOUGH

    def row(case: str, metric: str, share: float, plain: float | None, n: int, reason: str) -> ValidationRow:
        baselines = {} if plain is None else {"bytes in proportion to activations": plain}
        ok = share >= GOAL if enough else None
        return ValidationRow(
            dataset, f"{case}, training", "family", n, metric, "1", share, baselines, GOAL, ok, reason=reason
        )

    batch = "largest batch that fits"
    yield row(batch, predicted, float(exact.mean()), float(plain.mean()), len(exact), f"{noise}; {fitted_to_all}")
    if two.any():
        one, other = float(exact[two].mean()), float(plain[two].mean())
        yield row(f"{batch}, a larger one did not", predicted, one, other, int(two.sum()), "")
    near = float(within_a_step(judged, factor).mean())
    yield row(batch, f"{predicted} within one step of the ladder", near, None, len(exact), "")
    open_ones = f"{100 * unsure:.0f} % of the batches may not fit"
    yield row("fits, or does not", "share of batches without a wrong word", 1 - wrong, None, len(exact), open_ones)


DATASET = "image networks"
DEVICES, MEMORY = f"{DATASET}, device unseen", f"{DATASET}, memory"
FOLDS, PARTS = 5, 2
"""Folds of families, and of those that are left out beside a device."""
ASKED = 300
"""Networks of a device, task and mode that are asked, spread evenly over its rows."""
GOALS = {
    "rtx-3090, inference, eager": (0.09, 0.28),
    "rtx-4090, inference, eager": (0.18, 0.50),
    "rtx-4090, inference, compiled": (0.09, 0.37),
}
NOISE = 0.015
"""Half-spread of repeated rows (the same but for the release of torch): median; 90th percentile 0.115."""


def _networks(data: Data) -> Iterator[Scored | ValidationRow]:
    """Families left out, then families and devices; of rows that are given those alone."""
    public, given = read_rows(data.known(FILE)), read_rows(data.judged(FILE))
    for device in sorted({str(name) for name in given["device"] if not catalogued(str(name))}):
        yield skipped(DATASET, f"{device}: the catalogue lacks this device (--machines DIR adds it)")
    rows = data.rows(_traced(public), _traced(given), lambda row: tuple(str(row[name]) for name in KEY))
    if unread := len(given) - len(rows.scored):
        yield skipped(DATASET, f"{unread} rows of no machine or of a network that was not traced")
    families, devices, cases = zip(
        *((str(row["family"]), str(row["device"]), _case(row)) for row in rows.rows), strict=True
    )
    part_of = {family: str(at % PARTS) for at, family in enumerate(sorted(set(families)))}
    parts = [part_of[family] for family in families]
    turns = _some(rows.turns(families, at_most=FOLDS), cases)
    made = answers_left_out(rows.rows, turns, _ask, partial(_fits, data))
    yield from _scores(DATASET, GIVEN if rows.first else "family", rows, cases, made)
    if not rows.first:
        made = answers_left_out(rows.rows, _some(rows.folds(devices, parts), cases), _ask, partial(_fits, data))
        yield from _scores(DEVICES, "device and family", rows, cases, made)


def _traced(frame: pd.DataFrame) -> list[pd.Series]:
    """Rows on machines of the catalogue, of networks whose operations are kept."""
    made = [row for _, row in frame.iterrows() if (row["model"], row["image"]) in names()]
    return [row for row in made if catalogued(str(row["device"]))]


def _case(row: pd.Series) -> str:
    return f"{row['device']}, {row['task']}, {row['mode']}"


def _some(turns: Sequence[Fold], cases: Sequence[str]) -> list[Fold]:
    """The folds with `ASKED` rows of each case to score, spread evenly."""
    scored = np.array(sorted(place for fold in turns for place in fold.scored))
    mine = [[place for place in scored if cases[place] == case] for case in sorted({cases[at] for at in scored})]
    some = {place for each in mine for place in each[:: -(-len(each) // ASKED)]}
    kept = [replace(fold, scored=np.array([at for at in fold.scored if at in some], dtype=np.intp)) for fold in turns]
    return [fold for fold in kept if len(fold.scored)]


def _ask(row: pd.Series) -> tuple[Workload, Machine]:
    network = image_network(str(row["model"]), int(row["image"]), int(row["batch"]))
    mode = {"runtime.mode": str(row["mode"])}
    return as_run(network, setting_of(row)), machine(catalogued(str(row["device"]))).using(mode)


def _fits(data: Data, seen: Sequence[pd.Series], wanted: Sequence[Machine]) -> Fits:
    """From rows of image networks that are known, and from all other programs."""
    import pandas as pd

    known, traced = pd.DataFrame(list(seen)), programs(data.folder)
    cpus = known[[on_cpu(str(device)) for device in known["device"]]]
    runs = [run for run in runs_of(data.folder) if run.source in traced and run.machine]
    there = {run.machine for run in runs} | {catalogued(str(device)) for device in known["device"]}
    gpus = unseen(wanted, map(machine, there))
    if any(machine_kind(one) == "gpu" for one in wanted):
        gpus = replace(gpus, programs=Same(ProgramTimes(runs, traced, some_networks(known)).fit()))
    return Fits(gpus, fit(CPU_LIBRARY_LAW, cpu_rows(cpus)) if len(cpus) else None)


def _scores(dataset: str, held: str, rows: Rows[pd.Series], cases: Sequence[str], made: Answers) -> Iterator[Scored]:
    """Case by case; the two numbers are fitted to other families on the device, or on the other devices."""
    import pandas as pd

    every = pd.DataFrame(list(rows.rows)).assign(case=cases)
    for case in sorted(set(cases)):
        device, _, use = case.partition(",")
        at = np.flatnonzero((every["case"] == case) & np.isfinite(made.seconds))
        if not len(at):
            continue
        wanted, alike = every.iloc[at], every["case"].str.endswith(f",{use}")
        frame = every[alike & ((every["device"] == device) != (dataset == DEVICES))]
        plain = np.full(len(at), np.nan)
        for fold in folds(wanted["family"].astype(str).tolist(), at_most=FOLDS):
            others = frame[~frame["family"].isin(set(wanted["family"].iloc[fold.scored]))]
            plain[fold.scored] = two_numbers(others, wanted.iloc[fold.scored])
        yield Scored(
            f"{device} unseen,{use}" if dataset == DEVICES else case, held,
            wanted["step_s"].to_numpy(dtype=float), made.seconds[at], LOGARITHMIC,
            GOALS.get(case, ()) if dataset == DATASET else (),
            {RULE: made.rule[at], "MACs and activations": plain}, low=made.low[at],
            high=made.high[at], noise=NOISE, groups=wanted["family"].astype(str).tolist(), dataset=dataset,
        )  # fmt: skip


def _batches(data: Data) -> Iterator[ValidationRow]:
    """The largest batch of a training step that fits, families left out of the fit of what an allocator takes."""
    judged = trained(data.judged(FILE))  # first: what cannot be read is skipped before anything is counted
    yield from memory_rows(MEMORY, trained(data.known(FILE)), judged)


BOARD = Board(
    "How long does an image network take on my GPU or CPU, eager or compiled, that nobody timed?",
    {DATASET: _networks, MEMORY: _batches},
)
