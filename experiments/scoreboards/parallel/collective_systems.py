"""The systems of the public collection of collectives: their links by data sheet, and what was timed on them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.frames import csv_frame, parquet_frame
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

if TYPE_CHECKING:
    import pandas as pd

FOLDER = "gpu/vidur/network"
NCCL_FILES = "gpu/aiconfigurator/*/comm/nccl/*/nccl_perf.parquet"
"""Beside these stand an engine's own all-reduces, which are numbers of the law of steps (4.4 to 7.4 us in recorded
graphs over NVLink, fitted 5.8; over PCIe `step_device.PCIE_RANK_LATENCY`), and exchanges of experts' ranks (DeepEP,
TensorRT-LLM) under a routing of their own: no question is of one by itself."""
CLUSTERS = "collectives/collectives.csv.gz"
ABOVE = 64 * 1024
"""Bytes from which a transfer is fitted; below, calls from Python scatter by several times: of NCCL they are scored."""
KEYS = ["machine", "function", "workers", "per_node"]
"""What makes transfers of different sizes one series."""
NETWORK = {"bandwidth": "12.5 GB/s", "latency": "9.6 us", "width": 4096, "shared_by": 2}
"""100 Gbit/s for two devices: a guess at a rented network."""
SWITCH = {"latency": "3.4 us", "width": 8}
THREE = {"nvswitch": {"bandwidth": "300 GB/s", "generation": 3, **SWITCH}}
FOUR = {"nvswitch": {"bandwidth": "450 GB/s", "generation": 4, **SWITCH}}
FIVE = {"nvswitch": {"bandwidth": "900 GB/s", "generation": 5, **SWITCH}}
RACK = {"nvlink": {"bandwidth": "900 GB/s", "generation": 5, **SWITCH, "width": 72}}
NCCL_SYSTEMS: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]]]] = {
    "a100_sxm": ("a100-sxm-80gb", THREE),
    "h100_sxm": ("h100-sxm", FOUR),
    "h200_sxm": ("h200-sxm", FOUR),
    "b200_sxm": ("b200-sxm", FIVE),
    "b300_sxm": ("b300-sxm", FIVE),
    "gb200": ("gb200", RACK),
    "gb300": ("gb300", RACK),
    "cluster01": ("h100-sxm", FOUR),
    "perlmutter": (
        "a100-sxm-40gb",
        {
            "nvlink": {**THREE["nvswitch"], "width": 4},
            "slingshot": {"bandwidth": "25 GB/s", "latency": "14 us", "width": 4096},
        },
    ),
}
"""Systems of the tables of NCCL's own timings; the generation of a link says what it reaches. Perlmutter: NERSC's
architecture page (four A100 joined by NVLink, a 200 Gbit/s card each), latency of a network's step as NCCL's."""
PCIE4 = {"bandwidth": "31.5 GB/s", "latency": "5.7 us", "width": 4, "shared_by": 2}
PAIR = {"bandwidth": "300 GB/s", "latency": "3.4 us", "width": 2, "generation": 3}
SYSTEMS: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]]]] = {
    "a100_dgx": ("a100-sxm-80gb", {**THREE, "network": NETWORK}),
    "h100_dgx": ("h100-sxm", {**FOUR, "network": NETWORK}),
    "a100_pairwise_nvlink": ("a100-pcie-80gb", {"nvlink": PAIR, "pcie": PCIE4, "network": {**NETWORK, "shared_by": 4}}),
    "h100_pairwise_nvlink": (
        "h100-pcie",
        {
            "nvlink": {**PAIR, "generation": 4},
            "pcie": {**PCIE4, "bandwidth": "63 GB/s"},
            "network": {**NETWORK, "shared_by": 4},
        },
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
    """The same columns from NCCL's own timings inside a node; `machine` is the system's name, `noise` unknown.

    Sizes are of the whole buffer, of all devices' parts together: read as one part, eight devices would pass on more
    than their links do. All sizes, from 256 bytes on. Versions of the library are taken together, by the median.
    """
    import pandas as pd

    frames = [pd.DataFrame(columns=[*KEYS, "width", "bytes", "time", "noise"])]
    for path in sorted(folder.glob(NCCL_FILES)):
        raw = parquet_frame(path)
        raw = raw[(raw["nccl_dtype"] == "half") & raw["op_name"].isin(list(FUNCTIONS)) & (raw["latency"] > 0)]
        frame = pd.DataFrame(
            {
                "machine": path.parents[3].name,
                "function": raw["op_name"].map(FUNCTIONS),
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
    return frame.groupby([*KEYS, "width", "bytes"], as_index=False).median()


def cluster_timings(path: Path) -> pd.DataFrame:
    """The same columns from what users of two clusters timed by NCCL, within nodes and over them.

    MPI is left out, which stages device buffers through the host; of pairs of H100 nodes nobody states the network.
    """
    raw = csv_frame(path)
    raw = raw[(raw["library"] == "NCCL") & raw["cluster"].isin([*NCCL_SYSTEMS])]
    names = {"cluster": "machine", "operation": "function", "ranks": "workers", "gpus_per_node": "per_node"}
    frame = raw.rename(columns=names | {"buffer_bytes": "bytes", "time_s": "time"})
    frame["function"] = frame["function"].replace(FUNCTIONS | {"sendrecv": "send_recv"})
    return frame.assign(width=frame["per_node"], noise=0.0)


def described(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of systems whose links are known: an L40S node's path through its host is in no data sheet."""
    return frame[frame["machine"].isin([*SYSTEMS, *NCCL_SYSTEMS])].reset_index(drop=True)


FUNCTIONS = {name: name for name in ("all_reduce", "all_gather", "reduce_scatter")} | {"alltoall": "all_to_all"}
"""Of NCCL's own timings."""


@cache
def system(name: str) -> Machine:
    """A system of the collections as a machine with links."""
    device, links = {**NCCL_SYSTEMS, **SYSTEMS}[name]
    bare = machine(device)
    kept = {path: source for path, source in bare.sources.items() if not path.startswith("links")}
    return Machine.model_validate(bare.model_dump() | {"name": name, "links": links, "sources": kept})
