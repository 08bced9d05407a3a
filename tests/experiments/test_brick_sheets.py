"""Bricks of torch models run on their own, and as sheets that somebody else wrote."""

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.workloads.transforms.bricks import find_bricks


def test_every_brick_runs_and_gives_what_its_layers_give(small_model) -> None:
    from slipstick.experiments.measure.bricks.brick_modules import brick_module, task

    for granularity in (1, 2, 3, len(small_model.workload)):
        for brick in find_bricks(small_model.workload, granularity):
            module, inputs = brick_module(small_model, brick)
            outputs = task(module, inputs)()
            last = small_model.nodes[brick.layers[-1]][-1]
            assert outputs[-1].shape == last.meta["val"].shape


def test_a_brick_holds_nothing_of_the_model_but_its_own_layers(small_model) -> None:
    from slipstick.experiments.measure.bricks.brick_modules import brick_module

    brick = find_bricks(small_model.workload, 1)[0]
    module, _ = brick_module(small_model, brick)
    assert len([node for node in module.graph.nodes if node.op == "call_function"]) == 1
    names = [name for name, _ in module.named_buffers()]
    assert all(name.startswith("constant") for name in names)


def test_identity_is_shape_and_parameters_not_weights() -> None:
    torch = pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks.brick_modules import layer_model

    def identities(stride: int, seed: int):
        torch.manual_seed(seed)
        model = layer_model("m", torch.nn.Conv2d(3, 4, 3, stride=stride), (torch.rand(1, 3, 9, 9),))
        return [op.identity for op in model.workload]

    assert identities(1, 0) == identities(1, 1)
    assert identities(1, 0) != identities(2, 0)


def test_bricks_export_to_disk_and_load_again(small_model, tmp_path: Path) -> None:
    import torch

    from slipstick.experiments.measure.bricks.brick_modules import brick_module, save_brick

    module, inputs = brick_module(small_model, find_bricks(small_model.workload, 3)[0])
    save_brick(module, inputs, tmp_path / "brick.pt2")
    again = torch.export.load(str(tmp_path / "brick.pt2")).module()
    assert torch.equal(again(*inputs)[-1], module(*inputs)[-1])


def test_a_sheet_tells_no_order_and_runs_elsewhere_under_the_same_identities(small_model, tmp_path: Path) -> None:
    import torch

    from slipstick.experiments.measure.bricks.brick_modules import brick_module
    from slipstick.experiments.measure.bricks.bricks_file import load_sheet, save_sheet

    bricks = {brick.identity: brick_module(small_model, brick) for brick in find_bricks(small_model.workload, 2)}
    path = tmp_path / "sheet.json"
    assert save_sheet(((identity, module) for identity, (module, _) in bricks.items()), path, seed=3) == len(bricks)
    loaded = load_sheet(path)
    assert set(loaded) == set(bricks) and list(loaded) != list(bricks)
    for identity, (module, inputs) in bricks.items():
        again, own = loaded[identity]
        assert [(t.shape, t.stride(), t.dtype) for t in own] == [(t.shape, t.stride(), t.dtype) for t in inputs]
        for one, other in zip(module.named_buffers(), again.named_buffers(), strict=True):
            other[1].copy_(one[1])
        assert all(torch.equal(a, b) for a, b in zip(module(*inputs), again(*inputs), strict=True))
    assert "net" not in path.read_text() and "layer" not in path.read_text()


TWO = {"input": [[1], [1], "float32"]}


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([{"call": "aten.from_file.default", "args": ["/etc/passwd"]}], "none that a sheet may name"),
        ([{"call": "os.system", "args": ["true"]}], "none that a sheet may name"),
        ([{"input": [[1 << 20, 1 << 20], [1 << 20, 1], "float32"]}], "more than 8 GiB"),
        ([{"input": [[2], [1], "load"]}], "no shape, strides and dtype"),
        ([{"call": "aten.relu.default", "args": [{"dtype": "load"}]}], "names no dtype"),
        ([{"call": "aten.relu.default", "args": [{"node": 7}]}], "cannot be built"),
        ([{"call": "aten.relu.default", "args": [{"node": -1}]}], "cannot be built"),
        ([{"call": "aten.save.default", "args": [], "kwargs": {"filename": "x"}}], "none that a sheet may name"),
        ([{"call": "aten.set_.source_Tensor", "args": []}], "none that a sheet may name"),
        ([{"call": "aten._print.default", "args": ["x"]}], "none that a sheet may name"),
        ([{"call": "aten.zeros.default", "args": [[10**12]]}], "more than 8 GiB"),
        ([TWO, {"call": "aten.expand.default", "args": [{"node": 0}, [10**12]]}], "more than 8 GiB"),
        ([{"input": [[1 << 34], [0], "int64"]}], "more than 8 GiB"),
        ([{"input": [[2], [1], "quint8"]}], "no shape, strides and dtype"),
        (
            [{"input": [[1 << 32], [0], "int8"]}, {"call": "aten.unbind.int", "args": [{"node": 0}]}],
            "more than 10000",
        ),
        ([TWO, {"call": "aten.relu.default", "args": [{"node": 0}, 1]}], "takes 1 arguments by place"),
        ([TWO, {"call": "getitem", "args": [{"node": 0}, 0], "kwargs": {"a": 1}}], "takes a node and a whole number"),
        ([TWO, {"call": "aten.split.Tensor", "args": [{"node": 0}, "x"]}], "cannot be built"),
    ],
)
def test_a_sheet_of_a_stranger_is_data(nodes, words: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks.bricks_file import SCHEMA, load_sheet

    path = tmp_path / "sheet.json"
    path.write_text(json.dumps({"schema": SCHEMA, "bricks": [{"identity": "a", "nodes": nodes}]}))
    with pytest.raises(InputError, match=words):
        load_sheet(path)


def test_operations_of_sheets_take_and_give_tensors_alone() -> None:
    pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks.bricks_file import OPERATIONS, operation

    for name in OPERATIONS:
        schema = operation(name, "here")._schema
        assert {str(given.type).removeprefix("List[").rstrip("]") for given in schema.returns} <= {"Tensor"}, name
        assert not any(argument.is_out or "Storage" in str(argument.type) for argument in schema.arguments), name


@pytest.mark.parametrize("call", ["aten.relu.default", "aten.zeros.default", "getitem"])
def test_names_of_a_sheet_are_no_code(call: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="bricks of torch models need the extra torch")
    from slipstick.experiments.measure.bricks.bricks_file import SCHEMA, load_sheet

    canary = tmp_path / "fired"
    key = f"**({{}} if __import__('pathlib').Path({str(canary)!r}).touch() is None else {{}})) #"
    nodes = [
        {"input": [[2], [1], "float32"]},
        {"call": call, "args": [{"node": 0}], "kwargs": {key: 1}},
        {"output": [1]},
    ]
    path = tmp_path / "sheet.json"
    path.write_text(json.dumps({"schema": SCHEMA, "bricks": [{"identity": "a", "nodes": nodes}]}))
    with pytest.raises(InputError):
        for module, inputs in load_sheet(path).values():
            module(*inputs)
    assert not canary.exists()
