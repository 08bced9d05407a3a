"""The one way into files that nobody vouches for: regular files alone, bounded as packed and as unpacked.

Every reader of the project opens its files here. A pipe, a device or a socket would hang it, a small packed file may
unpack to terabytes, and a link inside a folder of ours may lead to a file that is not.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from slipstick.common.errors import InputError

MAX_DEPTH = 64
MEGABYTE = 1_000_000
DEFAULT_LIMIT_BYTES = 64 * MEGABYTE
FREE_BYTES = 16 * MEGABYTE
"""Up to here a packed file may unpack to any multiple of its size."""
LARGEST_RATIO = 200
"""Beyond `FREE_BYTES`, bytes unpacked for each packed one: logs and traces pack 10 to 40 times, bombs 1,000."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


@contextmanager
def opened(path: str | os.PathLike[str], limit_bytes: int, limit_ratio: int = LARGEST_RATIO) -> Iterator[BinaryIO]:
    """A regular file to read from, unpacked where it is a gzip, at most `limit_bytes` long.

    Parameters
    ----------
    limit_ratio
        Bytes that each packed byte may give, beyond the first 16 MB.

    Raises
    ------
    InputError
        At once where the file is missing, unreadable or no regular file; while it is read, where it is longer than
        `limit_bytes` (packed or unpacked), unpacks to more than `limit_ratio` times its size, or is a broken gzip.
    """
    with os.fdopen(_descriptor(path, 0), "rb") as raw:
        yield _unpacked(raw, Path(path), limit_bytes, limit_ratio)


def is_there(name: str) -> bool:
    """Whether a file or folder has the name; not where none can, since it is too long (then Path raises OSError)."""
    return os.path.exists(name)  # noqa: PTH110


def is_folder(name: str) -> bool:
    """Whether a folder has the name; not where none can, since it is too long."""
    return os.path.isdir(name)  # noqa: PTH112


def read_bytes(
    path: str | os.PathLike[str], limit_bytes: int = DEFAULT_LIMIT_BYTES, limit_ratio: int = LARGEST_RATIO
) -> bytes:
    """The whole content of a file (see `opened`)."""
    with opened(path, limit_bytes, limit_ratio) as stream:
        return stream.read()


def head(path: str | os.PathLike[str], length: int) -> str:
    """The first `length` bytes of a file as text, to see what it is (see `opened`)."""
    with opened(path, sys.maxsize - 1) as stream:
        return stream.read(length).decode("utf-8", errors="replace")


def read_private(path: str | os.PathLike[str], limit_bytes: int) -> bytes:
    """The whole content of a file that we wrote ourselves: as it is, and no link is followed.

    Raises
    ------
    InputError
        Where the file is missing, a link, no regular file, or longer than `limit_bytes`.
    """
    with os.fdopen(_descriptor(path, os.O_NOFOLLOW), "rb") as raw:
        content = raw.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise too_long(path, limit_bytes)
    return content


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raise InputError where a file that a library opens by itself is missing or no regular file."""
    os.close(_descriptor(path, 0))


def too_long(path: object, limit_bytes: float) -> InputError:
    """The error for a file above its limit in bytes."""
    return InputError(f"{path}: more than {limit_bytes / MEGABYTE:g} MB, the limit for this kind of file")


def _descriptor(path: str | os.PathLike[str], flags: int) -> int:
    """An open regular file; nothing waits here for a writer at the other end of a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except ValueError:
        raise InputError(f"{str(path)!r}: a NUL byte stands in the name of the file") from None
    except OSError as error:
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW:
            raise InputError(f"{path}: is a link, which is not followed here") from None
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise InputError(f"{path}: is {_KINDS.get(kind, 'no regular file')}, not a file")
    return descriptor


def _unpacked(raw: BinaryIO, path: Path, limit_bytes: int, limit_ratio: int) -> BinaryIO:
    try:
        packed = path.suffix == ".gz" or raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    unpacker = gzip.GzipFile(fileobj=raw) if packed else None
    return io.BufferedReader(_Bounded(raw, path, limit_bytes, limit_ratio, unpacker), 1 << 17)


class _Bounded(io.RawIOBase):
    """Counts what is read, and what it was unpacked from."""

    def __init__(
        self, raw: BinaryIO, path: Path, limit_bytes: int, limit_ratio: int, unpacker: gzip.GzipFile | None
    ) -> None:
        super().__init__()
        self._raw = raw
        self._path = path
        self._limit = limit_bytes
        self._ratio = limit_ratio
        self._unpacker = unpacker
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            block = (self._unpacker or self._raw).read(min(len(buffer), self._limit + 1 - self._count))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{self._path}: broken or truncated gzip ({error})") from None
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read ({error.strerror})") from None
        self._count += len(block)
        if self._count > self._limit:
            raise too_long(self._path, self._limit)
        if self._unpacker and self._count > max(FREE_BYTES, self._ratio * self._raw.tell()):
            raise InputError(f"{self._path}: unpacks to more than {self._ratio} times its size")
        buffer[: len(block)] = block
        return len(block)

    def readall(self) -> bytes:
        """The rest, in large blocks."""
        return b"".join(iter(lambda: self.read(1 << 20) or b"", b""))
