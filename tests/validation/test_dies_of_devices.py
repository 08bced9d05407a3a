"""What LLM-Inference-Bench counts as a device: an MI250's package of two dies, as its scripts run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.experiments.scoreboards.serving.whole_batches import read_batches
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.language_catalog import language_model

HEAD = "device,devices,engine,model,input_tokens,output_tokens,latency_s,sequences,suspicious\n"


def test_a_package_of_two_dies_is_two_devices_of_the_machine(tmp_path: Path) -> None:
    """Llama 2 70B in 16 bits (138 GB) ran on two packages, Mixtral (93 GB) on one: half the dies hold neither."""
    rows = [
        "AMD MI250 GPU,1,vLLM,mistralai/Mixtral-8x7B-v0.1,128,128,9.0,1,",
        "AMD MI250 GPU,2,vLLM,meta-llama/Llama-2-70b-hf,128,128,9.0,1,",
        "AMD MI250 GPU,4,llama.cpp,meta-llama/Llama-2-7b-hf,128,128,9.0,1,",
        "Nvidia H100 GPU,2,vLLM,meta-llama/Llama-2-7b-hf,128,128,9.0,1,",
    ]
    path = tmp_path / "bench.csv"
    path.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    made, refused = read_batches(path)
    assert [row.devices for row in made] == [2, 4, 8, 2] and not refused
    one = machine("mi250-gcd").memory["HBM2e"].capacity
    for name, dies in (("mixtral-8x7b", 2), ("llama-2-70b", 4)):
        assert dies / 2 * one < 2 * language_model(name).parameters < dies * one


def test_a_die_reaches_its_twin_over_four_links_and_the_node_over_three() -> None:
    """AMD's ROCm documentation: links of 25 GT/s and two bytes, four inside a package, one of eight to the host."""
    inside, outside = machine("mi250-gcd").links.values()
    link = 25e9 * 2
    assert (inside.width, inside.bandwidth) == (2, pytest.approx(4 * link))
    assert (outside.width, outside.bandwidth) == (8, pytest.approx((8 - 4 - 1) * link))
