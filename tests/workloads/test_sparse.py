"""Matrices in: what good files give, and what bad files say."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sparse
from scipy.io import mmwrite

from slipstick.common.errors import InputError
from slipstick.workloads.importers.formats.registry import identify
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.sparse_files import read_matrix

HEADER = "%%MatrixMarket matrix coordinate real general\n"


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_matrix_market_agrees_with_scipy(tmp_path: Path) -> None:
    wanted = sparse.random_array((40, 30), density=0.1, rng=np.random.default_rng(1)).tocsr()
    mmwrite(tmp_path / "m.mtx", wanted)
    (tmp_path / "m.mtx.gz").write_bytes(gzip.compress((tmp_path / "m.mtx").read_bytes()))
    for name in ("m.mtx", "m.mtx.gz"):
        got = read_matrix(tmp_path / name)
        assert np.allclose(got.to_scipy().toarray(), wanted.toarray())


def test_symmetric_files_are_filled_in_or_kept(tmp_path: Path) -> None:
    path = write(
        tmp_path, "s.mtx", "%%MatrixMarket matrix coordinate real symmetric\n3 3 4\n1 1 2\n2 1 5\n3 2 7\n3 3 1\n"
    )
    full = np.array([[2, 5, 0], [5, 0, 7], [0, 7, 1]])
    assert np.array_equal(read_matrix(path).to_scipy().toarray(), full)
    assert np.array_equal(read_matrix(path, symmetry="stored").to_scipy().toarray(), np.tril(full))


def test_pattern_duplicates_and_empty_rows(tmp_path: Path) -> None:
    path = write(
        tmp_path, "p.mtx", "%%MatrixMarket matrix coordinate pattern general\n% a\n\n4 4 4\n1 2\n1 2\n4 1\n4 4\n"
    )
    matrix = read_matrix(path)
    assert matrix.nonzeros == 3
    assert matrix.values is None
    assert matrix.empty_rows.tolist() == [1, 2]
    doubled = read_matrix(write(tmp_path, "d.mtx", HEADER + "2 2 2\n1 1 3\n1 1 4\n"))
    assert doubled.numbers().tolist() == [7.0]


def test_no_nonzeros_is_a_matrix_of_no_time(tmp_path: Path) -> None:
    assert read_matrix(write(tmp_path, "z.mtx", HEADER + "3 3 0\n")).nonzeros == 0


def test_edges_are_renumbered_and_triplets_count_from_zero(tmp_path: Path) -> None:
    graph = read_matrix(write(tmp_path, "g.edges", "# comment\n10 30\n30 20\n10 20\n"))
    assert graph.shape == (3, 3)
    assert graph.columns.tolist() == [1, 2, 1]
    triplets = read_matrix(write(tmp_path, "t.triplet0", "0 0 1.5\n2 1 -2\n"))
    assert triplets.shape == (3, 2)
    assert triplets.numbers().tolist() == [1.5, -2.0]


def test_npz_of_scipy(tmp_path: Path) -> None:
    wanted = sparse.random_array((20, 20), density=0.2, rng=np.random.default_rng(2)).tocsr()
    sparse.save_npz(tmp_path / "m.npz", wanted)
    assert np.allclose(read_matrix(tmp_path / "m.npz").to_scipy().toarray(), wanted.toarray())


BAD = [
    ("h.mtx", "%%MatrixMarkt matrix coordinate real general\n1 1 0\n", "line 1 must read"),
    ("a.mtx", "%%MatrixMarket matrix array real general\n1 1\n1\n", "layout 'array' is not sparse"),
    ("c.mtx", "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 0\n", "field 'complex'"),
    ("m.mtx", "%%MatrixMarket matrix coordinate real hermitian\n1 1 1\n1 1 1\n", "symmetry 'hermitian'"),
    ("n.mtx", HEADER, "ends before its size line"),
    ("w.mtx", HEADER + "3 three 1\n1 1 1\n", "size line must be"),
    ("b.mtx", HEADER + "999999999999 3 1\n1 1 1\n", "outside 1 to"),
    ("k.mtx", HEADER + "2 2 99999999999\n1 1 1\n", "outside 1 to"),
    ("o.mtx", HEADER + "2 2 1\n3 1 1\n", "malformed Matrix Market"),
    ("z.mtx", HEADER + "2 2 1\n0 1 1\n", "malformed Matrix Market"),
    ("f.mtx", HEADER + "2 2 3\n1 1 1\n", "malformed Matrix Market"),
    ("v.mtx", HEADER + "2 2 1\n1 1 x\n", "malformed Matrix Market"),
    ("t.mtx.gz", gzip.compress((HEADER + "2 2 1\n1 1 1\n" * 40).encode())[:40], "truncated gzip"),
    ("e.edges", "1 x\n", "malformed line"),
    ("l.edges", "1\n", "at least one line of 2 numbers"),
    ("i.triplet0", "0.5 1 2\n", "whole numbers"),
    ("g.triplet0", "-1 1 2\n", "do not fit"),
    ("x.npz", b"PK\x03\x04 no", "no npz matrix"),
    ("q.dat", "1", "unknown matrix format '.dat'"),
]


@pytest.mark.parametrize(("name", "content", "words"), BAD, ids=[name for name, _, _ in BAD])
def test_bad_files_are_refused_in_one_line(tmp_path: Path, name: str, content: str | bytes, words: str) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(InputError, match=words) as caught:
        read_matrix(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_npz_never_unpickles(tmp_path: Path) -> None:
    with open(tmp_path / "p.npz", "wb") as stream:
        np.savez(stream, indices=np.array([{"a": 1}], dtype=object), indptr=np.array([0, 1]), shape=np.array([1, 1]))
    with pytest.raises(InputError, match="no npz matrix"):
        read_matrix(tmp_path / "p.npz")


def test_pointers_and_columns_must_fit() -> None:
    with pytest.raises(InputError, match="row_pointers"):
        SparseMatrix("m", (2, 2), np.array([0, 2, 1]), np.array([0]))
    with pytest.raises(InputError, match="do not fit 0 to 1"):
        SparseMatrix("m", (1, 2), np.array([0, 1]), np.array([2]))
    with pytest.raises(InputError, match="values for"):
        SparseMatrix("m", (1, 2), np.array([0, 1]), np.array([1]), np.ones(2))


def test_equal_positions_are_equal_matrices() -> None:
    one = SparseMatrix.from_triplets("a", [0, 1], [1, 0], (2, 2))
    two = SparseMatrix.from_triplets("b", [1, 0], [0, 1], (2, 2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != SparseMatrix.from_triplets("a", [0, 1], [1, 1], (2, 2))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"indices": [0], "indptr": [0, 1], "shape": [1]}, "want one dimension of 2 whole numbers"),
        ({"indices": ["a"], "indptr": [0, 1], "shape": [1, 3]}, "array 'indices' .* want one dimension"),
        ({"indices": [0, 5], "indptr": [0, 2], "shape": [1, 3]}, "column positions 0 to 5 do not fit 0 to 2"),
        ({"indices": [0], "indptr": [0.0, 1.0], "shape": [1, 3]}, "array 'indptr' .* float64"),
    ],
)
def test_broken_npz_matrices_say_which_array(tmp_path: Path, arrays: dict[str, list[object]], words: str) -> None:
    np.savez(tmp_path / "m.npz", **{name: np.array(values) for name, values in arrays.items()})
    with pytest.raises(InputError, match=words):
        read_matrix(tmp_path / "m.npz")


def test_an_empty_edge_list_is_one_error_and_no_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    (tmp_path / "none.edges").write_text("# nothing\n")
    with pytest.raises(InputError, match="at least one line of 2 numbers, found 0 lines"):
        read_matrix(tmp_path / "none.edges")
    assert not recwarn.list


@pytest.mark.parametrize("end", ["2 2 1E-", "2 2", "2 2 1 1", "2 9 1", "2 1.5 1", "2 2 nan", "2 2 x"])
def test_broken_entries_of_matrix_market_are_said(end: str, tmp_path: Path) -> None:
    """The first of them ends the process inside scipy 1.17's mmread."""
    with pytest.raises(InputError, match="malformed Matrix Market"):
        read_matrix(write(tmp_path, "b.mtx", HEADER + f"2 2 2\n1 1 3\n{end}"))


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
def test_matrix_market_reads_as_scipy_does(field: str, symmetry: str, tmp_path: Path) -> None:
    from scipy.io import mmread

    rows = ["2 1", "3 1", "3 2"] if symmetry == "skew-symmetric" else ["1 1", "2 1", "3 2"]
    text = "".join(f"{row}{'' if field == 'pattern' else f' {7 * n - 3}'}\n" for n, row in enumerate(rows))
    path = write(tmp_path, "m.mtx", f"%%MatrixMarket matrix coordinate {field} {symmetry}\n%\n3 3 3\n{text}")
    ours = read_matrix(path)
    wanted = mmread(path).tocsr()
    wanted.sort_indices()
    assert ours.columns.tolist() == wanted.indices.tolist() and ours.row_pointers.tolist() == wanted.indptr.tolist()
    if field != "pattern":
        assert ours.values is not None and ours.values.tolist() == wanted.data.tolist()


def test_fortran_exponents_and_indented_comments(tmp_path: Path) -> None:
    text = "  % indented, by 1.0D+00\n%\n 3 3 3\n 1 1 1.0D+00\n 2 2 2.5d-01\n 3 3 -1.D0\n"
    matrix = read_matrix(write(tmp_path, "f.mtx", HEADER + text))
    assert matrix.nonzeros == 3 and matrix.to_scipy().diagonal().tolist() == [1.0, 0.25, -1.0]


def test_a_matrix_with_one_percent_sign_is_known_and_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "p.mtx", HEADER[1:] + "1 1 1\n1 1 1\n")
    kind = identify(path)
    assert kind is not None and kind.key == "matrix-market"
    with pytest.raises(InputError, match="line 1 must read '%%MatrixMarket"):
        read_matrix(path)
