"""The cores of one TPU chip share its memory: their gradients cross no link to other chips."""

from __future__ import annotations

import pytest

from slipstick.estimators.tpu.tpu_step import joins_cores
from slipstick.experiments.question.question import question
from slipstick.hwmodels.catalog import machine


@pytest.mark.parametrize(("name", "joined"), [("tpu-v4", False), ("tpu-v5p", False), ("tpu-v2-8", True)])
def test_a_link_joins_the_cores_of_a_board_and_not_those_of_a_chip(name: str, joined: bool) -> None:
    assert joins_cores(machine(name)) == joined


def test_links_to_other_chips_change_no_step_of_one_chip() -> None:
    """Cloud TPU documentation: v4 has 275 TFLOP/s and 1200 GB/s, v5e 197 and 819; each chip is one device."""
    seconds = {}
    for name, link in (("tpu-v4", "1 GB/s"), ("tpu-v4", "50 GB/s"), ("tpu-v5e", "")):
        sizes: dict[str, object] = {"workload.batch": 64, **({"machine.links.ici.bandwidth": link} if link else {})}
        answer = question("bert-large", name, None, sizes, "bfloat16").answer()
        seconds[name, link] = answer.time
        summed = sum(part.contribution for part in answer.parts if part.kind == "collective")
        assert summed < 0.1 * answer.time
    assert seconds["tpu-v4", "1 GB/s"] == seconds["tpu-v4", "50 GB/s"] < seconds["tpu-v5e", ""]


def test_a_host_feeds_one_core_as_it_feeds_five() -> None:
    """The default left its host's input out of the step of a chip of one core: five cores took 1.6 times as long."""
    cores = [question("resnet18", "tpu-v5e", None, {"machine.cores": count}).answer().time for count in (1, 5)]
    assert cores[1] <= cores[0]
    assert cores[0] == question("resnet18", "tpu-v5e", "tpu", {}).answer().time
