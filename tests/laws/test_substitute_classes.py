"""Which measured class of kernels is the substitute of another: relations that hold whatever was measured."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.fitting.similarity_weights import DIFFERENCES, SimilarityWeights
from slipstick.estimators.gpu.transfer.kernel_class import differences, fallback_class_for
from slipstick.estimators.gpu.transfer.pooling_constants import UNKNOWN

ALIKE = SimilarityWeights((1.0, 2.0, 4.0, 8.0), 0.1, 0.5, 0.5, substitute_spread=(0.1, 0.3, 0.2, 0.5, 0.25))
CLASSES = (
    "gemm.float32", "gemm.float32.batched", "gemm.bfloat16", "gemm.float16", "gemm.float8", "gemm.float8_block",
    "gemm.bfloat16.experts", "gemm.bfloat16.experts.int4", "gemm.nvfp4.experts", "attention.bfloat16",
    "attention.bfloat16.prompts", "attention.bfloat16.prompts.latent", "attention.bfloat16.latent.float8",
    "convolution.float16", "convolution.float32", "elementwise.float32", "softmax.float32", "gather.bfloat16",
)  # fmt: skip
KNOWN = st.sets(st.sampled_from(CLASSES), min_size=1)


@given(st.sampled_from(CLASSES), KNOWN)
def test_a_measured_class_is_its_substitute(name: str, known: set[str]) -> None:
    made = fallback_class_for(name, known | {name}, ALIKE)
    assert made is not None and made.spread == 0.0 and differences(name, name) == ()


@pytest.mark.parametrize(
    ("name", "measured", "spread"),
    [
        ("gemm.float16", "gemm.bfloat16", 0.0),  # both types of 16 bits have one rate on every data sheet
        ("attention.float16.prompts", "attention.bfloat16.prompts", 0.0),
        ("gather.bfloat16", "elementwise.float32", 0.1),
        ("gemm.mxfp8.experts.mxfp4", "gemm.float8", (0.3**2 + 0.2**2 + 0.5**2) ** 0.5),
        ("gemm.tfloat32", "gemm.bfloat16", 0.3),  # by the class of matrix engines, though float32 is as wide
    ],
)
def test_differences_of_classes_add_up(name: str, measured: str, spread: float) -> None:
    among = [measured] if "experts" in name else [one for one in CLASSES if one != name]
    made = fallback_class_for(name, among, ALIKE)
    assert made is not None and made.measured == measured and made.spread == pytest.approx(spread)


def test_of_a_type_narrower_than_all_that_were_timed_nothing_is_known() -> None:
    """No fit says what a matrix engine's next type reaches: other types on engines of one width differ by less."""
    made = fallback_class_for("gemm.nvfp4.experts", ["gemm.bfloat16.experts", "gemm.float8.experts"], ALIKE)
    assert made is not None and (made.measured, made.spread) == ("gemm.float8.experts", UNKNOWN)


def test_what_differs_in_kind_does_not_change_how_wide_a_substitute_is() -> None:
    """A narrow type of additions, which no product takes, made a product in that type look known."""
    for more in ("elementwise.bfloat16", "attention.bfloat16.prompts"):
        alone, beside = (fallback_class_for("gemm.bfloat16", ["gemm.float32", *add], ALIKE) for add in ([], [more]))
        assert alone == beside and alone is not None and (alone.measured, alone.spread) == ("gemm.float32", UNKNOWN)


def test_what_has_a_role_is_the_substitute_of_nothing_without_it() -> None:
    """A layer of experts sorts its tokens as well: no plain product takes that long."""
    for one, other in combinations(CLASSES, 2):
        for name, measured in ((one, other), (other, one)):
            if differences(name, measured) is not None:
                assert {"experts", "latent"} & {*measured.split(".")} <= {*name.split(".")}
    assert len(ALIKE.substitute_spread) == len(DIFFERENCES)
