"""How far others' collections lie from those that the laws were fitted to (`slipstick validate --refit sources`).

Each law that ships answers what others measured of the same kind; its own collection stands beside theirs at 1.
Collections by the same scripts are one: silicon and InferenceX. Of local models one of two collections is predicted
from the other. Left out are the best kernels of a tuner (AITER), which no program takes; torchvision's steps, half of
which a copy from pageable memory takes; BabelStream on Skylake, of which the board `abroad` has the same group's
figures. Publishers of prompts and trainers are levels of their own laws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.cpu.saturating_loops import STREAMS
from slipstick.estimators.engine_steps.engines import SERVERS
from slipstick.estimators.engine_steps.llama_cpp_step import GENERATING, LAWS
from slipstick.estimators.engine_steps.step_law import STEP_LAW
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest, load_fitted
from slipstick.estimators.fitting.fitted_model import (
    ANOTHER_SOURCE,
    QUANTILE,
    SOURCE,
    UNGROUPED,
    Columns,
    FormulaLaw,
    Grouping,
    LawFit,
    LawRows,
    ParameterPrior,
    slopes_of,
)
from slipstick.estimators.fitting.scores import LEVEL
from slipstick.estimators.fitting.source_effects import FACTOR, FIXED, NAME, effect_of, source_effect
from slipstick.estimators.serving.deployment import TYPICAL
from slipstick.experiments.calibrate.public_data import needed_folder
from slipstick.experiments.question.question import question
from slipstick.experiments.scoreboards.defaults.remarks_board import FILE as MODELS
from slipstick.experiments.scoreboards.defaults.remarks_board import measured_networks
from slipstick.experiments.scoreboards.gpu.other_programs import ALONE, DECODER
from slipstick.experiments.scoreboards.gpu.other_programs import rows as products
from slipstick.experiments.scoreboards.local_llm import local_rows
from slipstick.experiments.scoreboards.local_llm.local_fits import law_rows
from slipstick.experiments.scoreboards.serving import whole_batches
from slipstick.experiments.scoreboards.serving.request_scores import FILE as REQUESTS
from slipstick.experiments.scoreboards.serving.request_scores import of_data_sheets, simulated
from slipstick.experiments.scoring.score import Data

STREAMED = "portability/applications.csv"
CPUS = {"Naples": ("epyc-7451", 2), "Rome": ("epyc-7452", 2), "Cascade Lake": ("xeon-gold-6248-snc", 2)}
"""Of BabelStream: machines of the catalogue with the memory of a device, and sockets."""
ELEMENTS, TRIAD_BYTES = 33_554_432, 24
"""BabelStream's arrays, and bytes of an element that its triad counts."""
KIND, ANSWERED = "kind", "answered"
APART = 0.2
"""Standard deviation of log time that is expected of kinds, and of collections of all kinds; worth four of them."""
FIXED_AT = [one.name for one in STEP_LAW.parameters].index(FIXED)
OWN, CERTAIN = "own", 100
"""The collection that a law was fitted to, and rows at 1 by which it is certain."""


@dataclass(frozen=True, eq=False)
class Collection:
    """What a source measured of a kind: seconds beside those answered, half of the 80 % bands of their logs, and what
    makes rows repeats of one, each of shape (rows,)."""

    kind: str
    source: str
    measured: FloatArray
    answered: FloatArray
    half: FloatArray
    cluster: Sequence[str]
    fixed: FloatArray

    @classmethod
    def of_answers(
        cls, kind: str, source: str, rows: Sequence[tuple[str, float, Estimate]], joined: float = 0.0
    ) -> Collection:
        """From names, measured seconds and answers, whose bands are taken without a deviation `joined` to them."""
        ends = [one.interval() or (one.time, one.time) for _, _, one in rows]
        half = np.array([np.log(high / low) / 2 for low, high in ends])
        half = np.sqrt(np.maximum(half**2 - (QUANTILE * joined) ** 2, 0.0))
        measured, answered = (np.array(part) for part in zip(*((m, one.time) for _, m, one in rows), strict=True))
        return cls(kind, source, measured, answered, half, [name for name, _, _ in rows], 0 * half)

    @property
    def held(self) -> float:
        """Share of rows in their bands."""
        return float(np.mean(np.abs(np.log(self.answered / self.measured)) <= self.half))

    @property
    def rows(self) -> LawRows:
        """As rows of the law of sources."""
        count, name = len(self.measured), f"{self.kind}: {self.source}"
        groups = {KIND: [self.kind] * count, SOURCE: [name] * count}
        cluster = [f"{name}: {one}" for one in self.cluster]
        columns = {ANSWERED: self.answered, FIXED: self.answered * self.fixed}
        return LawRows(columns, groups, cluster, self.measured, [self.kind] * count)


def collections() -> Iterator[Collection]:
    """All that are public.

    Raises InputError where a file is missing.
    """
    for read in (_servers, _streams, _networks, _products, _generation):
        yield from read()


def _servers() -> Iterator[Collection]:
    law = STEP_LAW
    rows, made = whole_batches.law_rows(whole_batches.other_servers()), load_fitted("serving").fit(law.name)
    for source in sorted({*rows.source}):
        one = rows.take(np.flatnonzero([name == source for name in rows.source]))
        at = law, one.columns, one.groups
        fixed = slopes_of(law, one.columns, made.values(law, one.groups, len(one)))[:, FIXED_AT]
        yield Collection(SERVERS, source, one.seconds, made.seconds(*at), made.half_width(*at), one.cluster, fixed)
    runs = []
    for case, run, server in of_data_sheets(Data(), UNGROUPED):
        tpot, parts = (
            simulated(run, server.step.seconds, server.scheduler, server.layout.data)[1],
            server.step.parts(TYPICAL),
        )
        each = np.ones(len(tpot))
        fixed = parts.fixed / parts.seconds * each
        runs.append((run.tpot, tpot, server.half_width() * each, np.array([case] * len(tpot)), fixed))
    measured, answered, half, cluster, fixed = (np.concatenate(part) for part in zip(*runs, strict=True))
    yield Collection(SERVERS, REQUESTS, measured, answered, half, cluster.tolist(), fixed)


def _streams() -> Iterator[Collection]:
    """Triad under OpenMP."""
    needed, rows = ("application", "device", "programming_model", "bandwidth_bytes_per_s"), []
    for _, row in read_csv_rows(needed_folder() / STREAMED, needed):
        device, ours = row["device"], row["application"] in ("babelstream", "babelstream_2020")
        if device not in CPUS or row["programming_model"] != "OpenMP" or not ours:
            continue
        (name, sockets), rate = CPUS[device], float(row["bandwidth_bytes_per_s"])
        answer = question("stream-triad", name, None, [f"workload.x={ELEMENTS}"]).answer()
        rows.append((device, TRIAD_BYTES * ELEMENTS * sockets / rate, answer))
    yield Collection.of_answers(STREAMS, "UoB-HPC/performance-portability", rows, source_effect(STREAMS).deviation)


def _networks() -> Iterator[Collection]:
    rows = [(str(query), measured, query.answer()) for query, measured in measured_networks(Data())]
    yield Collection.of_answers("networks", "sitar-lab/NeuSight", rows)


def _products() -> Iterator[Collection]:
    """Products alone: FP8 in blocks and BF16, one line of the board each."""
    each = [one for one in products(Data()) if not one.case.endswith("50 us") and "tensor" not in one.case]
    for one, source in zip(each, (ALONE, DECODER), strict=True):
        half = np.log(np.asarray(one.high) / np.asarray(one.low)) / 2
        measured, ours = np.asarray(one.measured), np.asarray(one.ours)
        yield Collection("products", source, measured, ours, half, [source] * len(half), 0 * half)


def _generation() -> Iterator[Collection]:
    """Runs of llama.cpp from a fit to those of llamafile, by backend."""
    folder, law = needed_folder(), LAWS[GENERATING]
    rows = local_rows.known_rows(*(folder / name for name in local_rows.FILES))
    for backend in ("cuda", "metal"):
        mine = local_rows.timed(rows, GENERATING, backend)
        part, sources = law_rows(mine, GENERATING, backend), np.array([row.source for row in mine])
        known, one = (part.take(np.flatnonzero(sources == f)) for f in (local_rows.FILE, local_rows.DEVICES_FILE))
        made, at = fit(law, known), (law, one.columns, one.groups)
        name = f"{GENERATING} on {backend}"
        half = made.half_width(*at)
        yield Collection(name, "GPU-Benchmarks", one.seconds, made.seconds(*at), half, one.cluster, 0 * half)


def source_law(names: Sequence[str], apart: float = APART, *levels: str) -> FormulaLaw:
    """Measured seconds by those answered: factors of the whole and, if among `names`, of the fixed part.

    They vary by sources, and before them by `levels`.

    `apart`: standard deviation of log time that is expected between sources.
    """
    vary = *levels, SOURCE
    priors = [ParameterPrior(name, "1", "over what is answered", 1.0, APART, 0.02, 50.0, name, vary) for name in names]
    groupings = (*(Grouping(name, APART) for name in levels), Grouping(SOURCE, apart))

    def seconds(values: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        more = values.get(FIXED, np.ones(1)) - 1.0
        return np.asarray(values[FACTOR] * (columns[ANSWERED] + more * columns[FIXED]))

    return FormulaLaw(NAME, tuple(priors), seconds, groupings)


def fitted_effects(kinds: Mapping[str, LawRows]) -> dict[str, LawFit]:
    """The law fitted to each kind; what is expected of its sources comes from all.

    `kinds`: rows with groups of the levels `KIND` and `SOURCE`, the law's own collection among them.
    """
    rows = [*kinds.values()]
    apart = fit(source_law([FACTOR], APART, KIND), sum(rows[1:], rows[0])).widths[FACTOR, SOURCE]
    return {kind: fit(source_law(_parameters(one), apart), one) for kind, one in kinds.items()}


def _parameters(rows: LawRows) -> list[str]:
    return [FACTOR, FIXED] if rows.columns[FIXED].any() else [FACTOR]


def with_own(every: Mapping[str, Sequence[Collection]], left: Collection | None = None) -> dict[str, LawRows]:
    """By kind, collections but one that is left out as rows, and the law's own."""
    one, names = np.ones(CERTAIN), [str(at) for at in range(CERTAIN)]
    base = {}
    for kind, some in every.items():
        fixed = np.linspace(0.0, max(float(np.max(each.fixed)) for each in some), CERTAIN)
        base[kind] = replace(Collection(kind, OWN, one, one, one, names, fixed).rows, source=[OWN] * CERTAIN)
    return {kind: sum((each.rows for each in some if each is not left), base[kind]) for kind, some in every.items()}


def refit() -> FittedFile:
    """The law of each kind whose bands do not hold others' rows, sources counting alike; each source left out in turn.

    Raises InputError where public rows are missing.
    """
    every: dict[str, list[Collection]] = {}
    for one in collections():
        every.setdefault(one.kind, []).append(one)
    held = {kind: float(np.mean([one.held for one in some])) for kind, some in every.items()}
    fits = fitted_effects(with_own(every))
    scores = []
    for kind, some in every.items():
        parts = [_beside(every, one) if held[kind] < LEVEL else one for one in some]
        answered, measured, half = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("answered", "measured", "half")
        )
        scores.append(OuterScore.of("source unseen", kind, len(parts), answered, measured, half))
    batches = whole_batches.FILE, whole_batches.STREAMS, whole_batches.USERS, whole_batches.METERED
    files = (*batches, REQUESTS, STREAMED, MODELS, ALONE, DECODER, *local_rows.FILES)
    digests = {name: digest(needed_folder() / name) for name in files}
    used = sum(len(one.measured) for some in every.values() for one in some)
    note = "Bands held as they are of " + "; ".join(f"{kind}: {share:.2f}" for kind, share in held.items()) + "."
    kept = {kind: fits[kind] for kind, share in held.items() if share < LEVEL}
    return FittedFile(NAME, digests, used, kept, tuple(scores), note)


def _beside(every: Mapping[str, Sequence[Collection]], left: Collection) -> Collection:
    """A collection as the others predict it."""
    effect, rows = effect_of(fitted_effects(with_own(every, left))[left.kind]), left.rows
    made = effect.on(LawFit((), np.zeros(0), np.zeros((0, 0)), {}, {OWN: 0.0}, {}))
    law, groups = source_law(effect.parameters), {SOURCE: [ANOTHER_SOURCE] * len(rows)}
    half = np.hypot(left.half, made.half_width(law, rows.columns, groups))
    return replace(left, answered=made.seconds(law, rows.columns, groups), half=half)
