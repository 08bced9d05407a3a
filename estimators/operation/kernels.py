"""Kernels of a trace on another machine: each keeps what it was measured to reach, its resource's rate changes.

A trace names kernels without their sizes. The name says which resource a kernel lives on (matrix arithmetic and its
dtype, memory, a link to others); the measured duration less a fixed part scales with that resource's rate. What a
class gets wrong is common to all its kernels, so the band draws one factor a class.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from estimators.parameters import Parameter, check_parameters
from hwmodels.files import InputError
from hwmodels.machine import Machine

Floats = npt.NDArray[np.float64]
Resource = Literal["matrix", "memory", "link", "host_link"]

_MATRIX = re.compile(
    r"gemm|cutlass|xmma|wgrad|dgrad|fprop|conv|winograd|implicit|cudnn.*(nhwc|nchw)_|scudnn|Cijk_|\bck::|mfma|"
    r"flash|fmha|attention|nvjet|sm\d\d_",
    re.IGNORECASE,
)
_NOT_MATRIX = re.compile(
    r"elementwise|reduce|copy|transpose|nchwToNhwc|nhwcToNchw|pool|bn_|batch_?norm|softmax", re.IGNORECASE
)
_DTYPES = (
    (re.compile(r"bf16|bfloat16|_BBS_|BFloat16", re.IGNORECASE), "bfloat16"),
    (re.compile(r"tf32|s1688gemm(?!_f16)", re.IGNORECASE), "tfloat32"),
    (re.compile(r"f16|fp16|half|h884|s884|h1688|hmma|16816|_HBH_|_HHS_", re.IGNORECASE), "float16"),
)


@dataclass(frozen=True)
class KernelScaling:
    """t_B = fixed + (t_A - fixed) rate_A / rate_B, with the rate of the kernel's resource.

    Parameters
    ----------
    fixed
        Seconds of a kernel that no rate changes.
    matrix_spread, memory_spread, link_spread
        How far (standard deviation of the log) the ratio of achieved rates between two machines strays from the ratio
        of their peaks; larger between vendors, where `vendor_spread` is added.
    """

    fixed: Annotated[float, Parameter("s", "part of a kernel that no rate changes", 0.0, 1e-3)] = 1.5e-6
    matrix_spread: Annotated[float, Parameter("1", "log spread of matrix kernels", 0.0, 2.0)] = 0.20
    memory_spread: Annotated[float, Parameter("1", "log spread of memory kernels", 0.0, 2.0)] = 0.10
    link_spread: Annotated[float, Parameter("1", "log spread of collectives", 0.0, 2.0)] = 0.25
    vendor_spread: Annotated[float, Parameter("1", "log spread added between vendors", 0.0, 2.0)] = 0.20

    def __post_init__(self) -> None:
        check_parameters(self)

    def ratios(self, names: Sequence[str], seconds: Floats, today: Machine, other: Machine) -> Floats:
        """Duration on `other` over duration on `today` of each kernel, shape (kernels,)."""
        rates = {key: _rate(other, *key) / _rate(today, *key) for key in {resource_of(name) for name in names}}
        speed_up = np.array([rates[resource_of(name)] for name in names])
        fixed = np.minimum(self.fixed, seconds)
        with np.errstate(invalid="ignore"):
            share = np.where(seconds > 0, fixed / np.maximum(seconds, 1e-15), 0.0)
        return np.asarray(share + (1 - share) / speed_up)

    def spreads(self, names: Sequence[str], today: Machine, other: Machine) -> dict[str, float]:
        """Log spread of each class of resource between two machines; none where the machine is the same."""
        if today.fingerprint == other.fingerprint:
            return {}
        vendors = {machine.family.partition("-")[0] for machine in (today, other)}
        more = self.vendor_spread if len(vendors) > 1 else 0.0
        own = {
            "matrix": self.matrix_spread,
            "memory": self.memory_spread,
            "link": self.link_spread,
            "host_link": self.link_spread,
        }
        return {kind: float(np.hypot(own[kind], more)) for kind in sorted({resource_of(name)[0] for name in names})}


@lru_cache(maxsize=65536)
def resource_of(name: str) -> tuple[Resource, str]:
    """What a kernel lives on, read off its name, and the dtype of its arithmetic ("" where it has none)."""
    if "nccl" in name or "rccl" in name:
        return "link", ""
    if "Memcpy" in name and ("HtoD" in name or "DtoH" in name):
        return "host_link", ""
    if _MATRIX.search(name) and not _NOT_MATRIX.search(name):
        return "matrix", next((dtype for pattern, dtype in _DTYPES if pattern.search(name)), "float32")
    return "memory", ""


def _rate(machine: Machine, resource: Resource, dtype: str) -> float:
    if resource == "matrix":
        wanted = [
            dtype,
            {"bfloat16": "float16", "float16": "bfloat16", "tfloat32": "float32"}.get(dtype, ""),
            "float32",
        ]
        for name in wanted:
            for unit in ("matrix", "vector"):
                if unit in machine.engines and name in machine.engines[unit].flop_per_cycle:
                    return machine.peak(unit, name)
        raise InputError(f"machine {machine.name!r} computes neither {' nor '.join(n for n in wanted if n)}")
    if resource == "memory":
        return machine.bandwidth(machine.main_memory)
    names = ("host",) if resource == "host_link" else ("nvlink", "interconnect", "network")
    return next((machine.links[name].bandwidth for name in names if name in machine.links), 1.0)
