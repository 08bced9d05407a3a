"""Whole products timed by others on devices that the model never saw: CSR in Ginkgo, SuiteSparse matrices.

Only statistics of the rows are known, no positions. Two traps of the data are undone here: `nnz` counts explicit
zeros that were not stored (the time follows `storage_bytes`), and for K40m and titanV that column *is* the number of
non-zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.rows import ValidationRow, skipped
from experiments.validation.data import scored_file, training_file, why_missing
from hwmodels.catalog import machine
from hwmodels.files import read_csv_rows, read_number
from hwmodels.machine import Machine

TIMES, MATRICES = "spmv/ginkgo_spmv_times.csv.gz", "spmv/ginkgo_matrices.csv.gz"
DATASET = "Ginkgo CSR, at least 1e6 non-zeros"
LEAST_NONZEROS = 1e6
GOALS = {"Xeon_Gold_6230": 0.22, "V100_SXM2": 0.12, "RadeonVII": 0.20}
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
    "T4": "t4",
}
PROCESSORS = frozenset({"intel-cascade-lake", "intel-skylake", "amd-zen2", "amd-zen"})
COUNTS_NONZEROS = ("K40m", "titanV")
TRUST = 0.5
"""How far the boosting is followed from the median efficiency: five devices are little to learn a device from."""
CALL_SECONDS = {"s": 4e-6, "ns": 2.5e-5}
"""A call by the benchmark's protocol: calls averaged back to back (raw unit s), or each waited for (raw unit ns)."""
ANCHORS, ANCHOR_DRAWS = (1, 8), 40
"""How many products measured on the new device are tried as anchors, and how many draws of them are averaged."""
STATISTICS = ("min", "q1", "median", "q3", "max", "mean", "variance", "skewness", "kurtosis")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Products:
    """One row a device and matrix: whether it is an accelerator, seconds, what a roofline says, features."""

    device: npt.NDArray[np.str_]
    accelerator: npt.NDArray[np.bool_]
    seconds: Floats
    roofline: Floats
    features: Floats


def rows(scored: Path | None) -> list[ValidationRow]:
    """Every device of the scored file by a model fitted to the others."""
    known_path, asked_path = training_file(TIMES), scored_file(TIMES, scored)
    statistics = (scored_file(MATRICES, scored) if scored else None) or training_file(MATRICES)
    if known_path is None or asked_path is None or statistics is None:
        missing = why_missing(TIMES, scored) if asked_path is None else why_missing(TIMES)
        return [skipped(DATASET, missing)]
    known_statistics = training_file(MATRICES) or statistics
    known, _ = read_products(known_path, known_statistics)
    asked, unknown = read_products(asked_path, statistics) if scored else (known, [])
    result = [skipped(f"{DATASET}: {name}", "the catalogue has no such machine") for name in unknown]
    predicted: dict[str, tuple[Floats, Floats, Products]] = {}
    for device in dict.fromkeys(asked.device.tolist()):
        train, test = _only(known, known.device != device), _only(asked, asked.device == device)
        predicted[device] = (predict(train, test), _own_line(test), test)
        result.append(_row(device, train, test, predicted[device][0], predicted[device][1], predicted))
        result += [_anchored_row(device, train, test, predicted[device][0], count) for count in ANCHORS]
    return result


def predict(train: Products, test: Products) -> Floats:
    """Seconds: the roofline times what boosting learned on other devices of its kind from matrix and device.

    A device of a kind that was never seen (the only processor among accelerators) gets the median efficiency of all:
    there is nothing to learn its shape from.
    """
    alike = train.accelerator == test.accelerator[0]
    if not alike.any():
        return np.asarray(test.roofline * np.median(train.seconds / train.roofline))
    train = _only(train, alike)
    from sklearn.ensemble import HistGradientBoostingRegressor

    target = np.log(train.seconds / train.roofline)
    total = np.zeros(len(test.seconds))
    for seed in range(3):
        total += (
            HistGradientBoostingRegressor(
                loss="absolute_error",
                max_iter=300,
                learning_rate=0.05,
                max_leaf_nodes=8,
                min_samples_leaf=10,
                random_state=seed,
            )
            .fit(train.features, target)
            .predict(test.features)
        )
    plain = float(np.median(np.log(train.seconds / train.roofline)))
    return np.asarray(test.roofline * np.exp(TRUST * total / 3 + (1 - TRUST) * plain))


def anchored(predicted: Floats, measured: Floats, train: Products) -> float:
    """The factor that some products measured on the new device put on every prediction for it.

    The factor of least mean relative error on them (a weighted median), shrunk towards one by how much devices differ
    against how much one device's matrices scatter (both of the roofline on the devices known): one matrix alone is
    followed about half the way.
    """
    if not len(predicted):
        return 1.0
    logs = np.log(train.seconds / train.roofline)
    parts = [logs[train.device == device] for device in dict.fromkeys(train.device.tolist())]
    between = float(np.var([np.median(part) for part in parts], ddof=1)) if len(parts) > 1 else 0.0
    within = float(np.mean([np.var(part) for part in parts]))
    weight = between / (between + within / len(predicted)) if between else 0.0
    ratios = np.sort(measured / predicted)
    share = np.cumsum(1 / ratios) / np.sum(1 / ratios)
    best = ratios[int(np.searchsorted(share, 0.5))]
    return float(np.exp(weight * np.log(best)))


def _anchored_row(device: str, train: Products, test: Products, ours: Floats, count: int) -> ValidationRow:
    """Scored on the matrices not measured, the mean over draws of which ones were."""
    random = np.random.default_rng(0)
    found, plain = [], []
    for _ in range(ANCHOR_DRAWS):
        known = np.zeros(len(ours), dtype=bool)
        known[random.permutation(len(ours))[:count]] = True
        factor = anchored(ours[known], test.seconds[known], train)
        bare = anchored(test.roofline[known], test.seconds[known], train)
        found.append(np.mean(np.abs(factor * ours[~known] / test.seconds[~known] - 1)))
        plain.append(np.mean(np.abs(bare * test.roofline[~known] / test.seconds[~known] - 1)))
    what = "one matrix" if count == 1 else f"{count} matrices"
    return ValidationRow(
        DATASET,
        f"{device}, {what} measured there",
        f"matrices, {ANCHOR_DRAWS} draws",
        len(ours) - count,
        "MAPE",
        "1",
        float(np.mean(found)),
        {
            "without": float(np.mean(np.abs(ours / test.seconds - 1))),
            "roofline with the same anchors": float(np.mean(plain)),
        },
    )


def _row(
    device: str,
    train: Products,
    test: Products,
    ours: Floats,
    own_line: Floats,
    before: dict[str, tuple[Floats, Floats, Products]],
) -> ValidationRow:
    error = np.abs(ours / test.seconds - 1)
    plain = test.roofline * np.median(train.seconds / train.roofline)
    goal = GOALS.get(device)
    logs = [np.log(p / t.seconds) for name, (p, _, t) in before.items() if name != device]
    width = float(np.quantile(np.abs(np.concatenate(logs)), 0.8)) if logs else None
    inside = None if width is None else float(np.mean(np.abs(np.log(ours / test.seconds)) <= width))
    value = float(error.mean())
    return ValidationRow(
        DATASET,
        device,
        "device unseen",
        len(error),
        "MAPE",
        "1",
        value,
        {
            "roofline x median efficiency of the other devices": float(np.mean(np.abs(plain / test.seconds - 1))),
            "start + bytes / bandwidth fitted on this device": float(np.mean(np.abs(own_line / test.seconds - 1))),
        },
        goal,
        None if goal is None else value <= goal,
        None if width is None else 0.8,
        inside,
        None if width is None else 2 * width,
        None,
        f"median {float(np.median(error)):.3f}; the band is the scatter on the devices scored before",
    )


def _own_line(test: Products) -> Floats:
    """The trivial model with hindsight: two numbers fitted on the device itself, by relative error."""
    from scipy.optimize import minimize

    bytes_moved = np.exp(test.features[:, 0])

    def line(parameters: Floats) -> Floats:
        return np.asarray(np.exp(parameters[0]) + bytes_moved * np.exp(-parameters[1]))

    def loss(parameters: Floats) -> float:
        return float(np.mean(np.abs(line(parameters) / test.seconds - 1)))

    best = min(
        (minimize(loss, [np.log(start), np.log(3e11)], method="Nelder-Mead") for start in (3e-6, 3e-5)),
        key=lambda found: float(found.fun),
    )
    return line(np.asarray(best.x))


def read_products(times: Path, matrices: Path) -> tuple[Products, list[str]]:
    """The products of at least a million non-zeros, and the devices that the catalogue lacks."""
    facts: dict[str, dict[str, float]] = {}
    columns = ("rows", "cols", "nnz", *(f"rownnz_{name}" for name in STATISTICS))
    for line, row in read_csv_rows(matrices, ("matrix", *columns)):
        facts[row["matrix"]] = {c: read_number(row[c] or "0", matrices, line, c) for c in columns}
    kept: list[tuple[str, str, float, float, str]] = []
    stored: dict[str, float] = {}
    needed = ("platform", "matrix", "format", "time_s", "storage_bytes", "raw_unit")
    for line, row in read_csv_rows(times, needed):
        own = facts.get(row["matrix"])
        if row["format"] != "csr" or own is None or own["nnz"] < LEAST_NONZEROS:
            continue
        seconds = read_number(row["time_s"], times, line, "time_s", 1e-9)
        if row["storage_bytes"]:
            size = read_number(row["storage_bytes"], times, line, "storage_bytes", 0.0)
            count = size if row["platform"] in COUNTS_NONZEROS else (size - 4 * (own["rows"] + 1)) // 12
            stored[row["matrix"]] = min(count, stored.get(row["matrix"], own["nnz"]))
        kept.append((row["platform"], row["matrix"], seconds, own["nnz"], row["raw_unit"]))
    unknown = sorted({entry[0] for entry in kept if entry[0] not in DEVICES})
    kept = [entry for entry in kept if entry[0] in DEVICES]
    machines = {name: machine(DEVICES[name]) for name in {entry[0] for entry in kept}}
    made = [
        _features(facts[name], max(stored.get(name, nonzeros), 1.0), machines[device], unit)
        for device, name, _, nonzeros, unit in kept
    ]
    return (
        Products(
            np.array([entry[0] for entry in kept]),
            np.array([machines[entry[0]].family not in PROCESSORS for entry in kept]),
            np.array([entry[2] for entry in kept]),
            np.array([roofline for roofline, _ in made]),
            np.array([features for _, features in made]),
        ),
        unknown,
    )


def _features(own: dict[str, float], nonzeros: float, device: Machine, unit: str) -> tuple[float, list[Any]]:
    rows_, columns = own["rows"], own["cols"]
    bytes_moved = 12 * nonzeros + 12 * rows_ + 8 * columns
    streaming = bytes_moved / device.bandwidth(device.main_memory)
    call = CALL_SECONDS.get(unit, CALL_SECONDS["s"])
    levels = [level for level in device.memory.values() if level.capacity]
    last = float(levels[-2].capacity)
    mean = max(own["rownnz_mean"], 1e-9)

    def relative(name: str) -> float:
        return float(np.log((own[f"rownnz_{name}"] + 1) / (mean + 1)))

    features = [
        np.log(bytes_moved),
        np.log(nonzeros / rows_),
        np.log(rows_),
        np.log(columns),
        np.log1p(np.sqrt(max(own["rownnz_variance"], 0.0)) / mean),
        *(relative(name) for name in ("min", "q1", "median", "q3", "max")),
        np.arcsinh(own["rownnz_skewness"]),
        np.arcsinh(own["rownnz_kurtosis"]),
        nonzeros / own["nnz"],
        np.log(bytes_moved / last),
        np.log(8 * columns / last),
        np.log(call / streaming),
        np.log(nonzeros / device.cores),
        np.log(device.bandwidth(device.main_memory) / (device.cores * device.clock)),
        np.log(device.bandwidth(device.main_memory)),
    ]
    return call + streaming, features


def _only(products: Products, rows_: npt.NDArray[np.bool_]) -> Products:
    return Products(
        products.device[rows_],
        products.accelerator[rows_],
        products.seconds[rows_],
        products.roofline[rows_],
        products.features[rows_],
    )
