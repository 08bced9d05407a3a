"""Whatever stands at a file's place, the opener answers at once and in one line."""

from __future__ import annotations

import gzip
import os
import socket
import time
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame, parquet_frame
from slipstick.common.opener import head, opened, read_bytes, read_private, require_regular
from slipstick.common.readers import parse_json, read_csv_rows
from slipstick.workloads.kernels.sparse_files import read_matrix


def test_only_regular_files_are_opened_and_nothing_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("device").symlink_to("/dev/zero")
    Path("loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    began = time.monotonic()
    for name, words in {
        "pipe": "is a pipe",
        "device": "is a device",
        "socket": "cannot be read|is a socket",
        ".": "is a folder",
        "loop": "cannot be read",
        "absent": "no such file",
        "a\0b": "a NUL byte stands in the name",
    }.items():
        for reader in (read_bytes, require_regular, csv_frame, parquet_frame, lambda path: head(path, 10)):
            with pytest.raises(InputError, match=words):
                reader(name)
    assert time.monotonic() - began < 30


def test_packed_files_are_bounded_by_size_and_by_ratio(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(b"1 1\n" * 10_000_000))
    with pytest.raises(InputError, match="unpacks to more than 200 times its size"):
        read_bytes(bomb, 1 << 30)
    with pytest.raises(InputError, match="more than 5 MB"):
        read_bytes(bomb, 5_000_000)
    with pytest.raises(InputError, match="unpacks to more than 50 times"):
        read_matrix(bomb.rename(tmp_path / "bomb.edges.gz"))
    unnamed = tmp_path / "plain"  # a gzip is told by its first bytes too
    unnamed.write_bytes(gzip.compress(b"hello"))
    assert read_bytes(unnamed) == b"hello" and head(unnamed, 3) == "hel"
    for cut in (3, 12, -4):
        broken = tmp_path / "broken.gz"
        broken.write_bytes(unnamed.read_bytes()[:cut])
        with pytest.raises(InputError, match="broken or truncated gzip"):
            read_bytes(broken)
    with opened(unnamed, 5) as stream:
        assert list(stream) == [b"hello"]


def test_private_files_are_read_as_they_are_and_no_link_is_followed(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_bytes(gzip.compress(b"x"))
    assert read_private(own, 100) == own.read_bytes()
    (tmp_path / "link").symlink_to(own)
    with pytest.raises(InputError, match="is a link"):
        read_private(tmp_path / "link", 100)
    with pytest.raises(InputError, match="more than"):
        read_private(own, 3)


@pytest.mark.parametrize("text", ["[" + "[]," * 2_100_000 + "1]", "[" + "1," * 8_100_000 + "1]"])
def test_json_of_too_many_values_is_not_built(text: str) -> None:
    with pytest.raises(InputError, match="lists and objects, or"):
        parse_json(text, "x.json")


def test_a_table_of_too_many_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(5000)) + "\n")
    with pytest.raises(InputError, match="5,000 columns"):
        list(read_csv_rows(path))


def test_frames_say_what_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\n1,"2\n3,4,5\n')
    with pytest.raises(InputError, match="not CSV"):
        csv_frame(path)
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match="not Parquet"):
        parquet_frame(path)


@pytest.mark.parametrize("line", ["1.5 2", "nan 2", "1 inf", "1 1e300"])
def test_an_edge_that_joins_no_nodes_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "a.edges"
    path.write_text(f"1 2\n{line}\n")
    with pytest.raises(InputError, match="nodes must be whole numbers"):
        read_matrix(path)
    path = path.rename(tmp_path / "a.triplet0")
    path.write_text(f"1 2 3\n{line} 1\n")
    with pytest.raises(InputError, match="rows and columns must be whole numbers"):
        read_matrix(path)
