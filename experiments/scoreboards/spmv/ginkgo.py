"""Whole products timed by others on devices that the model never saw: SuiteSparse matrices in Ginkgo's formats.

Costs of sparse products on whole devices, fitted to Ginkgo's public times, with spreads of devices left out.

Two traps of the data are undone here: `nnz` counts explicit zeros that were not stored (the time follows
`storage_bytes`), and for some devices (K40m, titanV) that column *is* the number of non-zeros.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows, read_number
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.fitting.nonnegative_terms import ROUNDS, nearest_terms
from slipstick.estimators.fitting.scores import mean_error, normal_spread, relative_quantile
from slipstick.estimators.sparse.reuse_model import is_accelerator
from slipstick.estimators.sparse.spmv_devices import (
    CALL,
    DIMS,
    FORMATS,
    HYBRID,
    SLICED,
    TERMS,
    DeviceCosts,
    SpmvDevices,
    TrainedDevices,
    amount_table,
    anchored,
)
from slipstick.experiments.calibrate.public_data import scored_file, training_file
from slipstick.experiments.scoring.score import MAPE, Data, Scored, labelled
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine, name_of_device
from slipstick.hwmodels.machine import Machine

TIMES, MATRICES = "spmv/ginkgo_spmv_times.csv.gz", "spmv/ginkgo_matrices.csv.gz"
LEAST_NONZEROS = 1e6
IN_BYTES = 3
"""A size of a format below so many times the non-zeros counts entries and not bytes: a device's column is another."""
DEVICES = {
    "titanV": "titan-v",
    "RadeonVII": "radeon-vii",
    "titanX": "titan-x-pascal",
    "TitanX": "titan-x-pascal",
    "titanXp": "titan-xp",
    "P100": "p100-pcie",
    "A100": "a100-sxm-40gb",
    "A100_SXM4": "a100-sxm-40gb",
    "MI250X": "mi250-gcd",
}
"""Names of the data that the catalogue reads otherwise, or not at all."""
CALL_SECONDS = {"s": CALL, "ns": 2.5e-5}
"""A call by the benchmark's protocol: calls averaged back to back (raw unit s), or each waited for (raw unit ns)."""
STATISTICS = ("rows", "cols", "nnz", "rownnz_max", "rownnz_mean", "rownnz_variance")


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
    seconds: FloatArray
    dims: dict[str, FloatArray]
    stored: str = "csr"

    @property
    def amount(self) -> FloatArray:
        """What each product does, by the terms of `spmv_devices`."""
        return amount_table(self.dims, self.machine, self.call, self.stored)

    @property
    def roofline(self) -> FloatArray:
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


def fit_device(amount: FloatArray, seconds: npt.ArrayLike, machine: Machine) -> DeviceCosts:
    """Costs >= 0 of least mean relative error, by least squares weighed again and again.

    `amount` has shape (products, costs), seconds (products,).
    Raises InputError where there are fewer products than costs, or a time is not positive.
    """
    measured = np.asarray(seconds, dtype=np.float64)
    if len(measured) < len(TERMS) or amount.shape != (len(measured), len(TERMS)) or not np.all(measured > 0):
        raise InputError(
            f"{machine.name}: {len(measured)} times for {len(TERMS)} costs: want at least as many, all > 0"
        )
    cost = nearest_terms(amount, measured, ROUNDS)
    return DeviceCosts(
        machine.name,
        machine.family,
        is_accelerator(machine),
        FrozenDict(dict(zip(TERMS, map(float, cost), strict=True))),
    )


def spread_of(logs: Sequence[FloatArray]) -> tuple[float, float]:
    """Spreads over devices and over the products of one, from log(measured / predicted) of each left-out device.

    The second is the width of the middle 80 % over that of a normal law: tails are heavy.
    """
    middles = [float(np.median(one)) for one in logs]
    within = np.concatenate([np.abs(one - middle) for one, middle in zip(logs, middles, strict=True)])
    between = float(np.sqrt(np.mean(np.square(middles))))
    return between, normal_spread(within)


COUNTS = (1, 2, 4, 8)
"""Numbers of anchors for which devices that were left out say how far to believe them."""
WIDENINGS = (1.0, 1.5, 2.0, 3.0, 5.0, 100.0)
"""Factors on a matrix's scatter that are tried; with the last, anchors hardly count."""
DRAWS = 40


def widenings(ratios: Sequence[FloatArray], machine_spread: float, matrix_spread: float) -> dict[int, float]:
    """By number of anchors, the factor on a matrix's scatter with which they helped devices left out the most.

    Few anchors are believed less than a normal law would have it, since one matrix may be far off: the geometric mean
    over devices of the mean relative error with anchors decides.

    `ratios`: of each device, measured over predicted by the others, shape (products,).
    """
    result = {}
    for count in COUNTS:
        judged = [one for one in ratios if len(one) > count]
        if not judged:
            continue
        gains = [
            np.mean([np.log(_error(one, count, machine_spread, matrix_spread, doubt)) for one in judged])
            for doubt in WIDENINGS
        ]
        result[count] = WIDENINGS[int(np.argmin(gains))]
    return result


def _error(ratio: FloatArray, count: int, machine_spread: float, matrix_spread: float, doubt: float = 1.0) -> float:
    """Mean relative error on the other products with so many anchors drawn; `ratio`: measured over predicted."""
    random, errors = np.random.default_rng(0), []
    for _ in range(DRAWS):
        order = random.permutation(len(ratio))
        factor = anchored(ratio[order[:count]], machine_spread, matrix_spread, doubt).factor
        errors.append(np.mean(np.abs(factor / ratio[order[count:]] - 1)))
    return float(np.mean(errors))


def fit_public(stored: str = "csr") -> TrainedDevices:
    """The model that ships for a format: all public devices, each left out in turn for the spreads.

    Raises InputError where the public data are not there.
    """
    known, _ = read_products(Data().known(TIMES), Data().known(MATRICES), stored)
    return left_out(known, _costs(known))


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


def predict(model: SpmvDevices, products: Products) -> FloatArray:
    """Seconds of the given products, under their protocol of calls."""
    return replace(model, call=products.call).seconds(products.dims, products.machine)


DATASET, FORMATS_DATASET = "Ginkgo CSR, at least 1e6 non-zeros", "Ginkgo by format, at least 1e6 non-zeros"
GOALS = {"Xeon_Gold_6230": 0.22, "V100_SXM2": 0.12, "RadeonVII": 0.20}
MEDIAN_GOAL = 0.20
ANCHORS = (1, 8)
"""How many products measured on the new device are tried as anchors."""


def public_formats(data: Data) -> Iterator[Scored | ValidationRow]:
    """Every format, on all accelerators of the scored file, each left out in turn."""
    for stored in FORMATS:
        known, targets, _ = _read(data, stored)
        costs = _costs(known)
        parts, devices, medians = [], list[str](), list[str]()
        for test in targets.values():
            train = {name: products for name, products in known.items() if products.machine.name != test.machine.name}
            if not is_accelerator(test.machine) or not train:
                continue
            trained = left_out(train, costs)
            ours = predict(trained.model, test)
            half = np.full(len(ours), _half(trained))
            parts.append((test.seconds, ours, test.roofline * trained.model.usual, half))
            devices += [test.device] * len(ours)
            medians.append(f"{test.device} {relative_quantile(0.5, ours, test.seconds):.3f}")
        if not parts:
            yield skipped(FORMATS_DATASET, f"{stored}: no accelerator of the catalogue")
            continue
        measured, ours, roofline, half = map(np.concatenate, zip(*parts, strict=True))
        yield Scored(
            f"accelerators, {stored}",
            "device unseen",
            measured,
            ours,
            labelled(),
            (MEDIAN_GOAL, None),
            {"roofline x median efficiency of the other devices": roofline},
            half=half,
            groups=devices,
            reason=f"medians by device: {', '.join(medians)}",
        )


def _read(data: Data, stored: str) -> tuple[dict[str, Products], dict[str, Products], list[str]]:
    """The products to learn from, those to score, and the devices among these that the catalogue lacks."""
    known_path, judged_path = data.known(TIMES), data.judged(TIMES)
    statistics = (scored_file(MATRICES, data.scored) if data.scored else None) or data.known(MATRICES)
    there = read_csv_rows(judged_path, ("platform", "matrix")) if data.scored else ()
    scored = {(row["platform"], row["matrix"]) for _, row in there}
    known, _ = read_products(known_path, training_file(MATRICES) or statistics, stored, scored)
    targets, unknown = read_products(judged_path, statistics, stored) if data.scored else (known, [])
    return known, targets, unknown


def _costs(known: Mapping[str, Products]) -> dict[str, DeviceCosts]:
    return {name: fit_device(products.amount, products.seconds, products.machine) for name, products in known.items()}


def _half(trained: TrainedDevices) -> float:
    return quantile(DEFAULT_LEVEL, None) * float(np.hypot(trained.machine_spread, trained.matrix_spread))


def public_products(data: Data) -> Iterator[Scored | ValidationRow]:
    """Every device of the scored file by costs fitted to the others."""
    known, targets, unknown = _read(data, "csr")
    yield from (skipped(f"{DATASET}: {name}", "the catalogue has no such machine") for name in unknown)
    costs = _costs(known)
    for test in targets.values():
        train = {name: products for name, products in known.items() if products.machine.name != test.machine.name}
        if not train:
            yield skipped(f"{DATASET}: {test.device}", "no other device to learn from")
            continue
        trained = left_out(train, costs)
        predicted = predict(trained.model, test)
        yield _scored(test, trained, predicted)
        yield from (_anchored_row(test, trained, predicted, count) for count in ANCHORS)


def _scored(test: Products, trained: TrainedDevices, predicted: FloatArray) -> Scored:
    def hindsight(terms: list[int]) -> FloatArray:
        amount = test.amount * terms
        cost = fit_device(amount, test.seconds, test.machine).cost
        return np.asarray(amount @ [cost[term] for term in TERMS])

    median = relative_quantile(0.5, predicted, test.seconds)
    return Scored(
        test.device,
        "device unseen",
        test.seconds,
        predicted,
        (MAPE,),
        (GOALS.get(test.device),),
        {
            "roofline x median efficiency of the other devices": test.roofline * trained.model.usual,
            "start + bytes / bandwidth fitted on this device": hindsight([1, 1, 0, 0, 0]),
            "all five costs fitted on this device": hindsight([1, 1, 1, 1, 1]),
        },
        _half(trained) or None,
        groups=test.device,
        reason=f"median {median:.3f}; the band is from the other devices, each left out in turn",
    )


def _anchored_row(test: Products, trained: TrainedDevices, ours: FloatArray, count: int) -> ValidationRow:
    """Scored on the matrices not measured, the mean over draws of which ones were."""
    spreads = (trained.machine_spread, trained.matrix_spread)
    scored = _error(test.seconds / ours, count, *spreads, trained.doubt(count))
    plain = _error(test.seconds / test.roofline, count, *spreads)
    without = mean_error(ours, test.seconds)
    what = "one matrix" if count == 1 else f"{count} matrices"
    return ValidationRow(
        DATASET,
        f"{test.device}, {what} measured there",
        f"matrices, {DRAWS} draws",
        len(ours) - count,
        "MAPE",
        "1",
        scored,
        {"without": without, "roofline with the same anchors": plain},
        1.05 * without,
        scored <= 1.05 * without,
        reason="goal: never worse than without by more than 5 %",
    )
