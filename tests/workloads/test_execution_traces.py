"""Execution traces: one that torch writes here and now, and the bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.importers.detect import import_file
from slipstick.workloads.importers.traces.execution_trace import import_execution_trace
from slipstick.workloads.importers.traces.kernel_shapes import read_traced_steps


def matrix_flop(graph: Workload, phase: str) -> Any:
    return sum(
        op.cost["flop.matrix.float32"]
        for op in graph
        if op.attributes.get("phase", "forward") == phase  # type: ignore[misc]
    )


def test_torch_s_own_trace_of_a_run_equals_the_import_without_running(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    from slipstick.workloads.importers.torch.arguments import Input
    from slipstick.workloads.importers.torch.importer import import_torch

    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(3, 8, 3, groups=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(tmp_path / "run.json"))
    observer.start()
    model(torch.zeros(4, 3, 8, 8)).sum().backward()
    observer.stop()
    observer.unregister_callback()
    traced = import_execution_trace(tmp_path / "run.json")
    recorded = import_torch(model, [Input((4, 3, 8, 8))], optimizer=None)
    assert not traced.uncounted
    assert nx.is_directed_acyclic_graph(traced.graph)
    for phase in ("forward", "backward"):
        assert matrix_flop(traced, phase) == matrix_flop(recorded, phase) > 0


def test_a_recorded_resnet18_is_the_built_in_one() -> None:
    path = training_file("traces/chakra_resnet18_own.json.gz")
    if path is None:
        pytest.skip(why_missing("traces/chakra_resnet18_own.json.gz"))
    traced, built = import_execution_trace(path), workload("resnet18").bind(batch=2)
    assert not traced.uncounted
    for phase in ("forward", "backward"):
        assert matrix_flop(traced, phase) == matrix_flop(built, phase)


def node(number: int, parent: int, name: str = "aten::relu", shape: Any = (2, 3)) -> dict[str, Any]:
    def side(tensor: int) -> dict[str, Any]:
        return {"values": [[tensor, tensor, 0, 6, 4, "cpu"]], "shapes": [shape], "types": ["Tensor(float)"]}

    return {"id": number, "ctrl_deps": parent, "name": name, "inputs": side(number - 1), "outputs": side(number)}


def write(tmp_path: Path, nodes: list[Any]) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))
    return path


def test_bad_traces_are_refused_with_file_and_node(tmp_path: Path) -> None:
    good = import_execution_trace(write(tmp_path, [node(5, 1), node(6, 1)]))
    assert good.edges == (("relu", "relu#2"),)
    with pytest.raises(InputError, match=r"trace\.json: node 5: its parents form a cycle"):
        import_execution_trace(write(tmp_path, [node(5, 6, "outer"), node(6, 5, "inner")]))
    with pytest.raises(InputError, match="two nodes have the id 5"):
        import_execution_trace(write(tmp_path, [node(5, 1), node(5, 1)]))
    with pytest.raises(InputError, match=r"node 5: parent '\[1\]': want the number of a node"):
        import_execution_trace(write(tmp_path, [{**node(5, 1), "ctrl_deps": [1]}]))
    for shape, words in (
        ([-3], "size '-3': want a whole number"),
        ([True], "size 'True': want a whole number"),
        (5, "shape '5': want a list of whole numbers"),
    ):
        with pytest.raises(InputError, match=rf"trace\.json: node 5: {words} in \[0, 1e12\]"):
            import_execution_trace(write(tmp_path, [node(5, 1, shape=shape)]))
    with pytest.raises(InputError, match=r"node 5 .aten::mm.: inputs do not fit"):
        import_execution_trace(write(tmp_path, [node(5, 1, "aten::mm")]))
    with pytest.raises(InputError, match="no execution trace"):
        import_execution_trace(_text(tmp_path, "{}"))
    with pytest.raises(InputError, match="not JSON"):
        import_execution_trace(_text(tmp_path, '{"schema": "1.1", "nodes": [{"id": 1, '))
    with pytest.raises(InputError, match="nested deeper"):
        import_execution_trace(_text(tmp_path, "[" * 100_000))
    unknown = import_execution_trace(write(tmp_path, [node(5, 1, "aten::frobnicate")]))
    assert unknown.uncounted == ("frobnicate",)


def _text(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "text.json"
    path.write_text(text)
    return path


def event(name: str, category: str, start: float, duration: float, thread: int, **arguments: Any) -> dict[str, Any]:
    timed = {"ph": "X", "name": name, "cat": category, "pid": 1, "tid": thread, "ts": start, "dur": duration}
    return timed | {"args": arguments}


def test_steps_are_what_the_host_called_by_shapes(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[8, 16], [4, 16], []], "Input type": ["float", "float", ""]}
    events = []
    for step in (7, 8):
        begin = 1000 * step
        events += [
            event(f"ProfilerStep#{step}", "user_annotation", begin, 900, 1),
            event("aten::linear", "cpu_op", begin + 10, 50, 1, **shapes),
            event("aten::addmm", "cpu_op", begin + 20, 30, 1, **shapes),  # inside, and not counted again
            event("cudaLaunchKernel", "cuda_runtime", begin + 25, 5, 1, correlation=step),
            event("gemm", "kernel", begin + 1500, 300, 7, correlation=step),
            event("aten::frobnicate", "cpu_op", begin + 70, 10, 1, **shapes),
        ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    steps = read_traced_steps(path)
    assert [(step.number, step.duration) for step in steps] == [(7, pytest.approx(900e-6)), (8, pytest.approx(900e-6))]
    linear, unknown = steps[0].workload
    assert linear.cost["flop.matrix.float32"] == 2 * 8 * 16 * 4
    assert (unknown.kind, steps[0].workload.uncounted) == ("uncounted", ("frobnicate",))
    assert steps[0].workload.edges == (("linear", "frobnicate"),)


@pytest.mark.parametrize(("sizes", "kind"), [([8], "elementwise"), (8, "uncounted"), ([True], "uncounted")])
def test_only_a_list_of_whole_numbers_is_a_shape(sizes: Any, kind: str, tmp_path: Path) -> None:
    called = event("aten::relu", "cpu_op", 10, 50, 1, **{"Input Dims": [sizes], "Input type": ["float"]})
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event("ProfilerStep#1", "user_annotation", 0, 90, 1), called]}))
    (step,) = read_traced_steps(path)
    assert [op.kind for op in step.workload] == [kind]


def test_a_trace_of_a_cpu_is_a_workload_with_the_flop_that_torch_counts(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    attention = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    model = torch.nn.Sequential(
        torch.nn.Conv1d(8, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(1, 1), attention
    )
    inputs = torch.randn(4, 8, 32)

    def step() -> None:
        model(inputs).sum().backward()

    with FlopCounterMode(display=False) as counted:
        step()
    path = tmp_path / "cpu.json"
    for shapes in (True, False):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=shapes) as recorded:
            step()
        recorded.export_chrome_trace(str(path))
        if not shapes:
            with pytest.raises(InputError, match="have no shapes: record with"):
                import_file(path)
            continue
        workload = import_file(path).bound()
        flop = sum(float(amount) for name, amount in workload.cost.items() if name.startswith("flop.matrix"))
        attended = 3 * 2 * 2 * 4 * 4 * 32 * 32 * 8  # two products forward, four backward: torch counts none on a CPU
        assert flop == counted.get_total_flops() + attended and not workload.uncounted
        assert {op.attributes.get("phase") for op in workload} == {None, "backward"}
