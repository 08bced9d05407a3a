"""What every verb says below an answer: what contradicts it, what widens its band and by how much, and hints.

Hints are of the question: products in a data type that the matrix engine lacks, tiles of many-core GPUs on a machine of
few cores. What a question sets and no answer reads: `unused_inputs`.
"""

from __future__ import annotations

from collections.abc import Iterable

from slipstick.common.errors import InputError
from slipstick.common.formatting import ratio_shown, share_shown
from slipstick.estimators.base.conditions import remarks_of
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.roofline.physical_bound import TOLERANCE
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.question.facts import facts
from slipstick.experiments.question.precision import TENSOR_FLOAT
from slipstick.experiments.question.question import Question
from slipstick.hwmodels.machine import Machine, describe
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.importers.torch.value_branches import DECIDED
from slipstick.workloads.transforms.mixed import HALF

ESTIMATE = "an estimate"
"""How the source of a number begins that no document states."""
FEW_CORES = 8
"""Below, a machine is no GPU of many cores."""
LARGE_UNIT = 16_384.0
"""Flop a cycle of one core's matrix unit from which it is an accelerator's, not a GPU's."""

MUCH = 0.1
"""Products of a data type with less than this share of the flop of the most frequent type gain nothing that matters."""
_MATRIX = "flop.matrix."


def remarks(question: Question) -> tuple[str, ...]:
    """What contradicts the answer, then what widens its band, each with its factor; none for a run of this host."""
    return () if question.estimator.alone else (*contradictions(question), *remarks_of(question.answer().conditions))


def contradictions(question: Question) -> list[str]:
    """A measured time far from the model's, a time beyond the peak, and branches on values, which no import knows."""
    assumed = question.workload.metadata.get("assumptions")
    texts = assumed if isinstance(assumed, tuple) else ()
    decided = (text for text in map(str, texts) if text.startswith(DECIDED))
    return [*question.answer().doubts, *_beyond_peak(question), *decided]


def _beyond_peak(question: Question) -> list[str]:
    """That an estimator which somebody named lets products run faster than the machine's peak."""
    if question.by_default:
        return []
    answer = question.answer()
    known = facts(question, answer)
    if known.mfu is None or known.mfu <= 1 + TOLERANCE or 0 < answer.least <= answer.time:
        return []  # Winograd's transform or a mask may spare what is counted
    return [
        f"MFU {share_shown(known.mfu)}: the products alone take longer than this time at {known.mfu_of} of "
        f"{question.machine.name}: does the estimator let operations that one engine computes run side by side?"
    ]


def hints(question: Question) -> list[str]:
    """What may answer better: another data type, another estimator."""
    return [] if question.estimator.alone else [*_precision(question), *_few_cores(question)]


def caution_lines(question: Question, *, verbose: bool) -> list[str]:
    """Lines below an answer: what contradicts it, and the first hint; all with `verbose`."""
    hinted = hints(question)[: None if verbose else 1]
    return [f"beware: {text}" for text in contradictions(question)] + [f"hint: {text}" for text in hinted]


def machine_remarks(machine: Machine) -> tuple[str, ...]:
    """What a comparison of data sheets does not show of one of its machines: a line each."""
    types = {name for engine in machine.engines.values() for name in engine.flop_per_cycle} & {"float32", *HALF}
    return (*_on_vector_engine(machine, types), *_measured(machine), *_estimated(machine))


def _measured(machine: Machine) -> list[str]:
    """On which measurements the default answer stands, where none is of this machine."""
    kind = machine_kind(machine)
    if kind == "gpu":
        mine = machine.name in gpu_kernels().machines
        return [] if mine else ["kernels were not measured there: answers take those of the family"]
    if kind == "cpu":
        return ["answers take kinds of operation as measured on one cloud CPU"]
    if kind == "tpu":
        return ["answers take operations as fitted to training steps on a TPU v2-8"]
    return [] if kind == "many-core" else [f"no public measurement of a {kind} machine like this one"]


def _estimated(machine: Machine) -> list[str]:
    """Which of the compared numbers no data sheet states."""
    compared = ("clock", "engines.", f"memory.{machine.main_memory}.", "links.", "power.cap", "price")
    names = [field for field, _, source in describe(machine) if source.startswith(ESTIMATE)]
    names = [name for name in names if name.startswith(compared)]
    return [f"an estimate, no data sheet's number: {', '.join(names)}"] if names else []


def _precision(question: Question) -> list[str]:
    """Products on the vector engine of a machine whose matrix engine computes other types."""
    graph = question.estimator.model.graph(question.workload, question.machine)
    work = graph.bound().cost
    flop = {name.removeprefix(_MATRIX): float(work[name]) for name in work if name.startswith(_MATRIX)}
    most = max(flop.values(), default=0.0)
    if flop.get(TENSOR_FLOAT) == most:  # the convolutions that take the time run on the matrix engine already
        return []
    return _on_vector_engine(question.machine, [dtype for dtype, count in flop.items() if count >= MUCH * most])


def _on_vector_engine(machine: Machine, types: Iterable[str]) -> list[str]:
    if "matrix" not in machine.engines:
        return []
    rates = machine.engines["matrix"].flop_per_cycle
    lines = []
    for dtype in sorted(types):
        try:
            engine, _ = serving_rate(machine, "matrix", dtype)
        except InputError:
            continue
        faster = sorted((name for name in rates if name != dtype), key=lambda name: -rates[name])
        near = [name for name in ("tfloat32", "bfloat16", "float16") if name in faster] or faster[:1]
        times = rates[near[0]] / machine.engines["vector"].flop_per_cycle[dtype] if engine != "matrix" and near else 0.0
        if times > 1:
            lines.append(
                f"{dtype} products run on the vector engine: --dtype {near[0]} has {ratio_shown(times)} x the peak on "
                "the matrix engine"
            )
    return lines


def _few_cores(question: Question) -> list[str]:
    machine = question.machine
    if not isinstance(question.estimator.operation_formulas, TiledRoofline) or "matrix" not in machine.engines:
        return []
    if machine.cores >= FEW_CORES or _unit(machine) < LARGE_UNIT:
        return []
    return [f"tiles of a GPU's cores on {machine.cores} large matrix unit(s): --estimator systolic is made for them"]


def _unit(machine: Machine) -> float:
    return max(machine.engines["matrix"].flop_per_cycle.values(), default=0.0)
