"""Tables as data frames, opened as every other file is (`opener`)."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.formatting import visible
from slipstick.common.opener import MEGABYTE, read_bytes
from slipstick.common.writer import atomic_write

if TYPE_CHECKING:
    import pandas as pd

LIMIT_BYTES = 512 * MEGABYTE
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_frame(path: str | os.PathLike[str], limit_bytes: int = LIMIT_BYTES) -> pd.DataFrame:
    """A CSV file (also .gz) with a header, types inferred by pandas.

    Raises InputError where the file cannot be read, is too large, or is no CSV.
    """
    import pandas as pd

    content = read_bytes(path, limit_bytes)
    try:
        frame: pd.DataFrame = pd.read_csv(io.BytesIO(content))
    except (ValueError, OverflowError) as error:  # pandas' own errors are ValueErrors
        raise InputError(f"{path}: not CSV ({str(error).strip().splitlines()[0][:100]})") from None
    return frame


def parquet_frame(path: str | os.PathLike[str], limit_bytes: int = LIMIT_BYTES) -> pd.DataFrame:
    """A Parquet file.

    Raises InputError where the file cannot be read, is too large, or is no Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = read_bytes(path, limit_bytes)
    try:
        frame: pd.DataFrame = pq.read_table(pa.BufferReader(content)).to_pandas()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not Parquet ({str(error).strip().splitlines()[0][:100]})") from None
    return frame


def write_csv(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """A frame as a CSV file, whole or not at all; texts as in `csv_text`."""
    texts = frame.select_dtypes(exclude="number").columns
    safe = frame.assign(**{name: frame[name].map(csv_cell) for name in texts}).rename(columns=csv_text)
    with atomic_write(path) as stream:
        safe.to_csv(stream, index=False)


def csv_text(text: str) -> str:
    """A text for a cell: one that a spreadsheet would take for a formula begins with an apostrophe."""
    seen = visible(text)
    return f"'{seen}" if seen[:1] in _FORMULA else seen


def csv_cell(value: Any) -> Any:
    """A value for a cell: nothing where there is none, a text as in `csv_text`, a number as it is."""
    return "" if value is None else csv_text(value) if isinstance(value, str) else value
