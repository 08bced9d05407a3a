"""The systems of the public collection of collectives: their links by data sheet, and what was timed on them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.frames import csv_frame, parquet_frame
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "gpu/vidur/network"
ABOVE = 64 * 1024
"""Bytes from which a transfer counts."""
KEYS = ["machine", "function", "workers", "per_node"]
"""What makes transfers of different sizes one series."""
NETWORK = {"bandwidth": "12.5 GB/s", "latency": "9.6 us", "width": 4096, "shared_by": 2}
"""100 Gbit/s for two devices: a guess at a rented network."""
SWITCH = {"latency": "3.4 us", "width": 8}
QUICKER = 0.65
"""Time of the smallest calls through NVSwitch of Hopper over Ampere's: NCCL's own public timings of 2, 4 and 8 devices
(all-reduce of 512 B to 64 KB: 6.2 to 18.7 us on H100, 10.0 to 28.1 us on A100, NCCL 2.27.3)."""
SWITCH4 = {**SWITCH, "latency": "2.2 us"}
NCCL_SYSTEMS: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]]]] = {
    "a100_sxm": ("a100-sxm-80gb", {"nvswitch": {"bandwidth": "300 GB/s", **SWITCH}}),
    "h100_sxm": ("h100-sxm", {"nvswitch4": {"bandwidth": "450 GB/s", **SWITCH4}}),
    "h200_sxm": ("h200-sxm", {"nvswitch4": {"bandwidth": "450 GB/s", **SWITCH4}}),
    "b200_sxm": ("b200-sxm", {"nvswitch5": {"bandwidth": "900 GB/s", **SWITCH4}}),
    "b300_sxm": ("b300-sxm", {"nvswitch5": {"bandwidth": "900 GB/s", **SWITCH4}}),
    "gb200": ("gb200", {"nvswitch5": {"bandwidth": "900 GB/s", **SWITCH4, "width": 72}}),
    "gb300": ("gb300", {"nvswitch5": {"bandwidth": "900 GB/s", **SWITCH4, "width": 72}}),
}
"""Systems of the tables of NCCL's own timings; a link's name says its generation, since each reaches its own share."""
PCIE4 = {"bandwidth": "31.5 GB/s", "latency": "5.7 us", "width": 4, "shared_by": 2}
PAIR = {"bandwidth": "300 GB/s", "latency": "3.4 us", "width": 2}
SYSTEMS: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]]]] = {
    "a100_dgx": ("a100-sxm-80gb", {"nvswitch": {"bandwidth": "300 GB/s", **SWITCH}, "network": NETWORK}),
    "h100_dgx": ("h100-sxm", {"nvswitch4": {"bandwidth": "450 GB/s", **SWITCH4}, "network": NETWORK}),
    "a100_pairwise_nvlink": ("a100-pcie-80gb", {"nvlink": PAIR, "pcie": PCIE4, "network": {**NETWORK, "shared_by": 4}}),
    "h100_pairwise_nvlink": (
        "h100-pcie",
        {"nvlink": PAIR, "pcie": {**PCIE4, "bandwidth": "63 GB/s"}, "network": {**NETWORK, "shared_by": 4}},
    ),
    "a40_pairwise_nvlink": (
        "a40",
        {"host": {**PCIE4, "bandwidth": "10 GB/s", "width": 8}, "network": {**NETWORK, "shared_by": 8}},
    ),
}
"""The collection's systems: a device of the catalogue and its links, nearest first. NVLink and PCIe by data sheet,
latencies by NCCL's tuning model; two A40 without a bridge talk through the host's memory at no stated rate."""


def timings(folder: Path) -> pd.DataFrame:
    """Columns machine, function, workers, per_node, width (devices of a node), bytes, time [s], noise (relative)."""
    import pandas as pd

    frames = [pd.DataFrame(columns=[*KEYS, "width", "bytes", "time", "noise"])]
    for path in sorted((folder / FOLDER).glob("*/*.csv.gz")):
        raw = csv_frame(path)
        stem = f"time_stats.{raw['collective'].iloc[0]}."
        frames.append(
            pd.DataFrame(
                {
                    "machine": path.parent.name,
                    "function": raw["collective"],
                    "workers": raw["num_workers"],
                    "per_node": raw["devices_per_node"],
                    "width": raw["max_devices_per_node"],
                    "bytes": raw["size"],
                    "time": raw[f"{stem}median"] * 1e-3,
                    "noise": raw[f"{stem}std"] / raw[f"{stem}median"],
                }
            )
        )
    frame = pd.concat(frames[1:] or frames, ignore_index=True)
    return frame[frame["bytes"] > ABOVE]


def nccl_timings(folder: Path) -> pd.DataFrame:
    """The same columns from NCCL's own all-reduces inside a node; `machine` is the system's name, `noise` unknown.

    Its other functions are left out: their sizes count one device's part or all of them, by function.
    """
    import pandas as pd

    frames = [pd.DataFrame(columns=[*KEYS, "width", "bytes", "time", "noise"])]
    for path in sorted((folder / "gpu/aiconfigurator").glob("*/comm/nccl/*/nccl_perf.parquet")):
        raw = parquet_frame(path)
        raw = raw[(raw["nccl_dtype"] == "half") & (raw["op_name"] == "all_reduce") & (raw["latency"] > 0)]
        frame = pd.DataFrame(
            {
                "machine": path.parents[3].name,
                "function": raw["op_name"],
                "workers": raw["num_gpus"],
                "per_node": raw["num_gpus"],
                "width": 8,
                "bytes": raw["message_size"] * 2,
                "time": raw["latency"] * 1e-3,
                "noise": 0.0,
            }
        )
        frames.append(frame)
    frame = pd.concat(frames[1:] or frames, ignore_index=True)
    frame = frame.groupby([*KEYS, "width", "bytes"], as_index=False).median()
    known = frame["machine"].isin(list(NCCL_SYSTEMS))  # an L40S node's path through its host is in no data sheet
    return frame[known & (frame["bytes"] > ABOVE)].reset_index(drop=True)


@cache
def system(name: str) -> Machine:
    """A system of the collections as a machine with links."""
    device, links = {**NCCL_SYSTEMS, **SYSTEMS}[name]
    bare = machine(device)
    data = bare.model_dump() | {"name": name, "links": links}
    return Machine.model_validate(data)
