"""Kernels of a trace on another machine: each keeps what it was measured to reach, its resource's rate changes.

The name of a kernel says which resource it lives on (matrix arithmetic and its dtype, memory, a link to others); its
measured duration less a fixed part scales with what a machine of that family reaches of the resource's rate. Where the
operation behind a kernel and its shapes are known, the tiled roofline is taken on both machines in place of that (for
a kernel of memory, the geometric mean of both), and the kernel keeps its residual (measured over predicted). Between
vendors a factor near one is taken back towards no change. What a class gets wrong is common to all its kernels, so the
band draws one factor a class.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.roofline.roofline import rounds_convolutions
from slipstick.estimators.symbolic.formula import CheckedParameters, Parameter
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import PRODUCT, family_of
from slipstick.workloads.graph.workload import Op
from slipstick.workloads.transforms.dtype import rewritten

Resource = Literal["matrix", "memory", "link", "host_link"]

_MATRIX = re.compile(
    r"gemm|cutlass|xmma|wgrad|dgrad|fprop|conv|winograd|implicit|cudnn.*(nhwc|nchw)_|scudnn|Cijk_|\bck::|ck_tile|mfma|"
    r"flash|fmha|attention|attn_fwd|bwd_kernel_d|_attn_|nvjet|sm\d\d_|miopenSp3|gcnAsmConv|gridwise|rocblas|triton_tem_",
    re.IGNORECASE,
)
_UNSAID = re.compile(r"flash|fmha|attention|attn_|bwd_kernel_d|triton_", re.IGNORECASE)
"""Products whose names need not say their dtype: they run in that of the products around them."""
_NOT_MATRIX = re.compile(
    r"elementwise|reduce|copy|transpose|nchwToNhwc|nhwcToNchw|pool|bn_|batch_?norm|softmax|layer_?norm|SubTensorOp|"
    r"castTensor|im2col|col2im",
    re.IGNORECASE,
)
_DTYPES = (
    (re.compile(r"bf16|bfloat16|_BBS_|_BSS_|_BBH|nvjet_t", re.IGNORECASE), "bfloat16"),
    (re.compile(r"fp?16|half|_HBH_|_HHS_|_HSS_|_HHH_|h884|s884|h1688|hmma|16816|nvjet_h", re.IGNORECASE), "float16"),
    (re.compile(r"tf32|s1688", re.IGNORECASE), "tfloat32"),
    (re.compile(r"e4m3|e5m2|_F8|fp8|nvjet_q", re.IGNORECASE), "float8"),
)
_TO_HOST = re.compile(r"Memcpy.*(HtoD|DtoH)|Copy(HostToDevice|DeviceToHost)", re.IGNORECASE)
_LINKS = re.compile(r"nccl|rccl", re.IGNORECASE)
REACHED: Mapping[str, tuple[float, float]] = {
    "nvidia-hopper": (0.74, 0.90),
    "nvidia-ampere": (0.80, 0.87),
    "nvidia-ada": (0.62, 0.85),
    "nvidia-volta": (0.90, 0.87),
    "nvidia": (0.78, 0.85),
    "amd-cdna3": (0.48, 0.81),
    "amd-cdna": (0.50, 0.80),
    "amd": (0.55, 0.78),
}
"""Share of the highest rates that long products and long streams reach, by family (the longest prefix counts).

Medians over the longest fifth of public timings: NVIDIA and CDNA (MI100, MI210) products from NeuSight's and
aiconfigurator's files (docs/validation.md), streams from NeuSight's elementwise operations. CDNA3: products between
45 % (Ambati et al. 2025, arXiv, on MI300X) and 54 % (AMD's "max-achievable FLOPs", rocm.blogs.amd.com), streams 81 %
(same paper)."""


@dataclass(frozen=True)
class KernelScaling(CheckedParameters):
    """t_B = fixed + (t_A - fixed) rate_A / rate_B, with the rate of the kernel's resource.

    `fixed`: seconds of a kernel that no rate changes.
    `matrix_spread`, `memory_spread`, `link_spread`: how far (standard deviation of the log) the ratio of achieved rates
        between two machines strays from the ratio of their peaks; larger between vendors, where `vendor_spread` is
        added. Medians of public timings of one operation on two machines: products 0.1 to 0.4, streams 0.1 to 0.3,
        NVIDIA to AMD 0.25 more.
    `vendor_doubt`: s of the factor exp(x^3 / (x^2 + s^2)) that a kernel is moved by between vendors, where exp(x) is
        the model's: a small change is doubted, a large one is not. 0.2 is the smallest of 0, 0.05, ..., 0.4 by which
        none of 29 public pairs of AMD's and NVIDIA's machines comes out worse than by no change (docs/notes/traces.md).
    """

    fixed: Annotated[float, Parameter("s", "part of a kernel that no rate changes", 0.0, 1e-3)] = 1.5e-6
    matrix_spread: Annotated[float, Parameter("1", "log spread of matrix kernels", 0.0, 2.0)] = 0.30
    memory_spread: Annotated[float, Parameter("1", "log spread of memory kernels", 0.0, 2.0)] = 0.25
    link_spread: Annotated[float, Parameter("1", "log spread of collectives", 0.0, 2.0)] = 0.25
    vendor_spread: Annotated[float, Parameter("1", "log spread added between vendors", 0.0, 2.0)] = 0.25
    vendor_doubt: Annotated[float, Parameter("1", "log change that is doubted between vendors", 0.0, 2.0)] = 0.2

    def ratios(
        self,
        names: Sequence[str],
        seconds: FloatArray,
        today: Machine,
        other: Machine,
        operations: Sequence[Op | None] | None = None,
    ) -> FloatArray:
        """Duration on `other` over duration on `today` of each kernel, shape (kernels,).

        `operations`: what each kernel computes, where that is known.
        """
        around = _common_dtype(names, seconds)
        alike: dict[tuple[str, int], int] = {}  # kernels of one name and operation are one
        known = operations or [None] * len(names)
        code = [alike.setdefault((name, id(op)), len(alike)) for name, op in zip(names, known, strict=True)]
        _, first = np.unique(code, return_index=True)
        once, of_once = [names[i] for i in first.tolist()], [known[i] for i in first.tolist()]
        speed_up = np.array([_ratio(today, other, name, around) for name in once])
        for i, ratio in self._by_shape(once, of_once, today, other).items():
            speed_up[i] = np.sqrt(speed_up[i] / ratio) if resource_of(once[i])[0] == "memory" else 1 / ratio
        if between_vendors(today, other):
            speed_up = np.exp(doubted(np.log(speed_up), self.vendor_doubt))
        speed_up = speed_up[code]
        fixed = np.minimum(self.fixed, seconds)
        with np.errstate(invalid="ignore"):
            share = np.where(seconds > 0, fixed / np.maximum(seconds, 1e-15), 0.0)
        return np.asarray(share + (1 - share) / speed_up)

    def _by_shape(
        self, names: Sequence[str], operations: Sequence[Op | None], today: Machine, other: Machine
    ) -> dict[int, float]:
        """Ratios of predicted times, by place, of kernels whose operation lives on what their name says."""
        places: dict[tuple[str, str, str], list[int]] = {}
        known: dict[str, Op] = {}
        for i, (name, op) in enumerate(zip(names, operations, strict=False)):
            resource, dtype = resource_of(name)
            if op is None or resource != ("matrix" if family_of(op.kind) is PRODUCT else "memory"):
                continue
            counted_as = dtype if dtype == "tfloat32" and op.dtype == "float32" else op.dtype
            known[op.identity] = op
            there = dtype_on(other, name, counted_as) if resource == "matrix" and today != other else counted_as
            places.setdefault((op.identity, counted_as, there), []).append(i)
        factors: dict[int, float] = {}
        for (identity, first, second), own_places in places.items():
            here = predicted(known[identity], first, today)
            there_time = predicted(known[identity], second, other)
            if here and there_time:
                factors |= dict.fromkeys(own_places, there_time / here)
        return factors

    def spreads(self, names: Sequence[str], today: Machine, other: Machine) -> dict[str, float]:
        """Log spread of each class of resource between two machines; none where the machine is the same."""
        if today.fingerprint == other.fingerprint:
            return {}
        more = self.vendor_spread if between_vendors(today, other) else 0.0
        by_bound = {
            "matrix": self.matrix_spread,
            "memory": self.memory_spread,
            "link": self.link_spread,
            "host_link": self.link_spread,
        }
        return {
            kind: float(np.hypot(by_bound[kind], more)) for kind in sorted({resource_of(name)[0] for name in names})
        }


def between_vendors(today: Machine, other: Machine) -> bool:
    """Whether two machines are of different vendors, by the first word of their families."""
    return today.family.partition("-")[0] != other.family.partition("-")[0]


def doubted(moved: FloatArray, doubt: float) -> FloatArray:
    """Log factors x as x^3 / (x^2 + doubt^2): those far beyond `doubt` stay, those well within it go to none."""
    return np.asarray(moved * (moved / np.hypot(moved, doubt)) ** 2) if doubt else moved


@lru_cache(maxsize=65536)
def resource_of(name: str) -> tuple[Resource, str]:
    """What a kernel lives on, read off its name, and the dtype of its arithmetic ("" where it has or says none)."""
    if _LINKS.search(name):
        return "link", ""
    if _TO_HOST.search(name):
        return "host_link", ""
    if _MATRIX.search(name) and not _NOT_MATRIX.search(name):
        unsaid = "" if _UNSAID.search(name) else "float32"
        return "matrix", next((dtype for pattern, dtype in _DTYPES if pattern.search(name)), unsaid)
    return "memory", ""


def _common_dtype(names: Sequence[str], seconds: FloatArray) -> str:
    """The dtype in which most time of products passes whose names say one; float32 where none does."""
    spent = {"float32": 0.0}
    for name, time in zip(names, seconds.tolist(), strict=True):
        if dtype := resource_of(name)[1]:
            spent[dtype] = spent.get(dtype, 0.0) + time
    return max(spent, key=lambda dtype: spent[dtype])


@lru_cache(maxsize=65536)
def predicted(op: Op, dtype: str, machine: Machine) -> float | None:
    """Seconds of one execution by the tiled roofline, launch apart; None where the machine cannot do it."""
    matrix, memory = reached(machine)
    share = matrix * (ROUNDED if dtype == "tfloat32" else 1.0)
    parameters = KernelParameters(compute_efficiency=share, memory_efficiency=memory)
    try:
        model = TiledRoofline(FrozenDict(default=parameters))
        (time,) = model.times((rewritten(op, dtype),), _without_launch(machine))
    except InputError:
        return None
    return float(time) if np.isfinite(time) and time > 0 else None


@lru_cache(maxsize=64)
def _without_launch(machine: Machine) -> Machine:
    return machine.using({"runtime.launch_overhead": 0.0})


def reached(machine: Machine) -> tuple[float, float]:
    """Shares of matrix rate and memory bandwidth that a machine's family reaches; 0.78 and 0.85 where unknown."""
    fitting = [prefix for prefix in REACHED if machine.family.startswith(prefix)]
    return REACHED[max(fitting, key=len)] if fitting else REACHED["nvidia"]


ROUNDED = 0.5
"""Share of the usual share that float32 products rounded to tfloat32 reach: their operands are twice as wide. From two
public pairs of traces (HolisticTraceAnalysis) of one model on V100 and A100: such products ran 2.5 and 4.4 times as
fast, where the highest rates say 10."""
_CONVOLVES = re.compile(r"scudnn|conv|wgrad|dgrad|fprop|winograd|implicit|igemm", re.IGNORECASE)


def dtype_on(machine: Machine, name: str, dtype: str) -> str:
    """The dtype a product runs in there: PyTorch rounds convolutions of float32 where NVIDIA's machines can, never
    on AMD's; other products as the trace has them, where the machine can.
    """
    rounds = rounds_convolutions(machine)
    if dtype == "float32" and rounds and _CONVOLVES.search(name):
        return "tfloat32"
    return "float32" if dtype == "tfloat32" and not rounds else dtype


def _rate(machine: Machine, resource: Resource, dtype: str) -> float:
    """What a machine reaches of a resource's rate."""
    if resource == "matrix":
        other = {"bfloat16": "float16", "float16": "bfloat16", "tfloat32": "float32", "float8": "float16"}
        wanted = [dtype, other.get(dtype, ""), "float32"]
        for name in wanted:
            for unit in ("matrix", "vector"):
                if unit in machine.engines and name in machine.engines[unit].flop_per_cycle:
                    share = ROUNDED if name == "tfloat32" else 1.0
                    return machine.peak(unit, name) * reached(machine)[0] * share
        raise InputError(f"machine {machine.name!r} computes neither {' nor '.join(n for n in wanted if n)}")
    return machine.bandwidth(machine.main_memory) * reached(machine)[1]


@lru_cache(maxsize=65536)
def _ratio(today: Machine, other: Machine, name: str, around: str) -> float:
    """Rate there over rate here for a kernel; 1 for a link that one of the machines does not state."""
    resource, dtype = resource_of(name)
    if resource == "matrix":
        dtype = dtype or around
        there = dtype_on(other, name, dtype) if today != other else dtype
        return _rate(other, resource, there) / _rate(today, resource, dtype)
    if resource == "memory":
        return _rate(other, resource, "") / _rate(today, resource, "")
    for link in ("host",) if resource == "host_link" else ("nvlink", "interconnect", "network"):
        if link in today.links and link in other.links:
            return float(other.links[link].bandwidth / today.links[link].bandwidth)
    return 1.0
