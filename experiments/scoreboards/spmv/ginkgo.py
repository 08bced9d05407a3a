"""Whole products timed by others on devices that the model never saw: SuiteSparse matrices in Ginkgo's formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from slipstick.common.readers import read_csv_rows
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.fitting.scores import mean_error, relative_quantile
from slipstick.estimators.sparse.reuse_model import is_accelerator
from slipstick.estimators.sparse.spmv_devices import FORMATS, TERMS, DeviceCosts, TrainedDevices, anchored, fit_device
from slipstick.experiments.calibrate.public_data import scored_file, training_file
from slipstick.experiments.methods.spmv.device_fits import (
    MATRICES,
    TIMES,
    Floats,
    Products,
    left_out,
    predict,
    read_products,
)
from slipstick.experiments.scoring.score import MAPE, Data, Scored, labelled
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped

DATASET, FORMATS_DATASET = "Ginkgo CSR, at least 1e6 non-zeros", "Ginkgo by format, at least 1e6 non-zeros"
GOALS = {"Xeon_Gold_6230": 0.22, "V100_SXM2": 0.12, "RadeonVII": 0.20}
MEDIAN_GOAL = 0.20
ANCHORS, ANCHOR_DRAWS = (1, 8), 40
"""How many products measured on the new device are tried as anchors, and how many draws of them are averaged."""


def public_formats(data: Data) -> Iterator[Scored | ValidationRow]:
    """Every format, on all accelerators of the scored file, each left out in turn."""
    for stored in FORMATS:
        known, targets, _ = _read(data, stored)
        costs = _costs(known)
        parts = []
        for test in targets.values():
            train = {name: products for name, products in known.items() if products.machine.name != test.machine.name}
            if not is_accelerator(test.machine) or not train:
                continue
            trained = left_out(train, costs)
            parts.append((test, predict(trained.model, test), trained))
        if not parts:
            yield skipped(FORMATS_DATASET, f"{stored}: no accelerator of the catalogue")
            continue
        measured, ours, roofline, half = (
            np.concatenate(values)
            for values in zip(
                *(
                    (
                        test.seconds,
                        predicted,
                        test.roofline * trained.model.usual,
                        np.full(len(predicted), _half(trained)),
                    )
                    for test, predicted, trained in parts
                ),
                strict=True,
            )
        )
        yield Scored(
            f"accelerators, {stored}",
            "device unseen",
            measured,
            ours,
            labelled(),
            (MEDIAN_GOAL, None),
            {"roofline x median efficiency of the other devices": roofline},
            half=half,
            groups=[test.device for test, ours, _ in parts for _ in ours],
            reason="medians by device: "
            + ", ".join(f"{test.device} {relative_quantile(0.5, ours, test.seconds):.3f}" for test, ours, _ in parts),
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


def _scored(test: Products, trained: TrainedDevices, predicted: Floats) -> Scored:
    def hindsight(terms: list[int]) -> Floats:
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


def _anchored_row(test: Products, trained: TrainedDevices, ours: Floats, count: int) -> ValidationRow:
    """Scored on the matrices not measured, the mean over draws of which ones were."""
    random = np.random.default_rng(0)
    result: list[float] = []
    plain: list[float] = []
    for _ in range(ANCHOR_DRAWS):
        known = np.zeros(len(ours), dtype=bool)
        known[random.permutation(len(ours))[:count]] = True
        trust = trained.doubt(count)
        for predicted, doubt, errors in ((ours, trust, result), (test.roofline, 1.0, plain)):
            ratios = test.seconds[known] / predicted[known]
            scale = anchored(ratios, trained.machine_spread, trained.matrix_spread, doubt)
            errors.append(float(np.mean(np.abs(scale.factor * predicted[~known] / test.seconds[~known] - 1))))
    without = mean_error(ours, test.seconds)
    what = "one matrix" if count == 1 else f"{count} matrices"
    return ValidationRow(
        DATASET,
        f"{test.device}, {what} measured there",
        f"matrices, {ANCHOR_DRAWS} draws",
        len(ours) - count,
        "MAPE",
        "1",
        float(np.mean(result)),
        {"without": without, "roofline with the same anchors": float(np.mean(plain))},
        1.05 * without,
        float(np.mean(result)) <= 1.05 * without,
        reason="goal: never worse than without by more than 5 %",
    )
