"""Where a study's answers lie: a folder of Parquet parts, each written whole, each named by what it holds.

`results/` is a plain Parquet data set (pandas, polars and DuckDB read it); `study.json` beside it says whose it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.opener import read_private
from slipstick.common.readers import parse_json, require_mapping
from slipstick.common.writer import atomic_write, write_json

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "slipstick-results-2"
MANIFEST_BYTES, PART_BYTES = 1 << 26, 1 << 30
COLUMNS = ("workload", "machine", "point", "time_ratio", "time_s")
"""What every part holds, beside what varies."""
_PART = re.compile(r"part-(\d{8})-([0-9a-f]{16})\.parquet")


@dataclass(frozen=True)
class Store:
    """The answers of one study.

    Parameters
    ----------
    folder
        Holds study.json and results/.
    fingerprint
        Of everything that decides the answers; answers of another study are refused.
    today
        Seconds of each case as it stands: what the stored ratios are relative to.
    chunks
        How many parts the study has when it is finished; None where nobody says.
    """

    folder: Path
    fingerprint: str
    today: tuple[float, ...] = ()
    chunks: int | None = None

    @property
    def results(self) -> Path:
        """The Parquet data set."""
        return self.folder / "results"

    @property
    def front(self) -> Path:
        """The points that no other beats, as the last report found them."""
        return self.folder / "front.parquet"

    def write_front(self, frame: pd.DataFrame) -> None:
        """Write the front; whole or not at all."""
        with atomic_write(self.front, "wb") as stream:
            stream.write(_to_bytes(frame, self.fingerprint, "front"))

    def parts(self) -> dict[int, Path]:
        """The finished parts by number.

        Raises
        ------
        InputError
            Names a part that is a link or no file, is there twice, or is none of the study's.
        """
        result: dict[int, Path] = {}
        if self.results.is_symlink():
            raise InputError(f"{self.results}: is a link, which is not followed here")
        for path in sorted(self.results.iterdir()) if self.results.is_dir() else []:
            match = _PART.fullmatch(path.name)
            if match:
                number = int(match[1])
                if not stat.S_ISREG(path.lstat().st_mode):
                    raise InputError(f"{path}: is a link or no regular file; remove it and resume the study")
                if number in result:
                    raise InputError(f"{path}: part {number} is there twice; remove one and resume")
                if self.chunks is not None and number >= self.chunks:
                    raise InputError(f"{path}: part {number} is none of the study's {self.chunks}: remove it")
                result[number] = path
        return result

    def append(self, number: int, frame: pd.DataFrame) -> None:
        """Write one part; it appears whole or not at all, also when the process is killed."""
        content = _to_bytes(frame, self.fingerprint, str(number))
        with atomic_write(self.results / f"part-{number:08d}-{_digest(content)}.parquet", "wb") as stream:
            stream.write(content)

    def adopt(self, part: Path) -> Path:
        """A verified part of another folder of the same study, copied under its own name; whole or not at all."""
        with atomic_write(self.results / part.name, "wb") as stream:
            stream.write(read_private(part, PART_BYTES))
        return self.results / part.name

    def verify(self) -> dict[int, Path]:
        """The finished parts, each compared with the digest in its name and the study's fingerprint.

        Raises
        ------
        InputError
            Names the part that was changed or belongs to another study.
        """
        parts = self.parts()
        for number, path in parts.items():
            _read_part(path, self.fingerprint, number)
        return parts

    def frame(self) -> pd.DataFrame:
        """All answers in order of the parts, checked as in `verify`.

        Raises
        ------
        InputError
            Where there are no results yet, or a part is damaged.
        """
        import pandas as pd

        frames = [_read_part(path, self.fingerprint, number) for number, path in sorted(self.parts().items())]
        if not frames:
            raise InputError(f"{self.folder}: no results yet; start with: slipstick study run")
        return pd.concat(frames, ignore_index=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second writer out; the lock ends with the process, also when it is killed.

        Raises
        ------
        InputError
            Where another process holds the lock.
        """
        import fcntl

        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW  # a link may lead to a file that is not ours
        with open(os.open(self.folder / ".lock", flags, 0o666), "r+b") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(f"{self.folder}: another process is writing this study") from None
            for left in self.results.glob(".part-*"):
                left.unlink()
            yield


def create(folder: Path, fingerprint: str, about: Mapping[str, Any]) -> Store:
    """A new store, or the one that is there if it is of the same study.

    Raises InputError where the folder holds another study, or something else.
    """
    manifest = folder / "study.json"
    if manifest.exists():
        return load(folder, fingerprint)
    if folder.exists() and any(not _left_by_a_kill(path) for path in folder.iterdir()):
        raise InputError(f"{folder}: holds files but no study.json; choose an empty or a new folder")
    (folder / "results").mkdir(parents=True, exist_ok=True)
    write_json(manifest, {"schema": SCHEMA, "fingerprint": fingerprint, **about}, indent=1)
    return Store(folder, fingerprint, tuple(about.get("today_s", ())), about.get("chunks"))


def load(folder: Path, fingerprint: str | None = None) -> Store:
    """The store in a folder.

    Raises InputError where there is none, or it is of another study than `fingerprint`.
    """
    path = folder / "study.json"
    about = require_mapping(parse_json(_text(path), path), path, "the document")
    if about.get("schema") != SCHEMA or not isinstance(about.get("fingerprint"), str):
        raise InputError(f"{path}: schema = {str(about.get('schema'))[:40]!r}: want {SCHEMA!r} and a fingerprint")
    if fingerprint is not None and about["fingerprint"] != fingerprint:
        raise InputError(
            f"{folder}: holds another study (fingerprint {about['fingerprint']}, not {fingerprint}): the study, "
            f"a machine, a workload, the calibration or a version has changed; choose another folder"
        )
    chunks = about.get("chunks")
    if chunks is not None and (type(chunks) is not int or chunks < 1):
        raise InputError(f"{path}: chunks = {str(chunks)[:40]}: want a whole number of 1 or more")
    return Store(folder, about["fingerprint"], _times(about.get("today_s", []), path), chunks)


def _text(path: Path) -> str:
    try:
        return read_private(path, MANIFEST_BYTES).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from None


def _left_by_a_kill(path: Path) -> bool:
    """Whether this is what a run leaves that was killed before it had written study.json."""
    return path.name.startswith(".study.json") or (path.name == "results" and path.is_dir() and not any(path.iterdir()))


def _times(listed: Any, path: Path) -> tuple[float, ...]:
    if not isinstance(listed, list) or not all(isinstance(time, float) and time > 0 for time in listed):
        raise InputError(f"{path}: today_s = {str(listed)[:40]}: want a list of times > 0 s")
    return tuple(listed)


def _to_bytes(frame: pd.DataFrame, fingerprint: str, number: str) -> bytes:
    """Parquet that says whose it is and which part: the digest in the file's name covers both."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), b"slipstick": fingerprint.encode(), b"part": number.encode()}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _read_part(path: Path, fingerprint: str, number: int) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = read_private(path, PART_BYTES)
    match = _PART.fullmatch(path.name)
    if match is None or _digest(content) != match[2]:
        raise InputError(f"{path}: is damaged (its content is not what its name says); remove it and resume the study")
    try:
        table = pq.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: is no Parquet ({_first_line(error)}); remove it and resume the study") from None
    stated = table.schema.metadata or {}
    if stated.get(b"slipstick", b"") != fingerprint.encode():
        raise InputError(f"{path}: belongs to another study; remove it and resume")
    if stated.get(b"part", b"") != str(number).encode():
        held = stated.get(b"part", b"?").decode(errors="replace")[:12]
        raise InputError(f"{path}: holds part {held}, not {number}; remove it and resume")
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise InputError(f"{path}: has no column {', '.join(missing)}; remove it and resume")
    frame: pd.DataFrame = table.to_pandas()
    return frame


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:100]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
