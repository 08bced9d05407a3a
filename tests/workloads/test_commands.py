"""slipstick workloads: shown, imported, compared and drawn; and the shipped graphs."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import networkx as nx
import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.compare import differences, matrix_flop, summary
from slipstick.workloads.graph.draw import to_graphviz, to_html
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_file import load_workload
from slipstick.workloads.shipped_graphs import graphs_folder


def test_show_has_totals_with_units_in_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--set", "workload.batch=2", "--set", "workload.seq_len=10"]
    assert run(["workloads", "show", "bert-base-inference", *sizes, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["parameters"] == 109_514_298
    assert row["forward_matrix_flop"] == 36_864 * 2 * 100 + 217_930_752 * 20
    assert row["uncounted"] == []
    assert len(row["operations"]) == len(workload("bert-base-inference"))


def test_import_and_diff_end_with_stable_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload("mlp").save(tmp_path / "mlp.json.gz")
    again = str(tmp_path / "again.json")
    assert run(["workloads", "import", str(tmp_path / "mlp.json.gz"), "--out", again, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["parameters"] == workload("mlp").metadata["parameters"]
    assert run(["workloads", "diff", "mlp", again]) == 0
    assert run(["workloads", "diff", "mlp", "mlp-inference"]) == 1
    assert run(["workloads", "draw", "mlp", "--out", str(tmp_path / "mlp.html")]) == 0
    assert (tmp_path / "mlp.html").read_text().startswith("<!doctype html>")
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    assert run(["workloads", "import", str(tmp_path / "broken.onnx")]) == 2
    assert "broken.onnx: no ONNX model" in capsys.readouterr().err


def test_differences_are_by_what_operations_are_not_by_their_names() -> None:
    def gemm(name: str, m: int) -> Workload:
        return Workload(name, (operation(name, "gemm", {"m": m, "n": 2, "k": 3, "batch": 1}),))

    assert differences(gemm("a", 5), gemm("b", 5)) == []
    (left, right) = differences(gemm("a", 4), gemm("a", 5))
    assert (left.dims, left.left, left.right) == ("batch=1, k=3, m=4, n=2", 1, 0)
    assert (right.left, right.right) == (0, 1)


def test_summary_leaves_views_out_of_the_bytes() -> None:
    view = operation("v", "view", {"elements": 1000})
    move = operation("m", "move", {"reads": 10, "writes": 10})
    assert summary(Workload("w", (view, move)))["forward_bytes"] == 80


def test_pictures_hold_every_operation_and_escape_names() -> None:
    evil = operation('<script>"x"\x1b', "move", {"reads": 1, "writes": 1})
    graph = Workload(
        "<b>", (evil, operation("next", "move", {"reads": 1, "writes": 1})), (('<script>"x"\x1b', "next"),)
    )
    page = to_html(graph)
    assert "<script>" not in page
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    assert len(list(ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}g"))) == 2
    dot = to_graphviz(graph)
    assert '<script>\\"x\\"' in dot
    assert "n0 -> n1" in dot


def test_a_graph_too_large_to_draw_is_refused() -> None:
    many = tuple(operation(f"m{i}", "move", {"reads": 1, "writes": 1}) for i in range(4001))
    with pytest.raises(InputError, match="4001 operations, more than 4000 to draw"):
        to_html(Workload("many", many))


def test_about_sixty_imported_graphs_ship_and_are_small() -> None:
    sizes = [path.stat().st_size for path in graphs_folder().glob("*.json.xz")]
    assert len(sizes) >= 60
    assert sum(sizes) / len(sizes) < 25_000
    assert sum(sizes) < 2_500_000


# pytorchcv's resnet50b has its strides where frameworks have them; its resnet50 is the paper's.
PAIRS = {"imported/resnet50b": "resnet50", "imported/gpt2": "gpt2", "imported/deepspeech2": "deepspeech2"}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_shipped_graphs_load_bind_and_agree_with_the_builders(name: str) -> None:
    graph = workload(name)
    assert nx.is_directed_acyclic_graph(graph.graph)
    assert not graph.uncounted
    values = {"batch": 8, "seq_len": 101}
    built = workload(PAIRS[name])
    for phase in ("forward", "backward"):
        ours, theirs = (matrix_flop(one.bind_known(values), phase) for one in (built, graph))
        assert float(ours) == pytest.approx(float(theirs), rel=0.01)  # type: ignore[arg-type]
    if "deepspeech2" not in name:
        assert built.metadata["parameters"] == graph.metadata["parameters"]


BAD = {
    "two operations": ([{"id": "a", "kind": "move"}, {"id": "a", "kind": "move"}], [], "two operations are named 'a'"),
    "cycle": (
        [{"id": "a", "kind": "move"}, {"id": "b", "kind": "move"}],
        [{"source": "a", "target": "b"}, {"source": "b", "target": "a"}],
        "operations wait for each other",
    ),
    "edge": ([{"id": "a", "kind": "move"}], [{"source": "a", "target": "b"}], "unknown operation in an edge"),
    "code": ([{"id": "a", "kind": "move", "times": "__import__('os').system('true')"}], [], "node 'a': times"),
    "power": ([{"id": "a", "kind": "move", "times": "9**9**9**9"}], [], "node 'a': times"),
    "negative": ([{"id": "a", "kind": "move", "cost": {"read": -1}}], [], "want a finite amount >= 0"),
    "launches": ([{"id": "a", "kind": "move", "cost": {"launches": 1e300}}], [], r"launches = 1e\+300: want .* 1e\+30"),
    "half a launch": (
        [{"id": "a", "kind": "move", "cost": {"launches": 0.5}}],
        [],
        "launches = 0.5: want a whole number",
    ),
    "half a time": ([{"id": "a", "kind": "move", "times": 1.5}], [], "times = 1.5: want a whole number"),
    "field": ([{"id": "a", "kind": "move", "flops": 3}], [], "unknown field in .*'flops'"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_hostile_graphs_are_refused(case: str, tmp_path: Path) -> None:
    nodes, links, words = BAD[case]
    document = {"schema": "slipstick-workload-1", "name": "bad", "nodes": nodes, "links": links}
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=words):
        load_workload(path)
