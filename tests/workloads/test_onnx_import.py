"""ONNX imports: the weight-free models that ship with onnx, named axes, and files one should not trust."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.common.expressions import parse_expression
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload

onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
from onnx import TensorProto, helper  # noqa: E402

from slipstick.workloads.importers.onnx.importer import import_onnx  # noqa: E402

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def matrix_flop(graph: Workload, kind: str = "") -> Any:
    total: Any = 0
    for op in graph:
        if kind in op.kind:
            total = total + op.cost["flop.matrix.float32"] * op.times
    return total


# Parameters as published (pytorchcv: VGG-19 143,667,240, ResNet-50 25,557,032), and their products.
@pytest.mark.parametrize(
    ("name", "parameters", "products"),
    [
        ("resnet50", 25_557_032, 8.178e9),
        ("vgg19", 143_667_240, 39.264e9),
        ("squeezenet", 1_235_496, 0.698e9),
        ("densenet121", None, 5.668e9),
        ("shufflenet", None, 0.2493e9),
        ("bvlc_alexnet", 60_965_224, None),
        ("inception_v1", None, None),
        ("inception_v2", None, None),
        ("zfnet512", None, None),
    ],
)
def test_light_models_have_the_published_counts(name: str, parameters: int | None, products: float | None) -> None:
    graph = import_onnx(LIGHT / f"light_{name}.onnx")
    assert not graph.uncounted
    if parameters:
        assert graph.metadata["parameters"] == parameters
    if products:
        assert matrix_flop(graph) == pytest.approx(products, rel=1e-3)


def test_the_built_in_resnet50_is_the_one_that_others_exported() -> None:
    built = workload("resnet50-inference").bind(batch=1)
    imported = import_onnx(LIGHT / "light_resnet50.onnx")
    norms = [
        sorted(map(str, (op.dims.items() for op in graph if op.attributes.get("function") == "batch_norm")))
        for graph in (imported, built)
    ]
    assert norms[0] == norms[1]
    assert len(norms[0]) == 53
    assert matrix_flop(imported, "convolution") == matrix_flop(built, "convolution")


def model(nodes: list[Any], inputs: dict[str, list[Any]], constants: dict[str, list[int]], outputs: list[str]) -> bytes:
    def value(name: str, shape: list[Any] | None) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def weight(name: str, shape: list[int]) -> Any:
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL  # as large models have it: the file beside is not there
        tensor.external_data.add(key="location", value="../../etc/passwd")
        return tensor

    graph = helper.make_graph(
        nodes,
        "model",
        [value(name, shape) for name, shape in inputs.items()],
        [value(name, None) for name in outputs],
        [weight(name, shape) for name, shape in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()  # type: ignore[no-any-return]


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    return path


def test_named_axes_become_symbols_through_strided_convolutions_and_recurrences(tmp_path: Path) -> None:
    # ONNX's own inference gives up at a convolution over a named axis.
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], strides=[2, 2], pads=[20, 5, 20, 5], kernel_shape=[41, 11]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[3, 0, 1, 2]),
        helper.make_node("Flatten", ["c"], ["d"], axis=2),
        helper.make_node("GlobalAveragePool", ["b"], ["e"]),
    ]
    content = model(nodes, {"x": ["batch", 1, 161, "seq_len"]}, {"w": [4, 1, 41, 11]}, ["d", "e"])
    graph = import_onnx(write(tmp_path, content), {"batch": 4, "seq_len": 80})
    assert graph.symbols == {"batch", "seq_len"}
    convolution = next(op for op in graph if op.kind == "convolution")
    assert convolution.dims["out_width"] == parse_expression("floor((seq_len - 1)/2) + 1")
    assert graph.metadata["parameters"] == 4 * 41 * 11
    assert dict(graph.defaults) == {"batch": 4, "seq_len": 80}


def test_recurrent_operators_keep_their_length(tmp_path: Path) -> None:
    nodes = [helper.make_node("GRU", ["x", "w", "r"], ["y", "h"], hidden_size=32)]
    content = model(nodes, {"x": ["seq_len", "batch", 16]}, {"w": [1, 96, 16], "r": [1, 96, 32]}, ["y", "h"])
    graph = import_onnx(write(tmp_path, content))
    assert matrix_flop(graph) == parse_expression("2*batch*seq_len*3*32*(16 + 32)").expand()


def test_a_fused_product_may_turn_its_operands(tmp_path: Path) -> None:
    node = helper.make_node("FusedMatMul", ["x", "w"], ["y"], domain="com.microsoft", transA=1, transB=1)
    proto = onnx.ModelProto.FromString(model([node], {"x": [16, 4]}, {"w": [8, 16]}, []))
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8]))
    graph = import_onnx(write(tmp_path, proto.SerializeToString()))
    assert matrix_flop(graph) == 2 * 4 * 8 * 16


def test_operators_that_are_not_known_are_listed(tmp_path: Path) -> None:
    content = model([helper.make_node("Det", ["x"], ["y"])], {"x": [4, 3, 3]}, {}, ["y"])
    assert import_onnx(write(tmp_path, content)).uncounted == ("Det",)


def test_files_one_should_not_trust_are_refused_in_one_line(tmp_path: Path) -> None:
    whole = (LIGHT / "light_squeezenet.onnx").read_bytes()
    with pytest.raises(InputError, match=r"model\.onnx: no ONNX model"):
        import_onnx(write(tmp_path, whole[: len(whole) // 2]))
    with pytest.raises(InputError, match="no ONNX model"):
        import_onnx(write(tmp_path, b"MZ" + bytes(range(256)) * 8))
    with pytest.raises(InputError, match="no ONNX model"):
        import_onnx(write(tmp_path, b""))
    cyclic = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    with pytest.raises(InputError, match="reads 'b', which no earlier node makes .cyclic or out of order."):
        import_onnx(write(tmp_path, model(cyclic, {"x": [4]}, {}, ["b"])))
    clash = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    with pytest.raises(InputError, match="shapes contradict each other|no common inner size"):
        import_onnx(write(tmp_path, model(clash, {"x": [4, 8]}, {"w": [9, 3]}, ["y"])))
    wide = [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[9, 9])]
    with pytest.raises(InputError, match="does not fit|contradict|lies outside"):
        import_onnx(write(tmp_path, model(wide, {"x": ["batch", 3, 4, 4]}, {"w": [8, 3, 9, 9]}, ["y"])))
    with pytest.raises(InputError, match="size -4 lies outside"):
        import_onnx(write(tmp_path, model([helper.make_node("Relu", ["x"], ["y"])], {"x": [-4]}, {}, ["y"])))
    with pytest.raises(InputError, match="no such file"):
        import_onnx(tmp_path / "absent.onnx")


def test_damaged_files_end_in_one_line_or_in_a_graph(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    whole = [path.read_bytes() for path in sorted(LIGHT.parent.glob("simple/*/model.onnx"))]
    assert len(whole) > 10
    for _ in range(150):
        content = bytearray(whole[random.integers(len(whole))])
        for place in random.integers(len(content), size=random.integers(1, 8)):
            content[place] = random.integers(256)
        with contextlib.suppress(InputError):
            import_onnx(write(tmp_path, bytes(content)))


def test_a_window_as_large_as_its_input_has_one_place(tmp_path: Path) -> None:
    """LeNet's last convolution (LeCun et al. 1998, C5): 5 x 5 windows on 5 x 5 maps."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[5, 5])]
    graph = import_onnx(write(tmp_path, model(nodes, {"x": [1, 16, 5, 5]}, {"w": [120, 16, 5, 5]}, ["y"])))
    assert matrix_flop(graph) == 2 * 120 * 16 * 25


@pytest.mark.parametrize(
    ("node", "groups"),
    [
        (helper.make_node("LayerNormalization", ["x", "s"], ["y"], axis=1), 8),
        (helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"]), 8 * 32),
        (helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=4), 8 * 4),
    ],
)
def test_a_norm_has_as_many_means_as_the_standard_says(tmp_path: Path, node: Any, groups: int) -> None:
    """ONNX operators: over the last axes, over each sample and channel, over each sample and group."""
    content = model([node], {"x": [8, 32, 7, 7]}, {"s": [32], "b": [32]}, ["y"])
    (norm,) = (op for op in import_onnx(write(tmp_path, content)) if op.kind == "norm")
    assert (norm.dims["groups"], norm.dims["elements"]) == (groups, 8 * 32 * 7 * 7)


def test_attention_may_have_values_of_another_size_than_queries(tmp_path: Path) -> None:
    """ONNX operator set 23: Q and K of a head size, V and Y of another."""
    sizes = {"q": 192, "k": 192, "v": 128, "y": 128}
    there = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8, 16, size]) for name, size in sizes.items()
    }
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    graph = helper.make_graph([node], "model", [there["q"], there["k"], there["v"]], [there["y"]])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]).SerializeToString()
    (op,) = import_onnx(write(tmp_path, made))
    assert (op.kind, op.dims["queries"], op.dims["head_dim"], op.dims["value_dim"]) == ("attention", 16, 192, 128)
