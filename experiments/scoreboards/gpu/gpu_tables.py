"""One class of operations over many machines: a frame of measured rows, and the calibration across devices of it.

The estimator that is scored is the one that `slipstick calibrate` with leave_out = "machine" gives its users.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.fitting.similarity_weights import fitted_similarity
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, Forecast, RowForecast
from slipstick.estimators.gpu.transfer.device_fits import SAMPLE, fit_devices
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.gpu.transfer.pooling_constants import GRAPH_LAUNCH
from slipstick.experiments.calibrate.leave_one_device_out_report import four_numbers, roofline
from slipstick.experiments.scoring.unseen_answers import unseen_group
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import KINDS
from slipstick.workloads.graph.workload import Attribute

if TYPE_CHECKING:
    import pandas as pd

WRITES_CACHE = ("sglang",)
"""Engines whose timed attention writes the new keys and values to the cache first (RadixAttention, with its collector);
vLLM's 0.22 does not: with the bytes counted, its times would need more than twice the data sheet's bandwidth."""
PACKS_SCALES = "nvidia-blackwell"
"""Family whose matrix units take the scales of blocks as packed exponents: the collector hands them over in float32, so
that each timed call spreads and packs those of the weights by four kernels (deepseek-ai/DeepGEMM, csrc/apis/layout.hpp,
`transform_sf_into_required_layout`; ai-dynamo/aiconfigurator, collector/sglang/collect_gemm.py). Servers pack them
once, when they load the weights."""
PACKING_KERNELS = 4


@dataclass(frozen=True, eq=False)
class OperationBoard:
    """Measured operations of one kind and dtype, and what is predicted from them.

    `training`: a frame of `gpu_data`; rows of machines that the catalogue lacks are left out.
    `kind`, `dtype`, `facts`: of the operations, by the taxonomy.
    `sample`: rows of one machine and file that a fit looks at.
    `test`: word in the names of the files whose rows resemble the tested ones; "" for all.
    """

    training: pd.DataFrame
    kind: str
    dtype: str
    facts: Mapping[str, Attribute] = field(default_factory=dict)
    sample: int = SAMPLE
    test: str = ""
    forecasts: dict[tuple[str, ...], Forecast] = field(default_factory=dict, repr=False)

    def forms_of(self, name: str, frame: pd.DataFrame) -> list[OperationTimes]:
        """Rows of a frame in their order, one form after the other: passes, filters and strides of convolutions."""
        if "direction" not in frame:
            return [self.rows(name, frame)]
        key = frame[["direction", "kernel_height", "kernel_width", "stride"]]
        run = (key != key.shift()).any(axis=1).cumsum()
        return [self.rows(name, part) for _, part in frame.groupby(run, sort=True)]

    def rows(self, name: str, frame: pd.DataFrame) -> OperationTimes:
        """Rows of one form on a machine; where they were not measured, their times are 1 s."""
        dims = {dim: frame[dim].to_numpy(float) for dim in KINDS[self.kind].dims}
        times = frame["time"].to_numpy(float) if "time" in frame else np.ones(len(frame))
        facts = dict(self.facts)
        if self.kind == "attention" and "stack" in frame:
            facts["writes_cache"] = bool(frame["stack"].str.startswith(WRITES_CACHE).all())
        if self.kind == "gemm" and self.dtype.startswith("float8") and "stack" in frame:
            facts["quantizes"] = True  # the collectors time a linear layer, which quantizes what it is given
            if self.packs(name):
                facts["packs_scales"] = True
        if "direction" in frame:
            facts |= {"pass": str(frame["direction"].iloc[0]), "stride": tuple(frame["stride"].iloc[0])}
        return OperationTimes.of(self.machine(name), self.kind, self.dtype, dims, times, facts)

    def machine(self, name: str) -> Machine:
        """A machine as it was measured: the tables of serving stacks time recorded graphs.

        Their FP8 product is two kernels, since it quantizes its input, and so is their attention: it writes the cache.
        """
        if "stack" not in self.training:
            return machine(name)
        kernels = 1 if self.kind == "gemm" and not self.dtype.startswith("float8") else 2
        kernels += PACKING_KERNELS if self.packs(name) else 0
        return machine(name).using({"runtime.mode": "graph_replay", "runtime.launch_overhead": kernels * GRAPH_LAUNCH})

    def packs(self, name: str) -> bool:
        """Whether the products that were timed on a machine pack the scales of their weights in each call."""
        if self.kind != "gemm" or not machine(name).family.startswith(PACKS_SCALES):
            return False
        return "float8_block" in set(self.training.loc[self.training["machine"] == name, "dtype"])

    @cached_property
    def forms(self) -> list[OperationTimes]:
        """The training rows by machine and file."""
        known = self.training[self.training["machine"] != ""]
        known = known[
            known["machine"].isin([name for name in known["machine"].unique() if not self.refused(name, known)])
        ]
        if "file" not in known:
            known = known.assign(file="")
        groups = known.groupby(["machine", "file", *(["stack"] if "stack" in known else [])], sort=True)
        return [replace(form, source=str(key[1])) for key, part in groups for form in self.forms_of(str(key[0]), part)]

    @cached_property
    def calibration(self) -> DeviceCalibration:
        """Of all training rows."""
        typical = sorted({form.source for form in self.forms if self.test and self.test in form.source})
        return fit_devices(self.forms, "", self.sample, typical=typical)

    def refused(self, name: str, frame: pd.DataFrame) -> str:
        """Why a machine answers no row of a frame: it states no rate for their data type; "" where it answers."""
        try:
            self.roofline(name, frame.head(1))
        except InputError as error:
            return str(error)
        return ""

    def fitted(self, name: str) -> bool:
        """Whether a machine has a fit of its own."""
        return machine(name).name in self.calibration.machines

    def forecast(self, name: str, left_out: Sequence[str], anchors: Sequence[OperationTimes] = ()) -> Forecast:
        """What the machines that are not left out say of a machine."""
        if anchors:
            return self._forecast(name, left_out, anchors)
        target = (name, *left_out)
        if target not in self.forecasts:
            self.forecasts[target] = self._forecast(name, left_out)
        return self.forecasts[target]

    def _forecast(self, name: str, left_out: Sequence[str], anchors: Sequence[OperationTimes] = ()) -> Forecast:
        """By what machines count for one another, found without the generation or vendor that is left out."""
        unseen = [machine(other) for other in left_out]
        without = [one.name for one in unseen]
        known = [one.family for other, one in self.calibration.machines.items() if other not in without]
        group = unseen_group([one.family for one in unseen], known)
        return self.calibration.forecast(self.machine(name), without, anchors, fitted_similarity(group))

    def predict(self, name: str, frame: pd.DataFrame, left_out: Sequence[str]) -> RowForecast:
        """Times of rows of a frame on a machine."""
        return self.forecast(name, left_out).predict(self.forms_of(name, frame))

    def overhead(self, name: str, left_out: Sequence[str]) -> float:
        """Seconds of a launch beside the machine's own."""
        return self.forecast(name, left_out).belief.values(self.forms[0].name)["overhead"]

    def roofline(self, name: str, frame: pd.DataFrame) -> FloatArray:
        """The trivial baseline: data-sheet peaks."""
        return roofline(self.forms_of(name, frame))

    def calibrated_roofline(self, name: str, frame: pd.DataFrame, left_out: Sequence[str]) -> FloatArray:
        """The baseline of four numbers fitted to rows of every size of all machines that are not left out."""
        without = {machine(other).name for other in left_out}
        known = [form for form in self.forms if form.machine.name not in without]
        return roofline(self.forms_of(name, frame), four_numbers(known))
