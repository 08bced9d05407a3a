"""StableHLO text as a workload: flop by closed form, calls followed, regions left to their operation."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.workloads.importers.detect import import_file
from slipstick.workloads.importers.xla.stablehlo import import_stablehlo
from tests import programs_made


def written(folder: Path, text: str) -> Path:
    (folder / "step.mlir").write_text(text)
    return folder / "step.mlir"


def test_a_convolution_and_a_product_by_closed_form(tmp_path: Path) -> None:
    workload = import_file(written(tmp_path, programs_made.STABLEHLO))
    assert [op.kind for op in workload] == ["convolution", "elementwise", "gemm"]  # relu goes into the sum over it
    outputs, window, channels = 8 * 16 * 16 * 16, 3 * 3, 3
    assert workload.bound().cost["flop.matrix.float32"] == 2 * outputs * window * channels + 2 * 8 * 10 * 16
    sums = workload.operations[1]
    assert dict(sums.dims) == {"elements": 2 * outputs, "reads": outputs, "writes": 8 * 16}  # not its zero
    assert len(workload.edges) == 2  # a chain: what relu's zero waits for is nothing
    assert workload.metadata["execution"] == "compiled"


NORMALISED = """func.func public @main(%x: tensor<1024x512xbf16>, %g: tensor<512xf32>, %w: tensor<512x512xbf16>) -> tensor<512xf32> {
  %0 = stablehlo.convert %x : (tensor<1024x512xbf16>) -> tensor<1024x512xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.multiply %0, %0 : tensor<1024x512xf32>
  %2 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
  %3 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
  %4 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<512xf32>) -> tensor<1024x512xf32>
  %5 = stablehlo.broadcast_in_dim %3, dims = [1] : (tensor<512xf32>) -> tensor<1024x512xf32>
  %6 = stablehlo.broadcast_in_dim %g, dims = [1] : (tensor<512xf32>) -> tensor<1024x512xf32>
  %7 = stablehlo.subtract %0, %4 : tensor<1024x512xf32>
  %8 = stablehlo.multiply %7, %5 : tensor<1024x512xf32>
  %9 = stablehlo.multiply %8, %6 : tensor<1024x512xf32>
  %10 = stablehlo.convert %9 : (tensor<1024x512xf32>) -> tensor<1024x512xbf16>
  %11 = stablehlo.dot_general %10, %w, contracting_dims = [1] x [0] : (tensor<1024x512xbf16>, tensor<512x512xbf16>) -> tensor<1024x512xbf16>
  %12 = stablehlo.convert %11 : (tensor<1024x512xbf16>) -> tensor<1024x512xf32>
  %13 = stablehlo.reduce(%12 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<1024x512xf32>, tensor<f32>) -> tensor<512xf32>
  %14 = stablehlo.add %13, %13 : tensor<512xf32>
  %15 = stablehlo.exponential %12 : tensor<1024x512xf32>
  return %14 : tensor<512xf32>
}
"""  # noqa: E501 - as it is printed


def test_what_lies_between_the_parts_of_a_kernel_is_not_moved(tmp_path: Path) -> None:
    workload = import_stablehlo(written(tmp_path, NORMALISED)).bound()
    array, row = 1024 * 512, 512
    moved = [(float(op.cost["read"]), float(op.cost["written"])) for op in workload]
    assert moved == [
        (2 * array, 2 * 4 * row),  # both sums in one kernel, over what is stored
        (2 * array + 3 * 4 * row, 2 * array),  # normalised, in the type that the product reads
        (2 * array + 2 * row * row, 2 * array),
        (2 * array, 4 * row),
        (4 * row, 4 * row),
    ]  # nothing reads the exponential: it is not computed
    flop = sum(float(amount) for name, amount in workload.cost.items() if name.startswith("flop.vector"))
    assert flop == (3 + 1 + 3 + 3) * array + row  # conversions, the square, three steps, three sums; each once


def test_gradients_of_a_convolution_are_told_from_a_pass_forward(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<8x16x16x3xf32>, %w: tensor<3x3x3x4xf32>, %d: tensor<8x16x16x4xf32>) -> (tensor<3x3x3x4xf32>, tensor<8x16x16x3xf32>) {
  %0 = stablehlo.convolution(%x, %d) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x16x16x3xf32>, tensor<8x16x16x4xf32>) -> tensor<3x3x3x4xf32>
  %1 = stablehlo.convolution(%d, %w) dim_numbers = [b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x16x16x4xf32>, tensor<3x3x3x4xf32>) -> tensor<8x16x16x3xf32>
  return %0, %1 : tensor<3x3x3x4xf32>, tensor<8x16x16x3xf32>
}
"""  # noqa: E501 - as it is printed
    weights, inputs = import_stablehlo(written(tmp_path, text))
    assert (weights.attributes["pass"], inputs.attributes["pass"]) == ("backward_weight", "backward_data")
    assert weights.dims == inputs.dims
    wanted = {"batch": 8, "channels_in": 3, "channels_out": 4, "in_height": 16, "out_width": 16, "kernel_width": 3}
    assert {name: weights.dims[name] for name in wanted} == wanted
    assert weights.cost["flop.matrix.float32"] == inputs.cost["flop.matrix.float32"] == 2 * 8 * 16 * 16 * 3 * 4 * 9


def test_generic_form_batches_and_collectives(tmp_path: Path) -> None:
    workload = import_stablehlo(written(tmp_path, programs_made.GENERIC))
    assert [op.kind for op in workload] == ["gemm", "collective"]
    assert workload.bound().cost["flop.matrix.bfloat16"] == 2 * 4 * 6 * 5 * 8
    assert workload.operations[1].dims["participants"] == 4


def test_a_spread_convolution_counts_its_inputs(tmp_path: Path) -> None:
    text = programs_made.STABLEHLO.replace(
        "stride = [2, 2], pad = [[0, 1], [0, 1]]", "pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]"
    )
    text = text.replace("8x16x16x16", "8x64x64x16")
    cost = import_stablehlo(written(tmp_path, text)).bound().cost
    assert cost["flop.matrix.float32"] == 2 * 8 * 32 * 32 * 16 * 9 * 3 + 2 * 8 * 10 * 16


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("contracting_dims = [1] x [0]", "contracting_dims = [0] x [0]", "line 10: dot_general: .* do not contract"),
        ("contracting_dims = [1] x [0]", "contracting_dims = [7] x [0]", "line 10: dot_general"),
        ("8x32x32x3xf32", "8x?x32x3xf32", "size that is not known"),
        ("8x32x32x3xf32", "8x32x32x3xpoem", "unknown type of elements"),
        ("call @relu", "call @gelu", "line 8: calls @gelu"),
        ("stablehlo.maximum %arg0, %0", "call @relu(%arg0)", "circle"),
        ("func.func", "func.poem", "no function"),
        ("feature_group_count = 1 : i64}", "feature_group_count = 1 : i64", "line 4: "),
        (
            "feature_group_count = 1",
            "feature_group_count = 0",
            r"line 4: .*\(3 channels, feature_group_count = 0 and w",
        ),
        (
            "feature_group_count = 1",
            "feature_group_count = 2",
            r"line 4: .*\(3 channels, feature_group_count = 2 and w",
        ),
    ],
)
def test_contradictions_are_said_with_their_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        import_stablehlo(written(tmp_path, programs_made.STABLEHLO.replace(old, new)))


LOOP = """func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %first = stablehlo.constant dense<FIRST> : tensor<i32>
  %last = stablehlo.constant dense<LAST> : tensor<i32>
  %r:2 = stablehlo.while(%i = %first, %h = %x) : tensor<i32>, tensor<8x8xf32>
   cond {
    %p = stablehlo.compare WAY, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %by = stablehlo.constant dense<2> : tensor<i32>
    %d = stablehlo.dot_general %h, %h, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %j = stablehlo.MOVED %i, %by : tensor<i32>
    stablehlo.return %j, %d : tensor<i32>, tensor<8x8xf32>
  }
  return %r#1 : tensor<8x8xf32>
}
"""  # noqa: E501 - as it is printed


@pytest.mark.parametrize(
    ("first", "last", "way", "moved", "trips"),
    [
        (0, 9, "LT, %i, %last", "add", 5),
        (0, 10, "GE, %last, %i", "add", 6),
        (10, 0, "GT, %i, %last", "subtract", 5),
        (10, 0, "NE, %i, %last", "subtract", 5),
        (10, 0, "LT, %i, %last", "subtract", 0),
        (0, 10, "LT, %i, %last", "subtract", None),
        (0, 9, "NE, %i, %last", "add", None),
    ],
)
def test_turns_of_a_loop_are_counted(
    tmp_path: Path, first: int, last: int, way: str, moved: str, trips: int | None
) -> None:
    text = LOOP.replace("FIRST", str(first)).replace("LAST", str(last)).replace("WAY", way).replace("MOVED", moved)
    if trips == 0:
        with pytest.raises(InputError, match="no operation that takes time"):
            import_stablehlo(written(tmp_path, text))
        return
    workload = import_stablehlo(written(tmp_path, text))
    if trips is None:
        assert workload.uncounted == ("while",)
    else:
        assert sum(float(op.cost["flop.matrix.float32"] * op.times) for op in workload) == trips * 2 * 8**3
