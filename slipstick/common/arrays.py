"""Arrays of .npz files that nobody vouches for: what they declare is bounded before anything is unpacked."""

from __future__ import annotations

import io
import math
import os
import zlib
from collections.abc import Mapping
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE, read_bytes
from slipstick.common.readers import parse_json, require_mapping

Arrays = dict[str, npt.NDArray[Any]]
_BROKEN = (ValueError, OSError, KeyError, TypeError, EOFError, RuntimeError, OverflowError, BadZipFile, zlib.error)
_BROKEN_HEADER = (SyntaxError, TokenError, MemoryError)
"""What Python's parser makes of the header of an array, which numpy gives it."""


def read_arrays(path: str | os.PathLike[str], limit_bytes: int, what: str) -> Arrays:
    """The arrays of an .npz by name, at most `limit_bytes` long, both packed and unpacked; pickled ones are refused.

    `what`: which kind of file is wanted, for the message where this is none.
    Raises InputError where the file is missing, too large, encrypted, packed in an unknown way, or no .npz of plain
    arrays.
    """
    packed = io.BytesIO(read_bytes(path, limit_bytes))
    try:
        with ZipFile(packed) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > limit_bytes:
                raise InputError(f"{path}: more than {limit_bytes / MEGABYTE:g} MB unpacked, the limit for such a file")
            return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
    except InputError:
        raise
    except (*_BROKEN, *_BROKEN_HEADER) as error:
        raise InputError(f"{path}: no {what} ({' '.join(str(error).split())[:200] or type(error).__name__})") from None


def text_fields(arrays: Arrays, name: str, path: object) -> Mapping[str, Any]:
    """The named fields that stand as JSON in an array of one text.

    Raises InputError where the file holds no such text, or it is no JSON with named fields.
    """
    if name not in arrays or arrays[name].ndim != 0:
        raise InputError(f"{path}: no text {name!r} in this .npz")
    return require_mapping(parse_json(str(arrays[name]), f"{path}: {name}"), path, name)


def _array(archive: ZipFile, entry: ZipInfo) -> npt.NDArray[Any]:
    """One array, if its bytes are as many as its header says: numpy makes room for it before it reads."""
    with archive.open(entry) as stream:
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = read_header[np.lib.format.read_magic(stream)](stream)
        left = entry.file_size - stream.tell()
    if any(size < 0 for size in shape) or math.prod(shape) * max(1, dtype.itemsize) > left:
        raise ValueError(f"{entry.filename}: {left} bytes for an array of {shape} {dtype}")
    with archive.open(entry) as stream:
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array
