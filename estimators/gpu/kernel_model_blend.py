"""How far whole programs speak for a machine's kernels, class by class, beside kernels that were timed one by one.

Convolutions, pooling and the norms of images were timed by themselves on few machines and in few shapes, so that image
networks speak for them everywhere. For the other kinds a machine's own measurements stand alone; a machine without any
takes both in log time, by how many relatives of its generation each has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache

import numpy as np

from slipstick.common.formatting import share_shown
from slipstick.common.records import FrozenDict, Same
from slipstick.estimators.base.conditions import Condition
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.fitting.fitted_file import FittedFile
from slipstick.estimators.fitting.similarity_weights import fitted_similarity
from slipstick.estimators.gpu.fallback_class import fallback_class_for
from slipstick.estimators.gpu.gpu_bands import LEAST_SHARE, Spent
from slipstick.estimators.gpu.programs.program_kernels import program_fit, programs_scatter
from slipstick.estimators.gpu.programs.program_law import CLASS_SPREAD, HOST, NAME, SPREAD
from slipstick.estimators.gpu.programs.program_sides import rounds_convolutions
from slipstick.estimators.gpu.programs.shared_kernels import GROUPED, shared_name
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, device_name
from slipstick.estimators.gpu.transfer.family_pooling import technology
from slipstick.estimators.roofline.roofline import on_vector_units
from slipstick.estimators.schedules.host_constants import UNSEEN_KIND
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.hwmodels.catalog import aliases
from slipstick.hwmodels.catalog import machine as catalogued
from slipstick.hwmodels.catalog.names import exact
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.workloads.graph.kinds import PRODUCT, family_of
from slipstick.workloads.graph.workload import Op

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


def program_shares(
    known: DeviceCalibration, machine: Machine, operations: Iterable[Op], *, programs: bool = False
) -> FrozenDict[float]:
    """Share of whole programs in the log time of each name (`shared_name`) that they were fitted to: in 16 bits,
    convolutions in TF32, which nobody timed by themselves, and those in groups on every machine and in every type.

    `programs`: whether they are a program's forward pass, which was timed in float32 on machines like this. What moves
        bytes takes them in 16 bits as in float32.
    """
    shares: dict[str, float] = {}
    anchored = {(one.op.kind, one.op.dtype) for one in known.anchors if one.machine.name == machine.name}
    rounds = rounds_convolutions(machine)
    for name in sorted({shared_name(op) for op in operations}):
        part, _, dtype = name.rpartition(".")
        kind = part.partition(".")[0]
        if (kind, dtype) in anchored or part not in (*IN_NETWORKS, *IN_BOTH):
            continue
        if dtype in PLAIN:
            share = float(part == GROUPED or (rounds and (programs or name == f"convolution.{TF32}")))
        elif dtype not in HALF or (family_of(kind) is PRODUCT and on_vector_units(machine, dtype) and part != GROUPED):
            continue  # those programs multiplied 16 bits on matrix units
        else:
            streams = programs and rounds and part in STREAMS
            share = 1.0 if part in IN_NETWORKS or streams else _share(known, machine, kind, dtype)
        if share:
            shares[name] = share
    return FrozenDict(shares)


def in_programs(shares: Mapping[str, float]) -> list[str]:
    """Whose times stand behind the shares of programs: a line for each of the two fits."""
    plain = sorted(name for name in shares if name.rpartition(".")[2] not in HALF)
    half = [IMAGE_NETWORKS] if len(shares) > len(plain) else []
    return [*half, *([f"{', '.join(plain)}: {timed_programs()}"] if plain else [])]


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
    kin = [one.family for one in networks if shared_words(one.family, machine.family) >= GENERATION]
    of_programs = sum(_family_similarity(family, machine) for family in kin)
    standing = fallback_class_for(f"{kind}.{dtype}", [one.name for one in known.classes])
    fits = [fit for one in known.classes if standing and one.name == standing.measured for fit in one.fits]
    timed = {device_name(known.machines[fit.machine]): fit.family for fit in fits}
    if machine.name in timed:
        return 0.0
    return of_programs / (of_programs + sum(_family_similarity(family, machine) for family in timed.values()))


def _family_similarity(family: str, machine: Machine) -> float:
    return fitted_similarity().weights[shared_words(family, machine.family)]


def programs_spread(
    known: DeviceCalibration, machine: Machine, spent: Sequence[Spent], without: Collection[str] = ()
) -> FloatArray:
    """Standard deviation of log time of what programs say of each operation on a machine, shape (operations,).

    It is wider on GPUs of another maker, and in 16 bits on those of a memory's technology (HBM, GDDR) that no timed
    machine had. `without`: names of conditions that add nothing: `ANOTHER_MAKER`, `ANOTHER_CLASS`.
    """
    maker = 0.0 if machine.family.startswith(MAKER) or ANOTHER_MAKER in without else UNSEEN_KIND
    timed = ANOTHER_CLASS in without or technology(machine) in _technologies(known)
    facts = [SPREAD if timed or one.op.dtype not in HALF else CLASS_SPREAD for one in spent]
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
