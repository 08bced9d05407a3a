"""Products timed by kernel: one's own as they are measured, and those of our host that ship with the project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.optional_packages import source_only
from slipstick.common.readers import read_json
from slipstick.estimators.sparse.kernel_costs import State, check_state
from slipstick.estimators.sparse.row_chunks import SPLIT_OF, chunks, counts_of
from slipstick.experiments.measure.spmv.labels import SHIPPED
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.sparse import SparseMatrix

FILE = SHIPPED / "kernel_products.json"
SCHEMA = "slipstick-spmv-products-1"
DIGITS = 6
Key = tuple[str, State, int]


@dataclass(frozen=True, eq=False)
class MeasuredProduct:
    """One matrix with its products timed.

    `family`: which generator made it: what is held out together.
    `counts`, `chunks`: of the matrix (`row_chunks.counts_of`), and of its chunks by (split, threads).
    `seconds`: by kernel, state of the caches and threads.
    """

    name: str
    family: str
    counts: Mapping[str, float]
    chunks: Mapping[tuple[str, int], Sequence[Mapping[str, float]]]
    seconds: Mapping[Key, float]

    def document(self) -> dict[str, Any]:
        """For JSON, counts and seconds to six digits."""
        return {
            "family": self.family,
            "counts": _rounded(self.counts),
            "chunks": {
                f"{split} {threads}": [*map(_rounded, every)] for (split, threads), every in self.chunks.items()
            },
            "seconds": _rounded({" ".join(map(str, key)): value for key, value in self.seconds.items()}),
        }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in values.items()}


def chunk_counts(matrix: SparseMatrix, threads: Iterable[int]) -> dict[tuple[str, int], list[dict[str, float]]]:
    """Counts of the chunks of a matrix by every split and number of threads above 1."""
    return {
        (split, count): [counts_of(chunk) for chunk in chunks(matrix, count, split)]
        for count in threads
        if count > 1
        for split in sorted(set(SPLIT_OF.values()))
    }


@dataclass(frozen=True, eq=False)
class KernelLabels:
    """Our own measurements: matrices for calibration, others by other generators to judge it on, and the host."""

    calibration: tuple[MeasuredProduct, ...]
    judged: tuple[MeasuredProduct, ...]
    host: Machine
    software: Mapping[str, str]
    source: str


def shipped_products() -> KernelLabels:
    """The products that ship.

    Raises InputError where the file is damaged, or this is an installed wheel, which does not hold it.
    """
    if not FILE.exists():
        raise source_only("measured sparse products")
    document = read_json(FILE)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(f"{FILE}: want products of schema {SCHEMA!r}")
    calibration, judged = (
        tuple(_product(name, one) for name, one in document[part].items()) for part in ("calibration", "judged")
    )
    host = Machine.model_validate(document["host"])
    return KernelLabels(calibration, judged, host, document["software"], str(document["source"]))


def _product(name: str, fact: Mapping[str, Any]) -> MeasuredProduct:
    pieces = {}
    for key, every in fact["chunks"].items():
        split, threads = key.split()
        pieces[split, int(threads)] = every
    seconds: dict[Key, float] = {}
    for key, value in fact["seconds"].items():
        kernel, state, threads = key.split()
        seconds[kernel, check_state(state), int(threads)] = float(value)
    return MeasuredProduct(name, str(fact["family"]), fact["counts"], pieces, seconds)
