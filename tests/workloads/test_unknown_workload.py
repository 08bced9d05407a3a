"""An unknown network gets the way on: names of its family or kind, and its own file."""

from __future__ import annotations

import pytest

from slipstick.common.errors import InputError
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.catalog import workload


@pytest.mark.parametrize(
    ("name", "words", "never"),
    [
        ("whisper-large-v2", "of its kind (speech) there are deepspeech2-inference", "bert-large"),
        ("mobilenet-v3-large", "did you mean 'imported/mobilenetv3_large_w1'", "bert-large"),
        ("vit-b-16", "did you mean 'imported/vit'", "bert"),
        ("pythia-70m", "slipstick serve NAME", "megatron"),
        ("t5-large", "did you mean 'imported/t5'", "gpt2"),
        ("gtp2", "did you mean 'gpt2'", "vgg"),
        ("resnet5", "did you mean 'resnet50' (training step)", "vgg"),
    ],
)
def test_the_nearest_by_kind_and_a_file_of_ones_own(name: str, words: str, never: str) -> None:
    with pytest.raises(InputError) as error:
        workload(name)
    said = str(error.value)
    assert words in said and never not in said
    assert "FILE.py:FUNCTION" in said or "(training step)" in said


@pytest.mark.parametrize(("name", "near"), [("rtx-6090", "rtx-5090"), ("npu", "h100-sxm"), ("trainium3", "trainium2"),
                                                ("h100-smx", "h100-sxm")])  # fmt: skip
def test_an_unknown_machine_gets_a_file_to_copy(name: str, near: str) -> None:
    with pytest.raises(InputError) as error:
        machine(name)
    assert f"'extends: {near}'" in str(error.value)
