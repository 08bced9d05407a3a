"""Costs of sparse products on whole devices, fitted to Ginkgo's public times, with spreads of devices left out.

Two traps of the data are undone here: `nnz` counts explicit zeros that were not stored (the time follows
`storage_bytes`), and for some devices (K40m, titanV) that column *is* the number of non-zeros.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows, read_number
from slipstick.common.records import FrozenDict
from slipstick.estimators.sparse.spmv_devices import (
    CALL,
    DIMS,
    FORMATS,
    HYBRID,
    SLICED,
    DeviceCosts,
    SpmvDevices,
    TrainedDevices,
    amount_table,
    fit_device,
    spread_of,
    widenings,
)
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.hwmodels.catalog import machine, name_of_device
from slipstick.hwmodels.machine import Machine

TIMES, MATRICES = "spmv/ginkgo_spmv_times.csv.gz", "spmv/ginkgo_matrices.csv.gz"
LEAST_NONZEROS = 1e6
IN_BYTES = 3
"""A size of a format below so many times the non-zeros counts entries and not bytes: a device's column is another."""
DEVICES = {
    "K20Xm": "k20xm",
    "K40m": "k40m",
    "titanV": "titan-v",
    "RadeonVII": "radeon-vii",
    "V100_SXM2": "v100-sxm",
    "V100_PCIE": "v100-pcie",
    "V100": "v100-sxm",
    "Xeon_Gold_6230": "xeon-gold-6230",
    "titanX": "titan-x-pascal",
    "TitanX": "titan-x-pascal",
    "titanXp": "titan-xp",
    "P100": "p100-pcie",
    "P100_PCIE": "p100-pcie",
    "P100_SXM2": "p100-sxm",
    "A100": "a100-sxm-40gb",
    "A100_SXM4": "a100-sxm-40gb",
    "A100_PCIE": "a100-pcie-40gb",
    "MI100": "mi100",
    "MI25": "mi25",
    "MI210": "mi210",
    "MI250": "mi250-gcd",
    "MI250X": "mi250-gcd",
    "T4": "t4",
}
CALL_SECONDS = {"s": CALL, "ns": 2.5e-5}
"""A call by the benchmark's protocol: calls averaged back to back (raw unit s), or each waited for (raw unit ns)."""
STATISTICS = ("rows", "cols", "nnz", "rownnz_max", "rownnz_mean", "rownnz_variance")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Products:
    """The products timed on one device.

    `device`: as the data name it.
    `call`: seconds of a call under its protocol.
    `seconds`: shape (products,).
    `dims`: of the products, as their format needs them.
    `stored`: the format.
    """

    device: str
    machine: Machine
    call: float
    seconds: Floats
    dims: dict[str, Floats]
    stored: str = "csr"

    @property
    def amount(self) -> Floats:
        """What each product does, by the terms of `spmv_devices`."""
        return amount_table(self.dims, self.machine, self.call, self.stored)

    @property
    def roofline(self) -> Floats:
        """A call, and the bytes that must move at the data sheet's bandwidth."""
        return np.asarray(self.amount[:, :2].sum(axis=1))


def read_products(
    times: Path, matrices: Path, stored: str = "csr", without: Container[tuple[str, str]] = ()
) -> tuple[dict[str, Products], list[str]]:
    """The products of at least a million non-zeros in a format by device, and the devices that the catalogue lacks.

    `without`: (device, matrix) of products that are not to be known.

    Raises InputError, which names file, line and column of what cannot be read.
    """
    facts: dict[str, dict[str, float]] = {}
    for line, row in read_csv_rows(matrices, ("matrix", *STATISTICS)):
        facts[row["matrix"]] = {c: read_number(row[c] or "0", matrices, line, c) for c in STATISTICS}
    kept: dict[str, list[tuple[str, float]]] = {}
    units: dict[str, str] = {}
    sizes: dict[str, dict[str, list[float]]] = {}
    for line, row in read_csv_rows(times, ("platform", "matrix", "format", "time_s", "storage_bytes", "raw_unit")):
        statistics, device = facts.get(row["matrix"]), row["platform"]
        if row["format"] not in FORMATS or statistics is None or statistics["nnz"] < LEAST_NONZEROS:
            continue
        if row["storage_bytes"]:
            size = read_number(row["storage_bytes"], times, line, "storage_bytes", 0.0)
            sizes.setdefault(row["format"], {}).setdefault(row["matrix"], []).append(size)
        if row["format"] == stored and row["time_s"] and (device, row["matrix"]) not in without:
            kept.setdefault(device, []).append((row["matrix"], read_number(row["time_s"], times, line, "time_s", 1e-9)))
            units[device] = row["raw_unit"]
    columns = {name: _dims(facts[name], name, sizes) for pairs in kept.values() for name, _ in pairs}
    result = {
        device: _products(device, units[device], pairs, columns, stored)
        for device, pairs in kept.items()
        if machine_of(device)
    }
    return result, sorted(set(kept) - set(result))


def machine_of(device: str) -> str:
    """The catalogue's name of a device of the data; "" where it has none."""
    return DEVICES.get(device) or name_of_device(device.replace("_", " ")) or ""


def _dims(facts: dict[str, float], name: str, sizes: dict[str, dict[str, list[float]]]) -> dict[str, float]:
    """Of one matrix; where a format's size is not known, that of its non-zeros."""
    compressed = [_stored(size, facts) for size in sizes.get("csr", {}).get(name, [])]
    nonzeros = max(min([*compressed, facts["nnz"]]), 1.0)
    values = (
        facts["rows"],
        facts["cols"],
        nonzeros,
        facts["rownnz_max"],
        float(np.sqrt(max(facts["rownnz_variance"], 0.0))) / max(facts["rownnz_mean"], 1e-9),
    )
    sliced, hybrid = (
        float(np.median([size for size in sizes.get(kind, {}).get(name, []) if size > IN_BYTES * nonzeros] or [0.0]))
        for kind in ("sellp", "hybrid")
    )
    more = {SLICED: max(sliced / 12, nonzeros), HYBRID: hybrid or 13 * nonzeros}
    return {**dict(zip(DIMS, values, strict=True)), **more}


def _stored(size: float, statistics: dict[str, float]) -> float:
    """Non-zeros from bytes in compressed rows, or from a column that counts them: bytes are many times the count."""
    return size if size <= statistics["nnz"] else (size - 4 * (statistics["rows"] + 1)) // 12


def _products(
    device: str, unit: str, pairs: list[tuple[str, float]], columns: dict[str, dict[str, float]], stored: str
) -> Products:
    dims = {dim: np.array([columns[name][dim] for name, _ in pairs]) for dim in FORMATS[stored]}
    seconds = np.array([time for _, time in pairs])
    return Products(device, machine(machine_of(device)), CALL_SECONDS.get(unit, CALL), seconds, dims, stored)


def fit_public(stored: str = "csr") -> TrainedDevices:
    """The model that ships for a format: all public devices, each left out in turn for the spreads.

    Raises InputError where the public data are not there.
    """
    times, matrices = training_file(TIMES), training_file(MATRICES)
    if times is None or matrices is None:
        raise InputError(why_missing(TIMES))
    known, _ = read_products(times, matrices, stored)
    costs = {name: fit_device(products.amount, products.seconds, products.machine) for name, products in known.items()}
    return left_out(known, costs)


def left_out(known: Mapping[str, Products], costs: Mapping[str, DeviceCosts]) -> TrainedDevices:
    """These devices with their costs, and the spreads of each predicted by the others (0 where it is the only one)."""
    logs = []
    for name, products in known.items():
        others = [other for other in known if other != name]
        if others:
            logs.append(np.log(products.seconds / predict(pooled(known, costs, others), products)))
    between, within = spread_of(logs) if logs else (0.0, 0.0)
    count = sum(len(products.seconds) for products in known.values())
    kind = next(iter(known.values())).stored
    source = f"{len(known)} devices, {count:,} {kind} products of SuiteSparse matrices in Ginkgo (CC-BY-4.0)"
    trust = widenings([np.exp(one) for one in logs], between, within)
    by_count = FrozenDict({str(count): doubt for count, doubt in trust.items()})
    return TrainedDevices(pooled(known, costs, list(known)), between, within, source, by_count)


def pooled(known: Mapping[str, Products], costs: Mapping[str, DeviceCosts], names: Sequence[str]) -> SpmvDevices:
    """The model of some of the devices."""
    ratios = np.concatenate([known[name].seconds / known[name].roofline for name in names])
    return SpmvDevices(tuple(costs[name] for name in names), float(np.median(ratios)), stored=known[names[0]].stored)


def predict(model: SpmvDevices, products: Products) -> Floats:
    """Seconds of the given products, under their protocol of calls."""
    return replace(model, call=products.call).seconds(products.dims, products.machine)
