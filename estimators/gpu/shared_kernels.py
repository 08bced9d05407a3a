"""Kernels that were timed one by one, and kernels fitted to whole programs, class by class in one model.

The share of each in a class's log time depends on the class and the machine alone: what else a network computes does
not matter, so that its time is as continuous in its operations as a sum is.

Convolutions, pooling and the norms of images were timed by themselves on few machines and in few shapes, so that image
networks decide their times everywhere. For the other kinds a machine's own measurements stand alone; a machine without
any takes both in log time, by how many relatives of its generation each has.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import symbol
from slipstick.common.formatting import share_shown
from slipstick.common.records import FrozenDict, Same
from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.base.operation_model import FormulaModel, JointModel
from slipstick.estimators.fitting.fitted_file import FittedFile
from slipstick.estimators.gpu.gpu_bands import LEAST_SHARE, Spent
from slipstick.estimators.gpu.kernels.kernel_classes import OF_STEPS, with_terms
from slipstick.estimators.gpu.programs.program_classes import is_backward
from slipstick.estimators.gpu.programs.program_kernels import (
    CLASS_SPREAD,
    HOST,
    NAME,
    SPREAD,
    ProgramRuntimes,
    program_fit,
    programs_scatter,
)
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, device_name
from slipstick.estimators.gpu.transfer.kernel_class import fallback_class_for, technology
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.gpu.transfer.residual_by_shape import SHAPE_FACTOR
from slipstick.estimators.roofline.roofline import on_vector_units, rounds_convolutions
from slipstick.estimators.schedules.host_constants import UNSEEN_KIND
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.catalog import aliases
from slipstick.hwmodels.catalog import machine as catalogued
from slipstick.hwmodels.catalog.names import exact
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.hwmodels.machine_kind import machine_kind
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import PRODUCT, family_of
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.graph.workload_kind import role_of

NO_IMAGES = ("attention", "softmax", "norm.layer")
"""Kinds whose backward passes hardly one of the timed image networks has."""
GROUPED = "convolution.groups"
"""Convolutions in groups and depthwise ones, which no table of single kernels has."""
TIMED, PROGRAMS = "timed", "programs"
IMAGE_NETWORKS = (
    "convolutions, pooling and norms of images in 16 bits: as image networks on an RTX 3090 and an RTX 4090"
)
IN_NETWORKS = ("convolution", GROUPED, "pool", "upsample", "norm.batch", "norm.group")
"""What image networks have and tables of single kernels lack: layouts, depthwise and grouped windows, small images."""
IN_BOTH = ("gemm", "attention", "softmax", "norm.layer", "elementwise", "move", "reduction", "gather")
STREAMS = ("elementwise", "move", "reduction", "gather")
"""Of these what only moves bytes, as in every network; layer norms and softmax of 16 bits are hardly in those timed."""
TF32 = "tfloat32"
PLAIN = ("float32", TF32, "int64", "int32", "bool")
"""Types of the programs in float32: of their numbers, places and masks, and what PyTorch rounds them to."""
MAKER, ANOTHER_MAKER, ANOTHER_CLASS = "nvidia", "maker", "class of GPU"
"""Of the devices on which programs of PyTorch were timed; names of conditions on others."""
GENERATION = 2
"""Words of the family (maker, generation) that a relative shares."""


def shared_name(op: Op) -> str:
    """By what shares tell operations apart: "gemm.bfloat16", "norm.batch.float16", "convolution.groups.float32"."""
    if op.kind == "convolution" and op.dims["groups"] != 1:
        return f"{GROUPED}.{op.dtype}"
    function = f".{op.attributes.get('function', 'layer')}" if op.kind == "norm" else ""
    return f"{op.kind}{function}.{op.dtype}"


@dataclass(frozen=True)
class SharedKernels(JointModel):
    """log time = (1 - share) log time as timed + share log time as in programs.

    `timed`: kernels that were timed one by one.
    `programs`: kernels as whole programs show them.
    `shares`: of `programs`, between 0 and 1, by kind and data type ("gemm.bfloat16", "norm.batch.float16",
        "convolution.groups.float32"); else 0.
    """

    timed: FormulaModel
    programs: ProgramRuntimes
    shares: FrozenDict[float]

    def share(self, op: Op) -> float:
        """Of `programs` in the log time of an operation; of backward passes, those of image networks in 16 bits.

        Programs have none of what a step of a language model has kernels of its own for.
        """
        name = shared_name(op)
        alone = is_backward(op) and (op.dtype not in HALF or name.rpartition(".")[0] in NO_IMAGES)
        return 0.0 if alone or role_of(op) in OF_STEPS else self.shares.get(name, 0.0)

    @property
    def parts(self) -> Mapping[str, FormulaModel]:
        """Caches and clock are those of the kernels that were timed."""
        return {TIMED: self.timed, PROGRAMS: self.programs}

    def answering(self, op: Op) -> tuple[str, ...]:
        """One of them alone, or both."""
        return {0.0: (TIMED,), 1.0: (PROGRAMS,)}.get(self.share(op), (TIMED, PROGRAMS))

    def form(self, machine: Machine) -> Hashable:
        """Those of both parts: shares are amounts of the operation."""
        return super().form(machine)  # said again: a class that replaces `formula` alone promises no form

    def formula(self, op: Op, machine: Machine) -> Formula:
        """That of the part that answers alone; of both, their product to the powers of the shares."""
        first, *others = (self.formula_of(name, op, machine) for name in self.answering(op))
        if not others or first.expression == 0:
            return first
        share = symbol("operation.share")
        joined = first.expression ** (1 - share) * others[0].expression ** share
        return with_terms(first, joined, dict(first.terms))

    def amount(self, op: Op, name: str) -> Amount:
        """The share, and what the part counts; the factor of a shape is of what was timed."""
        if name == SHAPE_FACTOR:
            return self.timed.amount(op, name)
        return self.share(op) if name == "operation.share" else super().amount(op, name)


def program_shares(
    known: DeviceCalibration, machine: Machine, operations: Iterable[Op], *, programs: bool = False
) -> FrozenDict[float]:
    """Share of whole programs in the log time of each name (`shared_name`) that they were fitted to: in 16 bits,
    convolutions in TF32, which nobody timed by themselves, and those in groups on every machine and in every type; none
    in what a user timed: rows on the machine, and classes of a calibration that keeps its rows.

    `programs`: whether they are a program's forward pass, which was timed in float32 on machines like this. What moves
        bytes takes them in 16 bits as in float32.
    """
    if machine_kind(machine) != "gpu":
        return FrozenDict()
    shares: dict[str, float] = {}
    rows = [one for one in known.anchors if one.machine.name == machine.name]
    rows += [form for one in known.classes for forms in one.rows.values() for form in forms]
    anchored = {(_grouped_kind(one), one.op.dtype) for one in rows}
    rounds = rounds_convolutions(machine)
    for name in sorted({shared_name(op) for op in operations}):
        part, _, dtype = name.rpartition(".")
        kind = part.partition(".")[0]
        if (GROUPED if part == GROUPED else kind, dtype) in anchored or part not in (*IN_NETWORKS, *IN_BOTH):
            continue
        if part == GROUPED:
            share = 1.0
        elif dtype in PLAIN:
            share = float(rounds and (programs or name == f"convolution.{TF32}"))
        elif dtype not in HALF or (family_of(kind) is PRODUCT and on_vector_units(machine, dtype)):
            continue  # those programs multiplied 16 bits on matrix units
        else:
            streams = programs and rounds and part in STREAMS
            share = 1.0 if part in IN_NETWORKS or streams else _share(known, machine, kind, dtype)
        if share:
            shares[name] = share
    return FrozenDict(shares)


def _grouped_kind(form: OperationTimes) -> str:
    """The kind of what a user timed; convolutions in groups are one of their own, of which dense ones say nothing."""
    return GROUPED if form.op.kind == "convolution" and form.op.dims["groups"] != 1 else form.op.kind


def in_programs(shares: Mapping[str, float]) -> list[str]:
    """Whose times stand behind the shares of programs: a line for each of the two fits, and of what neither timed."""
    of_type = {name: name.rpartition(".")[2] for name in sorted(shares)}
    half = [IMAGE_NETWORKS] if any(one in HALF for one in of_type.values()) else []
    plain = ", ".join(name for name, one in of_type.items() if one in PLAIN)
    others = ", ".join(name for name, one in of_type.items() if one not in (*PLAIN, *HALF))
    made = [*half, *([f"{plain}: {timed_programs()}"] if plain else [])]
    return [*made, *([f"{others}: as programs in other types, timed in none of these"] if others else [])]


@cache
def timed_programs() -> str:
    """Whose times the programs in float32 are: how many were fitted, and of which devices, as the fit says."""
    fitted = program_fit()
    count = next(one.rows for one in fitted.it.outer if one.kind == "programs in float32")
    seen = fitted.it.fit(NAME).seen(HOST) - {one.name for one in networks_on(fitted)}
    hosts = sorted({host.split("_")[0] for host in seen})
    return f"as {count:,} times of programs on {', '.join(hosts)} show"


@cache
def networks_on(fitted: Same[FittedFile]) -> tuple[Machine, ...]:
    """GPUs on which image networks were timed: the hosts of the other programs are no machines of the catalogue."""
    names = (exact(host, aliases()) for host in sorted(fitted.it.fit(NAME).seen(HOST)))
    return tuple(catalogued(name) for name in names if name)


def _share(known: DeviceCalibration, machine: Machine, kind: str, dtype: str) -> float:
    """Of programs, for a kind that was timed both ways."""
    networks = networks_on(program_fit(known.programs))
    if machine.name in [one.name for one in networks]:
        return 1.0
    relatives = [one.family for one in networks if shared_words(one.family, machine.family) >= GENERATION]
    of_programs = sum(_family_similarity(known, family, machine) for family in relatives)
    substitute = fallback_class_for(f"{kind}.{dtype}", [one.name for one in known.classes], known.similarity_weights)
    fits = [fit for one in known.classes if substitute and one.name == substitute.measured for fit in one.fits]
    timed = {device_name(known.machines[fit.machine]): fit.family for fit in fits}
    if machine.name in timed:
        return 0.0
    return of_programs / (of_programs + sum(_family_similarity(known, family, machine) for family in timed.values()))


def _family_similarity(known: DeviceCalibration, family: str, machine: Machine) -> float:
    return known.similarity_weights.weights[shared_words(family, machine.family)]


def programs_spread(
    known: DeviceCalibration, machine: Machine, spent: Sequence[Spent], without: Collection[str] = ()
) -> FloatArray:
    """Standard deviation of log time of what programs say of each operation on a machine, shape (operations,).

    It is wider on GPUs of another maker, in 16 bits on those of a memory's technology (HBM, GDDR) that no timed machine
    had, and in types that no program was timed in. `without`: names of conditions that add nothing: `ANOTHER_MAKER`,
    `ANOTHER_CLASS`.
    """
    maker = 0.0 if machine.family.startswith(MAKER) or ANOTHER_MAKER in without else UNSEEN_KIND
    timed = ANOTHER_CLASS in without or technology(machine) in _technologies(known)
    sure = (*PLAIN, *HALF) if timed else PLAIN
    facts = [SPREAD if one.op.dtype in sure else CLASS_SPREAD for one in spent]
    return np.hypot([programs_scatter(known.programs, fact) for fact in facts], maker)


def _technologies(known: DeviceCalibration) -> list[str]:
    """Of the memory of GPUs on which image networks were timed in 16 bits, one for each."""
    return [technology(one) for one in networks_on(program_fit(known.programs))]


def of_others(known: DeviceCalibration, machine: Machine, spent: Sequence[Spent]) -> list[Condition]:
    """That programs on GPUs of another maker, or in 16 bits of another class, speak of much of a step."""
    there, made = _technologies(known), list[Condition]()
    half = f"16 bits as in networks on {len(there)} GPUs with {' and '.join(sorted(set(there)))}"
    for name, strange, words, some in (
        (ANOTHER_MAKER, not machine.family.startswith(MAKER), "convolutions as on GPUs of another maker", spent),
        (ANOTHER_CLASS, technology(machine) not in there, half, [one for one in spent if one.op.dtype in HALF]),
    ):
        share = sum(one.contribution * one.programs for one in some) / (sum(one.contribution for one in spent) or 1.0)
        if strange and share >= LEAST_SHARE:
            made.append(Condition(name, f"{words}: {share_shown(share)} of the time", "unmeasured"))
    return made
