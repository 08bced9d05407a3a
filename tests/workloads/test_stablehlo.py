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
    assert [op.kind for op in workload] == ["convolution", "view", "elementwise", "reduction", "gemm"]
    outputs, window, channels = 8 * 16 * 16 * 16, 3 * 3, 3
    assert workload.bound().cost["flop.matrix.float32"] == 2 * outputs * window * channels + 2 * 8 * 10 * 16
    assert dict(workload.operations[3].dims) == {"elements": 8 * 16 * 16 * 16, "outputs": 8 * 16}  # not its zero
    assert len(workload.edges) == 4  # a chain: what relu's zero waits for is nothing


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
