"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from slipstick.hwmodels.files.errors import InputError


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """A file that appears whole or not at all, also when the process is killed half-way.

    Raises
    ------
    InputError
        Where a folder or a device stands there, which a file would take the place of, or nothing can be written there.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is {'a folder' if path.is_dir() else 'no regular file'}; choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less the umask, as any new file
    except (OSError, ValueError) as error:
        raise error if isinstance(error, InputError) else _not_written(path, error) from None
    try:
        with os.fdopen(handle, mode, encoding=None if "b" in mode else "utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # a full disk says no name
            raise _not_written(path, error) from None
        raise


def _not_written(path: Path, error: OSError | ValueError) -> InputError:
    why = error.strerror if isinstance(error, OSError) else "a NUL byte stands in the name of the file"
    return InputError(f"{str(path)!r}: cannot be written ({why})")
