"""The lines of the scoreboard of GPU operations: which rows, which machines are left out, and the goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slipstick.estimators.gpu.transfer.device_fits import SAMPLE
from slipstick.experiments.scoreboards.gpu import gpu_data
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.workloads.graph.workload import Attribute

if TYPE_CHECKING:
    import pandas as pd

SGLANG = "sglang 0.5.10"
HOPPER = ("h100-sxm", "h200-sxm")
BLACKWELL = ("b200-sxm", "b300-sxm", "gb200", "gb300")
FAMILIES_OF_2017 = (
    ("m40", "titan-x-maxwell"),
    ("gtx-1080-ti", "p100-sxm", "titan-x-pascal", "titan-xp"),
    ("v100-sxm",),
    ("t4",),
    ("vega-fe", "mi25"),
)
"""GPUs that DeepBench ran its convolutions on."""
UNSEEN_VENDOR = {"all": 0.25}
"""Goal of the mean error where no machine of the vendor is known."""


@dataclass(frozen=True)
class GpuCase:
    """One line of the scoreboard.

    `load`, `keep`: reads a frame from a folder; keeps the rows that belong to the case.
    `stack`: the serving stack whose rows count ("sglang 0.5.10"); "" where a table has one alone.
    `test`: word in the names of the files whose rows are scored where a machine is left out; "" for all.
    `held_out`: machines left out together; each group is a turn.
    `goals`: upper bounds of the mean absolute percentage error, over all rows ("all") and those above 20 us ("long").
    """

    name: str
    load: Callable[[Path], pd.DataFrame]
    kind: str
    dtype: str
    held_out: tuple[tuple[str, ...], ...]
    goals: Mapping[str, float]
    facts: Mapping[str, Attribute] = field(default_factory=dict)
    keep: Callable[[pd.DataFrame], pd.Series[bool]] | None = None
    test: str = ""
    sample: int = SAMPLE
    stack: str = ""

    def frame(self, folder: Path) -> pd.DataFrame:
        """The rows of the case below a folder."""
        frame = self.of_all_stacks(folder)
        return frame[frame["stack"] == self.stack] if self.stack and len(frame) else frame

    def of_all_stacks(self, folder: Path) -> pd.DataFrame:
        """The rows of the case, whatever stack ran them."""
        frame = self.load(folder)
        return frame[self.keep(frame)] if self.keep and len(frame) else frame

    @property
    def source(self) -> tuple[str, str, str, str]:
        """What lines share that are predicted from the same fits."""
        return repr(self.load), self.kind, repr(sorted(self.facts)), repr(self.keep)

    def board(self, frame: pd.DataFrame) -> OperationBoard:
        """Fits to the rows of a frame, and predictions from them."""
        return OperationBoard(frame, self.kind, self.dtype, self.facts, self.sample, self.test)

    def scored(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Of a frame, the rows that are scored where a machine is left out."""
        return frame[frame["file"].str.contains(self.test)] if self.test else frame


def _of_width(frame: pd.DataFrame, width: str) -> pd.Series[bool]:
    """Rows of products or attention in one type; FP8 scaled a tensor and in blocks are other kernels."""
    kept = frame["dtype"].isin(["bfloat16", "float16"] if width == "bfloat16" else [width])
    if "window" in frame:
        kept &= frame["kv_dtype"].isin(["bfloat16", "float16"]) & (frame["window"] == 0)
    return kept


def _gpus(frame: pd.DataFrame) -> pd.Series[bool]:
    """Rows of GPUs: DeepBench ran a many-core processor, too."""
    return frame["machine"].isin([name for group in FAMILIES_OF_2017 for name in group])


def _blocks_where_run(frame: pd.DataFrame) -> pd.Series[bool]:
    """Rows in blocks of Hopper and Blackwell, and rows scaled a tensor of the generation that ran no others."""
    blocks = frame["machine"].isin(HOPPER + BLACKWELL)
    return (frame["dtype"] == "float8_block").where(blocks, frame["dtype"] == "float8")


def cases() -> tuple[GpuCase, ...]:
    """The lines of the scoreboard, with their goals."""
    return (*_training_kernels(), *_serving_kernels(), *_vendor_left_out(), *_deepbench_products())


def _training_kernels() -> tuple[GpuCase, ...]:
    """Kernels of NeuSight and DeepBench."""
    products = gpu_data.neusight_products
    unseen = (("l4",), ("a100-pcie-80gb",))
    neusight = partial(GpuCase, kind="gemm", dtype="float32", test="test")
    return (
        neusight(
            "neusight bmm, H100", partial(products, operation="bmm"), held_out=(("h100-sxm",),), goals={"all": 0.15}
        ),
        neusight(
            "neusight linear, H100",
            partial(products, operation="linear"),
            held_out=(("h100-sxm",),),
            goals={"all": 0.10},
        ),
        neusight(
            "neusight linear, MI210", partial(products, operation="linear"), held_out=(("mi210",),), goals={"all": 0.10}
        ),
        neusight(
            "neusight bmm, other machines", partial(products, operation="bmm"), held_out=(*unseen, ("mi210",)), goals={}
        ),
        neusight("neusight linear, other machines", partial(products, operation="linear"), held_out=unseen, goals={}),
        GpuCase(
            "neusight elementwise, unseen",
            gpu_data.neusight_elementwise,
            "elementwise",
            "float32",
            unseen,
            {"all": 0.05},
            {"function": "add"},
            test="test",
        ),
        GpuCase(
            "neusight softmax, unseen",
            partial(gpu_data.neusight_rows, operation="softmax"),
            "softmax",
            "float32",
            unseen,
            {"all": 0.18},
            test="test",
        ),
        GpuCase(
            "neusight layernorm, unseen",
            partial(gpu_data.neusight_rows, operation="ln"),
            "norm",
            "float32",
            unseen,
            {"all": 0.18},
            test="test",
        ),
        GpuCase(
            "neusight convolution",
            gpu_data.neusight_convolutions,
            "convolution",
            "float32",
            (("p4",), ("p100-pcie",), ("t4",), ("v100-pcie",), ("a100-pcie-80gb",)),
            {"all": 0.20},
            {"stride": (1, 1)},
        ),
        *(
            GpuCase(
                f"deepbench convolution, {name}",
                partial(gpu_data.deepbench_convolutions, dtype=dtype),
                "convolution",
                dtype,
                groups,
                {},
                keep=_gpus,
            )
            for name, dtype, groups in (
                ("FP32, families left out", "float32", FAMILIES_OF_2017),
                ("FP16, one of two left out", "float16", (("v100-sxm",), ("t4",))),
            )
        ),
    )


def _serving_kernels() -> tuple[GpuCase, ...]:
    """Kernels of serving stacks."""
    left = (("a100-sxm-80gb",), ("l40s",), ("h100-sxm",), ("h200-sxm",), BLACKWELL)
    bfloat16 = partial(_of_width, width="bfloat16")
    attention = partial(
        GpuCase, kind="attention", dtype="bfloat16", held_out=left, keep=bfloat16, stack=SGLANG, sample=1000
    )
    served = partial(
        GpuCase, load=partial(gpu_data.aiconfigurator, operation="gemm"), kind="gemm", stack=SGLANG, sample=1000
    )
    return (
        attention(
            "context attention",
            partial(gpu_data.aiconfigurator, operation="context_attention"),
            goals={"all": 0.15},
            facts={"causal": True},
        ),
        attention(
            "generation attention",
            partial(gpu_data.aiconfigurator, operation="generation_attention"),
            goals={"all": 0.20},
            facts={"causal": False},
        ),
        served(
            "BF16 gemm, one generation left out",
            dtype="bfloat16",
            held_out=(("a100-sxm-80gb",), ("l40s",), HOPPER, BLACKWELL),
            goals={"all": 0.14, "long": 0.08},
            keep=bfloat16,
        ),
        served(
            "FP8 gemm a tensor, one generation left out",
            dtype="float8",
            held_out=(("l40s",), HOPPER, BLACKWELL),
            goals={},
            keep=partial(_of_width, width="float8"),
        ),
        served(
            "FP8 gemm in blocks, one generation left out",
            dtype="float8",
            held_out=(HOPPER, BLACKWELL),
            goals={},
            keep=_blocks_where_run,
        ),
        served(
            "FP8 gemm in blocks, its chip known",
            dtype="float8_block",
            held_out=(("h100-sxm",), ("h200-sxm",)),
            goals={},
            keep=partial(_of_width, width="float8_block"),
        ),
    )


def _deepbench_products() -> tuple[GpuCase, ...]:
    """Products in float32 on cards that nobody else timed."""
    return tuple(
        GpuCase(f"deepbench gemm, {name}", gpu_data.deepbench_products, "gemm", "float32", ((name,),), {"all": goal})
        for name, goal in (("vega-fe", 0.18), ("mi25", 0.18), ("xeon-phi-7250", 0.14))
    )


def _vendor_left_out() -> tuple[GpuCase, ...]:
    """All machines of AMD left out together: their libraries, launches and caches are none that the others know."""
    amd = (("mi100", "mi210"),)
    products = [
        GpuCase(
            f"neusight {name}, vendor left out",
            partial(gpu_data.neusight_products, operation=name),
            "gemm",
            "float32",
            amd,
            UNSEEN_VENDOR,
        )
        for name in ("bmm", "linear")
    ]
    return (
        *products,
        GpuCase(
            "neusight elementwise, vendor left out",
            gpu_data.neusight_elementwise,
            "elementwise",
            "float32",
            amd,
            UNSEEN_VENDOR,
            {"function": "add"},
        ),
        *(
            GpuCase(
                f"neusight {title}, vendor left out",
                partial(gpu_data.neusight_rows, operation=name),
                kind,
                "float32",
                amd,
                UNSEEN_VENDOR,
            )
            for title, name, kind in (("softmax", "softmax", "softmax"), ("layernorm", "ln", "norm"))
        ),
        GpuCase(
            "deepbench gemm, vendor left out",
            gpu_data.deepbench_products,
            "gemm",
            "float32",
            (("vega-fe", "mi25"),),
            UNSEEN_VENDOR,
        ),
    )
