"""Public measurements of single GPU operations as tidy frames: what ran where, its dims, and seconds.

Every frame has the columns `device` (the collection's name), `machine` (ours, "" where the catalogue lacks it), `time`
[s], `key` (what identifies a row in its collection, the device included) and the dims of the operation's kind. The
loaders take the folder to read, so that the same code serves training and scored data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.frames import csv_frame, parquet_frame
from slipstick.hwmodels.catalog import aliases, machine_names
from slipstick.hwmodels.catalog.names import exact

if TYPE_CHECKING:
    import pandas as pd

MACHINES = {
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40gb",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80gb",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA L4": "l4",
    "Tesla P100-PCIE-16GB": "p100-pcie",
    "Tesla P4": "p4",
    "Tesla T4": "t4",
    "Tesla V100-PCIE-32GB": "v100-pcie",
    "Tesla V100-SXM2-16GB": "v100-sxm",
    "AMD Instinct MI100": "mi100",
    "AMD Instinct MI210": "mi210",
    "AMD Instinct MI250": "mi250-gcd",
    "a100_sxm": "a100-sxm-80gb",
    "a100_pcie": "a100-pcie-80gb",
    "a30": "a30",
    "h100_sxm": "h100-sxm",
    "h100_pcie": "h100-pcie",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "b300_sxm": "b300-sxm",
    "b60": "arc-b60",
    "gb200": "gb200",
    "gb300": "gb300",
    "gh200": "gh200",
    "h20_sxm": "h20-sxm",
    "h800_sxm": "h800-sxm",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
    "l4": "l4",
    "l40s": "l40s",
    "DeepBench_AMD_MI25": "mi25",
    "DeepBench_AMD_VegaFE": "vega-fe",
    "DeepBench_IA_KNL7250": "xeon-phi-7250",
    "DeepBench_NV_1080Ti": "gtx-1080-ti",
    "DeepBench_NV_M40": "m40",
    "DeepBench_NV_P100": "p100-sxm",
    "DeepBench_NV_T4": "t4",
    "DeepBench_NV_TitanX": "titan-x-maxwell",
    "DeepBench_NV_TitanX_Pascal": "titan-x-pascal",
    "DeepBench_NV_TitanXp": "titan-xp",
    "DeepBench_NV_V100": "v100-sxm",
}
"""Devices of the collections in the catalogue. DeepBench's P100 and V100 stand in its sheets as SXM2 boards."""

NEUSIGHT = "gpu/neusight"
GEMM_DIMS = ("batch", "m", "n", "k")
CONVOLUTION_DIMS = (
    "batch",
    "channels_in",
    "channels_out",
    "groups",
    *(f"{part}_{axis}" for part in ("in", "out", "kernel") for axis in ("depth", "height", "width")),
)
ATTENTION_DIMS = ("batch", "heads", "kv_heads", "queries", "keys", "head_dim", "value_dim")
# Operands read per element of the result, by NeuSight's names; a trailing u is the form with a scalar.
ELEMENTWISE_READS = {"add": 2, "mul": 2, "div": 2, "pow": 2}


@cache
def machine_of(device: str) -> str:
    """The catalogue's name of a device; "" where it is not there."""
    name = MACHINES.get(device.replace("_", " ").strip(), MACHINES.get(device, ""))
    return name if name in machine_names() else exact(device.replace("_", " "), aliases()) or ""


def neusight_products(folder: Path, operation: str) -> pd.DataFrame:
    """FP32 `bmm` or `linear`: dims batch, m (features out), n (rows), k; the column N of the files is the reduction."""
    frame = _files(folder, [f"{NEUSIGHT}/{name}_{operation}.csv.gz" for name in ("nv_train", "nv_test", "amd_test")])
    if frame.empty:
        return frame
    dims = frame.rename(columns={"B": "batch", "K": "m", "M": "n", "N": "k"})
    return _tidy(dims, GEMM_DIMS, ["OPName"])


def neusight_elementwise(folder: Path) -> pd.DataFrame:
    """FP32 elementwise operations: dims elements, reads, writes; `function` is NeuSight's name."""
    names = ["nv_train_elem", "nv_test_elem", "nv_collect_elem_all", "amd_train_elem"]
    frame = _files(folder, [f"{NEUSIGHT}/{name}.csv.gz" for name in names])
    if frame.empty:
        return frame
    frame["elements"] = frame.B * frame.H
    frame["reads"] = frame.elements * frame.OPName.map(lambda name: ELEMENTWISE_READS.get(name, 1))
    frame["writes"] = frame.elements
    frame["function"] = frame.OPName
    return _tidy(frame, ("elements", "reads", "writes"), ["OPName", "B", "H"])


def neusight_rows(folder: Path, operation: str) -> pd.DataFrame:
    """FP32 `softmax` (dims rows, columns) or `ln` (dims elements, groups) over the last axis."""
    names = [f"nv_train_{operation}", f"nv_test_{operation}", f"amd_train_{operation}"]
    frame = _files(folder, [f"{NEUSIGHT}/{name}.csv.gz" for name in names])
    if frame.empty:
        return frame
    frame = frame.rename(columns={"B": "rows", "H": "columns"})
    frame["elements"], frame["groups"] = frame.rows * frame["columns"], frame.rows
    return _tidy(frame, ("rows", "columns", "elements", "groups"), ["OPName"])


def neusight_convolutions(folder: Path) -> pd.DataFrame:
    """FP32 3 x 3 convolutions, stride 1, padding 1."""
    frame = _files(folder, [f"{NEUSIGHT}/nv_train_conv.csv.gz", f"{NEUSIGHT}/nv_test_conv.csv.gz"])
    if frame.empty:
        return frame
    kernel, size = frame["Kernel_Szie"], frame["Input_Size"]
    out = (size + 2 * frame["Padding"] - kernel) // frame["Stride"] + 1
    frame = frame.rename(columns={"B": "batch", "Input_Channel": "channels_in", "Output_Channel": "channels_out"})
    columns = {f"{p}_{a}": v for p, v in (("in", size), ("out", out), ("kernel", kernel)) for a in ("height", "width")}
    depths = {f"{part}_depth": 1 for part in ("in", "out", "kernel")}
    frame = frame.assign(groups=1, **depths, **columns)
    frame = frame[(kernel == 3) & (frame["Stride"] == 1)]
    return _tidy(frame, CONVOLUTION_DIMS, ["OPName"])


def aiconfigurator(folder: Path, operation: str) -> pd.DataFrame:
    """`gemm`, `context_attention` or `generation_attention` with `stack`, `dtype` and, where measured, `power` [W]."""
    import pandas as pd

    group = "gemm" if operation == "gemm" else "attention"
    paths = sorted((folder / "gpu/aiconfigurator").glob(f"*/{group}/*/*/{operation}_perf.parquet"))
    frames = []
    for path in paths:
        frame = parquet_frame(path)
        device, _, framework, version = path.parts[-5:-1]
        frames.append(frame.assign(Device=device, stack=f"{framework} {version}"))
    if not frames:
        return pd.DataFrame()
    frame = pd.concat(frames, ignore_index=True).rename(columns={"latency": "Latency"})
    if operation == "gemm":
        frame = frame.rename(columns={"n": "m", "m": "n"}).assign(batch=1, dtype=frame["gemm_dtype"].replace(_DTYPES))
        return _tidy(frame, GEMM_DIMS, ["stack", "dtype"], ["power", "power_limit"])
    frame["kv_dtype"] = frame["kv_cache_dtype"].replace(_DTYPES)
    frame["dtype"] = frame["attn_dtype"].replace(_DTYPES)
    frame = frame.rename(columns={"batch_size": "batch", "num_heads": "heads", "num_key_value_heads": "kv_heads"})
    frame["kv_heads"] = frame.kv_heads.where(frame.kv_heads > 0, frame.heads)
    frame["queries"] = frame.isl
    frame["keys"] = frame.isl + frame.step
    frame["value_dim"] = frame.head_dim
    if "window_size" not in frame:
        frame["window_size"] = 0
    frame["window"] = frame.window_size.fillna(0)
    return _tidy(frame, ATTENTION_DIMS, ["stack", "dtype", "kv_dtype", "window"], ["power", "power_limit"])


_DTYPES = {"fp8": "float8", "fp8_block": "float8_block", "float16": "float16"}


def deepbench_products(folder: Path) -> pd.DataFrame:
    """FP32 training GEMMs of DeepBench: the sheets' M is a row count of the column-major result, hence our m."""
    import pandas as pd

    path = folder / "gpu/deepbench/gemm_train_wide.csv"
    if not path.exists():
        return pd.DataFrame()
    frame = csv_frame(path)
    frame = frame[frame.sheet.str.contains("FP32") & ~frame.sheet.str.contains("16")]
    frame["Latency"] = pd.to_numeric(frame["Time (msec)"], errors="coerce")
    frame = frame.dropna(subset="Latency").rename(columns={"file": "Device", "M": "m", "N": "n", "K": "k"})
    frame["layout"] = frame["A Transpose"].astype(str) + frame["B Transpose"].astype(str)
    return _tidy(frame.assign(batch=1), GEMM_DIMS, ["layout"])


def deepbench_convolutions(folder: Path, dtype: str) -> pd.DataFrame:
    """DeepBench's convolutions of training, float32 or float16: three passes, by `direction`; `stride` beside the dims.

    Rows of a pass, filter and stride stand together: they are one form of formula.
    """
    import pandas as pd

    path = folder / "gpu/deepbench/deepbench_long.csv"
    if not path.exists():
        return pd.DataFrame()
    frame = csv_frame(path)
    frame = frame[(frame.section == "W") & (frame["mode"] == "train")]
    half = frame.sheet.str.contains("FP16")
    frame = frame[(half if dtype == "float16" else ~half) & ~frame.sheet.str.contains("Psuedo")]
    wide = frame.pivot_table(index=["file", "row"], columns="field", values="value", aggfunc="first").reset_index()
    if wide.empty:
        return pd.DataFrame()
    sizes = {name: pd.to_numeric(_first(wide, spellings), errors="coerce") for name, spellings in _FIELDS.items()}
    dims = pd.DataFrame({"Device": wide["file"], "batch": sizes["N"], "channels_in": sizes["C"]})
    dims = dims.assign(channels_out=sizes["K"], groups=1, in_depth=1, out_depth=1, kernel_depth=1)
    for axis, size, kernel in (("height", "H", "R"), ("width", "W", "S")):
        dims[f"in_{axis}"], dims[f"kernel_{axis}"] = sizes[size], sizes[kernel]
        padded = sizes[size] + 2 * sizes[f"pad {axis}"] - sizes[kernel]
        dims[f"out_{axis}"] = padded // sizes[f"stride {axis}"] + 1
    dims["stride"] = list(zip(sizes["stride height"].astype(int), sizes["stride width"].astype(int), strict=True))
    parts = [
        dims.assign(direction=direction, Latency=pd.to_numeric(wide[column], errors="coerce"))
        for column, direction in _PASSES.items()
    ]
    rows = pd.concat(parts).dropna(subset="Latency")
    rows = rows.sort_values(["Device", "direction", "kernel_height", "kernel_width", "stride"], kind="stable")
    return _tidy(rows, CONVOLUTION_DIMS, ["direction", "stride"])


_FIELDS = {
    **{name: (name,) for name in "NCKHW"},
    "R": ("R", "R (Filter height)"),
    "S": ("S", "S (Filter width)", "S (Fitler width)"),
    "pad height": ("pad_h",),
    "pad width": ("pad_w",),
    "stride height": ("Vertical stride", "Vertical Stride"),
    "stride width": ("Horizontal stride", "Horizontal Stride"),
}
"""Of DeepBench's convolutions, by the spellings of its sheets."""
_PASSES = {
    "Forward (msec)": "forward",
    "wrt Inputs (msec)": "backward_data",
    "wrt Parameters (msec)": "backward_weight",
}


def _first(frame: pd.DataFrame, names: Sequence[str]) -> pd.Series[Any]:
    """The first of some columns that has a value, row by row."""
    return frame.reindex(columns=list(names)).bfill(axis=1).iloc[:, 0]


def without(frame: pd.DataFrame, keys: Iterable[int]) -> pd.DataFrame:
    """The rows whose key is not among `keys`."""
    return frame[~frame["key"].isin(set(keys))] if len(frame) else frame


def _files(folder: Path, names: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    frames = [csv_frame(folder / name).assign(file=name) for name in names if (folder / name).exists()]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _tidy(frame: pd.DataFrame, dims: Sequence[str], facts: Sequence[str], more: Sequence[str] = ()) -> pd.DataFrame:
    """Common columns; rows of one key are one row with their median time."""
    import pandas as pd

    kept: dict[str, Any] = {name: frame[name].astype(float) for name in dims}
    kept |= {name: frame[name] for name in (*facts, "function", "file") if name in frame}
    kept |= {name: frame[name] if name in frame else float("nan") for name in more}
    result = pd.DataFrame({"device": frame["Device"], "time": frame["Latency"].astype(float) * 1e-3, **kept})
    result = result[result.time > 0]
    identity = ["device", *facts, *dims]
    result["key"] = pd.util.hash_pandas_object(result[identity], index=False)
    first = result.drop_duplicates("key").set_index("key")
    if len(first) < len(result):
        first["time"] = result.groupby("key").time.median()
    first["machine"] = first.device.map({device: machine_of(device) for device in first.device.unique()})
    return first.reset_index()
