"""A measuring of threads as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.readers import of_schema
from slipstick.common.records import as_document, of_kind
from slipstick.common.writer import write_json
from slipstick.estimators.cpu.thread_calibration import ThreadMeasurement

SCHEMA = "slipstick-threads-1"


def save(measured: ThreadMeasurement, path: str | os.PathLike[str]) -> None:
    """Write the file, whole or not at all."""
    write_json(path, as_document(measured, SCHEMA), indent=1)


def from_fields(document: Mapping[str, Any], path: object) -> ThreadMeasurement:
    """The measuring in a document that was read from a file.

    Raises InputError where a field is missing or of another kind.
    """
    measured = of_kind(ThreadMeasurement, of_schema(document, SCHEMA, path), str(path))
    counts = [measured.cores, *(threads for threads, _ in (*measured.contention, *measured.training))]
    if min(counts) < 1:
        raise InputError(f"{path}: {min(counts)} threads or cores: want a whole number >= 1")
    return measured
