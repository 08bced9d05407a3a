"""`slipstick validate --refit sparse`: costs of reuse and of sparse kernels on our hosts, and those of whole devices.

Every score is of families of the calibration matrices left out; the matrices that ``slipstick validate spmv`` judges
are not looked at. The last rows score other values of ``LEARNT_ROWS`` than the one that ships.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from slipstick.common.records import as_document
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.fitting.fitted_file import OuterScore
from slipstick.estimators.sparse.kernel_costs import SCHEMA, SHIPPED, TRAINED, HostKernels
from slipstick.estimators.sparse.reuse_model import LABEL_KINDS, LEARNT_ROWS, KernelCosts
from slipstick.estimators.sparse.spmv_devices import FORMATS
from slipstick.estimators.sparse.spmv_devices import SCHEMA as DEVICES
from slipstick.experiments.measure.spmv.labels import MeasuredProduct, shipped_labels, shipped_products
from slipstick.experiments.methods.spmv.kernel_fits import amounts_of, fit_kernels, fit_labels, held_out_logs
from slipstick.experiments.scoreboards.spmv.ginkgo import fit_public
from slipstick.experiments.scoring.fitted_files import ShippedFiles

VALUES = (500.0, 1000.0, 2000.0, 3000.0, LEARNT_ROWS, 10_000.0, 20_000.0)


def refit() -> ShippedFiles:
    """The kernels of the host from the products that ship, and whole devices in every format from public times.

    Raises InputError where the public times are not here.
    """
    labels = shipped_products()
    source = f"{labels.source}; {len(labels.calibration)} generated matrices"
    host = fit_kernels(labels.calibration, labels.host, labels.software, source)
    files = {
        SHIPPED: as_document(host, SCHEMA),
        **{_file(kind): as_document(fit_labels(shipped_labels(), kind)[0], SCHEMA) for kind in LABEL_KINDS},
        **{_file(f"devices-{stored}"): as_document(fit_public(stored), DEVICES) for stored in FORMATS},
    }
    used = sum(len(one.seconds) for one in labels.calibration)
    outer = tuple(_outer(host, labels.calibration))
    return ShippedFiles(files, used, outer)


def _file(name: str) -> Path:
    return TRAINED / f"spmv-{name}.json"


def _outer(host: HostKernels, products: Sequence[MeasuredProduct]) -> Iterator[OuterScore]:
    for one in host.costs:
        yield _score(f"{one.kernel}, {one.state}", [one], host, products, LEARNT_ROWS)
    warm = [one for one in host.costs if one.state == "warm"]
    for value in VALUES:
        yield _score(f"every kernel, warm, {value:,g} rows learnt", warm, host, products, value)


def _score(
    title: str, kernels: Sequence[KernelCosts], host: HostKernels, products: Sequence[MeasuredProduct], learnt: float
) -> OuterScore:
    """Families left out of the costs of kernels."""
    logs, seconds, half, families = [], [], [], set()
    for one in kernels:
        chosen = [product for product in products if (one.kernel, one.state, 1) in product.seconds]
        amounts = amounts_of([p.counts for p in chosen], one.sizes, one.state, one.reach, learnt)
        measured = np.array([p.seconds[one.kernel, one.state, 1] for p in chosen])
        families |= {p.family for p in chosen}
        logs.append(held_out_logs(amounts, measured, [p.family for p in chosen]))
        seconds.append(measured)
        half.append(np.full(len(chosen), quantile(DEFAULT_LEVEL, one.freedom) * one.spread))
    measured = np.concatenate(seconds)
    predicted = measured / np.exp(np.concatenate(logs))
    return OuterScore.of("family of matrices", title, len(families), predicted, measured, np.concatenate(half))
