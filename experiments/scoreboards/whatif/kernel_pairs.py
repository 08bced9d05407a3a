"""Single kernels on two GPUs that differ in few fields: the first one measured, the second one never seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.base.ratio_band import RatioBand
from slipstick.estimators.gpu.transfer.device_fits import fit_machine
from slipstick.estimators.gpu.transfer.kernel_class import MODEL, PREFIX, MachineFit, priors_of, times
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula, joined_times
from slipstick.experiments.scoreboards.gpu import gpu_data
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoreboards.whatif.asked_changes import of_machines
from slipstick.experiments.scoreboards.whatif.machine_pairs import changes, difference
from slipstick.experiments.scoreboards.whatif.ratios import Ratios
from slipstick.experiments.scoring.unseen_answers import Fits, kernel, unseen
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import KINDS
from slipstick.workloads.graph.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

SAMPLE, FITTED = 400, 400
ASKED = 100
"""Rows of a pair that are asked one by one."""
STACK = "sglang 0.5.10"
GEMM = ("stack", "dtype", *gpu_data.GEMM_DIMS)
ATTENTION = ("stack", "dtype", "kv_dtype", "window", *gpu_data.ATTENTION_DIMS)


@dataclass(frozen=True, eq=False)
class KernelRows:
    """A class of kernels with the rows of several machines."""

    name: str
    kind: str
    dtype: str
    frame: pd.DataFrame
    keys: tuple[str, ...]
    library: str = ""

    def ratios(self, before: str, after: str) -> list[Ratios]:
        """Ratios as a user puts them, the second machine in no fit; none where both share no rows."""
        if (both := self._both(before, after)).empty:
            return []
        both = both.sample(min(ASKED, len(both)), random_state=0)
        board = OperationBoard(self.frame, self.kind, self.dtype)
        here, there = board.machine(before), board.machine(after)
        fits = Fits(unseen([there], [here]))
        named = here.using({"runtime.library": self.library}) if self.library else here
        measured = (both["time_after"] / both["time"]).astype(float).tolist()
        pairs = [(one_row(board.rows(before, both.iloc[[at]])), ratio) for at, ratio in enumerate(measured)]
        return of_machines(f"{self.name}, {before} -> {after}", named, there, pairs, fits)

    def pair(self, before: str, after: str, fit: MachineFit, law: RatioBand) -> Ratios | None:
        """Ratios of the rows that both machines have; None where they share none.

        `fit`: of the first machine.
        `law`: of the band.
        """
        if (both := self._both(before, after)).empty:
            return None
        both = both.sample(min(SAMPLE, len(both)), random_state=0)
        board = OperationBoard(self.frame, self.kind, self.dtype)
        here, there = board.machine(before), board.machine(after)
        form = board.rows(before, both)
        changed = changes(here, there)
        moved = self._form(here.using(changed), both, form)
        logs = np.log(times([moved], fit.values) / times([form], fit.values))
        change = max([abs(np.log(value / here.get(path))) for path, value in changed.items() if _read(path)], default=0)
        scatter = np.full(len(both), fit.scatter)
        half = law.half(logs, change, residual=scatter, residual_today=scatter)
        measured = (both["time_after"] / both["time"]).to_numpy(float)
        return Ratios(self.name, there.name, difference(here, there), measured, np.exp(logs), half, float(change))

    def _both(self, before: str, after: str) -> pd.DataFrame:
        """The rows of the first machine beside those of the second one, whose columns end in ``_after``."""
        first, second = (self.frame[self.frame["machine"] == name] for name in (before, after))
        return first.merge(second, on=list(self.keys), suffixes=("", "_after"))

    def fitted(self, name: str) -> MachineFit:
        """A machine's own fit to rows of it."""
        rows = self.frame[self.frame["machine"] == name]
        board = OperationBoard(self.frame, self.kind, self.dtype)
        forms = [board.rows(name, rows.sample(min(FITTED, len(rows)), random_state=1))]
        priors = priors_of(f"{self.kind}.{self.dtype}")
        return fit_machine(board.machine(name), RowFormula.of(MODEL, forms), {}, joined_times(forms), priors, PREFIX)

    def _form(self, machine: Machine, frame: pd.DataFrame, like: OperationTimes) -> OperationTimes:
        dims = {dim: frame[dim].to_numpy(float) for dim in KINDS[self.kind].dims}
        ones = np.ones(len(frame))
        return OperationTimes.of(machine, self.kind, self.dtype, dims, ones, dict(like.op.attributes))


def _read(path: str) -> bool:
    """Whether the times of kernels read a field: capacities of main memory and powers they do not."""
    return not path.startswith(("power.", "threads")) and not (path.endswith("capacity") and "L" not in path)


def one_row(form: OperationTimes) -> Workload:
    """The first of some rows as a kernel, whose sizes can be changed."""
    return kernel(form.op, **{dim: float(sizes[0]) for dim, sizes in form.dims.items()})


def products(folder: Path, dtypes: Sequence[str]) -> Iterator[KernelRows]:
    """Matrix products of a serving stack."""
    frame = gpu_data.aiconfigurator(folder, "gemm")
    frame = frame[frame["stack"] == STACK] if len(frame) else frame
    for dtype in dtypes:
        if len(frame):
            yield KernelRows(f"products, {dtype}", "gemm", dtype, frame[frame["dtype"] == dtype], GEMM, STACK)


def attention(folder: Path) -> Iterator[KernelRows]:
    """Attention of a serving stack in bfloat16."""
    for name in ("context_attention", "generation_attention"):
        frame = gpu_data.aiconfigurator(folder, name)
        if not len(frame):
            continue
        plain = (frame["dtype"] == "bfloat16") & (frame["kv_dtype"] == "bfloat16") & (frame["window"] == 0)
        frame = frame[plain & (frame["stack"] == STACK)]
        yield KernelRows(name.replace("_", " "), "attention", "bfloat16", frame, ATTENTION, STACK)


def single_precision(folder: Path) -> Iterator[KernelRows]:
    """NeuSight's operations in float32."""
    for name in ("linear", "bmm"):
        frame = gpu_data.neusight_products(folder, name)
        if len(frame):
            yield KernelRows(f"{name}, float32", "gemm", "float32", frame, ("OPName", *gpu_data.GEMM_DIMS))
    frame = gpu_data.neusight_elementwise(folder)
    if len(frame):
        dims = ("elements", "reads", "writes")
        yield KernelRows("elementwise, float32", "elementwise", "float32", frame, ("OPName", *dims))


def deepbench(folder: Path) -> Iterator[KernelRows]:
    """DeepBench's products and convolutions of training, in float32."""
    frame = gpu_data.deepbench_products(folder)
    if len(frame):
        yield KernelRows("DeepBench products, float32", "gemm", "float32", frame, ("layout", *gpu_data.GEMM_DIMS))
    frame = gpu_data.deepbench_convolutions(folder, "float32")
    if len(frame):
        keys = ("direction", "stride", *gpu_data.CONVOLUTION_DIMS)
        yield KernelRows("DeepBench convolutions, float32", "convolution", "float32", frame, keys)
