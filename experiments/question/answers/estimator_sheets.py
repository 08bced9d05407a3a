"""What each estimator is for, where it was built for, and how far it errs on data it was not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipstick.hwmodels.files.readers import unknown_name


@dataclass(frozen=True)
class Sheet:
    """Of one estimator; `error` is of time, with the scoreboard that says so in `board`; "" where none does."""

    name: str
    purpose: str
    domain: str
    error: str
    board: str = ""


GPUS = "GPUs: 20 and more of NVIDIA and AMD measured, any other by its family's mean; FP32, TF32, FP16 and BF16"
_SHEETS = (
    Sheet(
        "default",
        "any workload on any machine: the best of the others that is known, with a band",
        "GPUs: measured kernels under a host or many devices; CPUs, TPUs, systolic arrays, Xeon Phi: their own models; "
        "other machines: the data sheet's rates at their usual share, and a wide band",
        "median 10 %, 90th percentile 36 % on 86 public figures of whole models (roofline 34 %, 63 %)",
        "defaults",
    ),
    Sheet("roofline", "the data sheet's bound: no kernel is faster", "any machine", "30 to 60 % too fast", "defaults"),
    Sheet("roofline-critical-path", "the same where operations run side by side", "any machine", "", "dlbricks"),
    Sheet("roofline-dispatch", "the same, issued by a host onto streams", "GPUs", "", "dispatch"),
    Sheet("contended-dispatch", "streams that share the memory's bandwidth, simulated", "GPUs", "", "dispatch"),
    Sheet(
        "tiled-roofline", "kernels as tiles, unfitted", "GPUs of many cores; no few-core accelerators", "", "operations"
    ),
    Sheet(
        "collectives",
        "collectives by themselves, by NCCL's protocols",
        "NVLink, NVSwitch, PCIe, InfiniBand",
        "3 to 11 % above 64 KB on machines left out, 3 to 48 % where no link was measured",
        "collectives",
    ),
    Sheet(
        "parallel-training",
        "a transformer under tensor, pipeline, data and sequence parallelism",
        "A100; other GPUs with their own kernels by default",
        "4 % mean, 5 % largest, on eight published iterations",
        "megatron",
    ),
    Sheet(
        "data-parallel-dispatch", "replicas whose gradients are summed beside the backward pass", GPUS, "", "defaults"
    ),
    Sheet(
        "layer-conditions",
        "streams and stencils (jacobi-2d-5pt, stream-triad, ...): layer conditions and the ECM model",
        "CPUs imported from a kerncraft file, or with bytes_per_cycle for each cache",
        "transfers equal to kerncraft's; core time is the data sheet's bound",
        "kerncraft",
    ),
    Sheet("cpu", "multi-core CPUs by cache level, unfitted", "CPUs with a host or kerncraft file", "", "bandwidth"),
    Sheet(
        "systolic",
        "products on a systolic array, cycles in closed form",
        "engines with rows and columns",
        "exact against SCALE-Sim's cycles",
        "systolic",
    ),
    Sheet(
        "tpu",
        "training steps of fully connected networks on a TPU board",
        "TPU v2-8; other networks by default with a wider band",
        "3 to 5 % of step times left out",
        "tpu",
    ),
    Sheet("spmv", "sparse matrix times vector", "CPUs, matrices in CSR", "8 % of a matrix left out", "spmv"),
    Sheet("spmv-devices", "the same on GPUs and other machines", "GPUs and CPUs", "see the board", "spmv"),
    Sheet("measure", "runs the kernels on this host", "this host", "the clock's"),
    Sheet(
        "phi-a", "convolutional networks on a Xeon Phi, strategy (a) of the paper", "Xeon Phi 7120P", "see the paper"
    ),
    Sheet("phi-b", "the same, strategy (b)", "Xeon Phi 7120P", "see the paper"),
)


def sheets() -> Mapping[str, Sheet]:
    """By name: the default first, then those of the list that are known."""
    from slipstick.experiments.question.registry import estimator_names

    known = {one.name: one for one in _SHEETS}
    rest = {name: known.get(name, Sheet(name, "see docs", "", "")) for name in estimator_names()}
    return {"default": known["default"], **rest}


def sheet(name: str) -> Sheet:
    """Of one estimator.

    Raises
    ------
    InputError
        Where the name is unknown.
    """
    known = sheets()
    if name not in known:
        raise unknown_name("estimator", name, list(known))
    return known[name]


def parameter_rows(name: str) -> list[dict[str, Any]]:
    """The parameters that may be set (``--set estimator.NAME=...``) or fitted."""
    from slipstick.experiments.question.registry import estimator

    if name == "default":
        return []
    return [
        {"parameter": f"estimator.{key}", "value": value, "unit": note.unit, "meaning": note.meaning}
        for key, (value, note) in estimator(name).parameters.items()
    ]
