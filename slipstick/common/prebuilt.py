"""What the catalogue's usual questions would keep, made once when the package is built (`python -m tools.prebuilt`).

The first question to a fresh installation is then answered without sympy, as the second is. The file counts only for
sources of the very content that it was made by; without it, or beside other sources, everything is made as needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from slipstick.common.disk_cache import identity_of, source_files
from slipstick.common.errors import InputError
from slipstick.common.opener import MEGABYTE, read_bytes
from slipstick.common.writer import atomic_write

FILE = Path(__file__).with_name("prebuilt.xz")
FORMAT = "slipstick-prebuilt-1"
LARGEST = 32 * MEGABYTE
"""Unpacked."""


def prebuilt(path: Path | None) -> Any:
    """What ships of that which would be kept at `path`; None where nothing does, or nothing is kept."""
    if path is None:
        return None
    places, lines = _unpacked()
    content = places.get(identity_of(path))
    return None if content is None else {key: json.loads(lines[place]) for key, place in content.items()}


def made_here() -> bool:
    """Whether the file is there and was made by these sources."""
    return bool(_unpacked()[0])


def write_prebuilt(contents: Mapping[str, Any]) -> int:
    """Write the file anew, of content by what it is kept for; returns its bytes.

    Formulas of machines of different forms are mostly the same: each part is written once.
    """
    import lzma

    lines: dict[str, int] = {}
    places = {
        identity: {key: lines.setdefault(_text(part), len(lines)) for key, part in content.items()}
        for identity, content in sorted(contents.items())
    }
    first = _text({"format": FORMAT, "sources": _digest(), "places": places})
    packed = lzma.compress("\n".join([first, *lines]).encode(), preset=9 | lzma.PRESET_EXTREME)
    with atomic_write(FILE, "wb") as stream:
        stream.write(packed)
    _unpacked.cache_clear()
    return len(packed)


@cache
def _unpacked() -> tuple[Mapping[str, Mapping[str, int]], Sequence[str]]:
    """Places of lines by what they are kept for, and the lines; none without the file, or where others made it."""
    import lzma

    try:
        unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
        first, *lines = unpacker.decompress(read_bytes(FILE, MEGABYTE), LARGEST).decode().split("\n")
        document = json.loads(first)
        if unpacker.eof and document["format"] == FORMAT and document["sources"] == _digest():
            return document["places"], lines
    except (InputError, OSError, lzma.LZMAError, KeyError, TypeError, ValueError):
        pass  # as if it were not there
    return {}, ()


def _digest() -> str:
    """Of names and content of the sources that make what is kept: those of a checkout and of its wheel are equal."""
    seen = hashlib.sha256()
    for path in source_files():
        content = read_bytes(path)
        seen.update(f"{Path(path).name}\0{len(content)}\n".encode())  # in the order of their paths
        seen.update(content)
    return seen.hexdigest()


def _text(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False)
