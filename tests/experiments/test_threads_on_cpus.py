"""Threads of a run on CPUs by default: as many as cores is the answer without them, more are no slower."""

from __future__ import annotations

import pytest

import slipstick as ss
from slipstick.common.errors import InputError


@pytest.mark.parametrize("name", ["gpt2-inference", "mlp", "resnet18-inference"])
def test_as_many_threads_as_cores_is_the_answer_without_threads_and_more_are_no_slower(name: str) -> None:
    on = ss.machine("xeon-gold-6148")
    whole = ss.question(name, on).answer()
    times = [ss.question(name, on, settings={"run.threads": n}).answer().time for n in (1, 5, 20, 40)]
    assert times[2:] == [pytest.approx(whole.time, rel=1e-12)] * 2
    assert times == sorted(times, reverse=True)
    assert times[0] <= 20 * times[2] * (1 + 1e-9)  # one core does all the work of twenty, and no more
    assert ss.question(name, on, settings={"run.threads": 5}).answer().interval() is not None
    with pytest.raises(InputError, match="40 hardware threads"):
        ss.question(name, on, settings={"run.threads": 41}).answer()


def test_a_stream_on_a_many_core_processor_nears_its_memory_with_threads() -> None:
    """The data sheet's 460 GB/s of MCDRAM: 3.2 GB of the triad take 7 ms at least, not seconds."""
    on = ss.machine("xeon-phi-7250")
    answer = ss.question("stream-triad", on, settings={"run.threads": 68}).answer()
    assert 3.2e9 / 460e9 < answer.time < 3 * 3.2e9 / 460e9
    assert answer.interval() is not None


def test_networks_whose_threads_share_images_keep_the_model_of_the_paper() -> None:
    found = ss.question("phi-cnn-small", "xeon-gold-6148", settings={"run.threads": 8})
    assert found.estimator == ss.estimator("threads-counted").resolved(found.workload, found.machine)


def test_recurrent_layers_are_products_and_reach_a_tenth_of_the_peak() -> None:
    """Steps of LSTM layers are matrix products of 64 rows, no element-wise loops: 64 GFLOP of 253 M weights."""
    on = ss.machine("xeon-gold-6148")
    found = ss.question("gnmt", on)
    answer = found.answer()
    flop = sum(float(op.cost.get("flop.matrix.float32", 0.0)) * float(op.times) for op in found.workload.bound())
    assert flop / answer.time > 0.1 * on.peak("vector", "float32")
