"""Costs of sparse products on whole devices, fitted to public times, with spreads of devices left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.sparse.spmv_anchors import widenings
from slipstick.estimators.sparse.spmv_devices import (
    DeviceCosts,
    SpmvDevices,
    TrainedDevices,
    fit_device,
    spread_of,
)
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.methods.spmv.product_times import MATRICES, TIMES, Floats, Products, read_products


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
