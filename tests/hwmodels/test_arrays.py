"""Arrays of untrusted .npz files: bounded by what they declare before they are unpacked; always an InputError."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import pytest

from slipstick.common.arrays import read_arrays, text_fields
from slipstick.common.errors import InputError
from slipstick.workloads.kernels.sparse_files import read_matrix

LIMIT = 1_000_000


def header(shape: str, kind: str = "<f8") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def packed(content: bytes, name: str = "a.npy", method: int = ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with ZipFile(stream, "w", method) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def flagged(place: int, old: bytes, new: bytes) -> bytes:
    """A good file with bytes of its entry's description changed, where it stands first and in the directory."""
    content = packed(header("(1,)") + b"\0" * 8)
    for start in (content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02") + 2):
        at = start + place
        assert content[at : at + 2] == old
        content = content[:at] + new + content[at + 2 :]
    return content


def pickled() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, a=np.array([{}], dtype=object))
    return stream.getvalue()


CASES: dict[str, tuple[Callable[[], bytes], str]] = {
    "no zip": (lambda: b"junk", "no thing"),
    "a bomb": (lambda: packed(header("(9000000,)", "|i1") + b"\0" * 9_000_000, method=ZIP_DEFLATED), "MB unpacked"),
    "a header that boasts": (lambda: packed(header("(10000000000,)")), "0 bytes for an array of"),
    "many dimensions of nothing": (lambda: packed(header("(10000000000,)", "|V0")), "0 bytes for an array of"),
    "a negative size": (lambda: packed(header("(-1, -1)") + b"\0" * 8), "no thing"),
    "encrypted": (lambda: flagged(6, b"\0\0", b"\1\0"), "encrypted"),
    "an unknown method": (lambda: flagged(8, b"\0\0", b"\x63\0"), "compression"),
    "no array": (lambda: packed(b"hello, world"), "no thing"),
    "pickled": (pickled, "no thing"),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_broken_arrays(case: str, tmp_path: Path) -> None:
    make, words = CASES[case]
    path = tmp_path / "a.npz"
    path.write_bytes(make())
    tracemalloc.start()
    with pytest.raises(InputError, match=words) as error:
        read_arrays(path, LIMIT, "thing")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(error.value).startswith(f"{path}: ") and str(error.value).count(str(path)) == 1
    assert peak < 8 * LIMIT


def test_good_arrays(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    wanted = {"a": np.arange(6.0).reshape(2, 3), "text": np.array("x"), "empty": np.zeros(0, dtype=np.int8)}
    np.savez_compressed(path, **wanted)  # type: ignore[arg-type, unused-ignore]
    found = read_arrays(path, LIMIT, "thing")
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shape": None}, "no array shape in this npz"),
        ({"format": np.array(1.5)}, "layout '1.5'"),
        ({"format": np.array(b"csc")}, "layout"),
        ({"indices": np.zeros(2)}, "want one dimension of whole numbers"),
        ({"data": np.array(["x", "y"])}, "not a usable npz matrix"),
    ],
)
def test_broken_matrices(changes: dict[str, object], words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    good: dict[str, object] = {"indices": np.array([0, 1]), "indptr": np.array([0, 1, 2]), "shape": np.array([2, 2])}
    np.savez(path, **{k: v for k, v in {**good, **changes}.items() if v is not None})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words) as error:
        read_matrix(path)
    assert str(error.value).count(path.name) == 1


@pytest.mark.parametrize("head", ["[" * 100_000, "[]", json.dumps({"schema": "other"}), "{"])
def test_broken_models(head: str, tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    np.savez(path, head=np.array(head))
    with pytest.raises(InputError, match=r"m\.npz: "):
        if text_fields(read_arrays(path, 1_000_000, "model"), "head", path).get("schema") == "other":
            raise InputError(f"{path}: other")
