"""Files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from slipstick.common.errors import InputError

PICTURES = (".png", ".svg", ".pdf")


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """A file that appears whole or not at all, also when the process is killed half-way.

    Raises InputError where a folder or a device stands there, which a file would take the place of, or nothing can be
    written there.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is {'a folder' if path.is_dir() else 'no regular file'}; choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _nameless(path.parent)
        nameless = handle is not None
        if handle is None:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less the umask, as any new file
    except (OSError, ValueError) as error:
        raise error if isinstance(error, InputError) else _not_written(path, error) from None
    try:
        with os.fdopen(handle, mode, encoding=None if "b" in mode else "utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if nameless:
                _name(stream.fileno(), temporary)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # a full disk says no name
            raise _not_written(path, error) from None
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """A file of text, whole or not at all (`atomic_write`)."""
    with atomic_write(path) as stream:
        stream.write(text)


def write_json(path: str | os.PathLike[str], document: Any, indent: int | None = None) -> None:
    """A document as JSON, whole or not at all, and with a line's end.

    Raises InputError where a number of it is not finite, which is no JSON.
    """
    try:
        text = json.dumps(document, indent=indent, allow_nan=False)
    except ValueError as error:
        raise InputError(f"{os.fspath(path)}: not written: a number of it is not finite, and JSON has none") from error
    write_text(path, text + "\n")


def _nameless(folder: Path) -> int | None:
    """A file without a name, of which nothing is left where the process is killed; None where the system has none."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, os.O_WRONLY | os.O_TMPFILE, 0o666)
    except OSError:
        return None


def _name(handle: int, path: Path) -> None:
    """Give a nameless file its name (open(2), O_TMPFILE)."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.link(f"/proc/self/fd/{handle}", path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _not_written(path: Path, error: OSError | ValueError) -> InputError:
    why = error.strerror if isinstance(error, OSError) else "a NUL byte stands in the name of the file"
    return InputError(f"{str(path)!r}: cannot be written ({why})")


def save_picture(figure: Any, path: str | Path) -> None:
    """Write a figure of matplotlib, whole or not at all.

    Raises InputError where the name ends in none of `PICTURES`.
    """
    if Path(path).suffix.lower() not in PICTURES:
        raise InputError(f"{path}: want a picture that ends in {', '.join(PICTURES)}")
    with atomic_write(path, "wb") as stream:
        figure.savefig(stream, format=Path(path).suffix[1:].lower(), dpi=120)
