"""Tables as data frames, opened as every other file is (`opener`)."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from slipstick.hwmodels.files.errors import InputError
from slipstick.hwmodels.files.opener import MEGABYTE, read_bytes

if TYPE_CHECKING:
    import pandas as pd

LIMIT_BYTES = 512 * MEGABYTE


def csv_frame(path: str | os.PathLike[str], limit_bytes: int = LIMIT_BYTES) -> pd.DataFrame:
    """A CSV file (also .gz) with a header, types inferred by pandas.

    Raises
    ------
    InputError
        Where the file cannot be read, is too large, or is no CSV.
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

    Raises
    ------
    InputError
        Where the file cannot be read, is too large, or is no Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = read_bytes(path, limit_bytes)
    try:
        frame: pd.DataFrame = pq.read_table(pa.BufferReader(content)).to_pandas()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not Parquet ({str(error).strip().splitlines()[0][:100]})") from None
    return frame
