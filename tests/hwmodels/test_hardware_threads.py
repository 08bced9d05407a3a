"""Hardware threads of a core: what stands in data sheets, and that they share what the core does."""

from __future__ import annotations

import pytest

import slipstick as ss


@pytest.mark.parametrize(("name", "threads"), [("xeon-phi-7120p", 4), ("xeon-phi-7250", 4), ("xeon-platinum-8480", 2)])
def test_threads_of_a_core_are_those_of_its_maker(name: str, threads: int) -> None:
    """Knights Corner (Viebke et al. 2019), Knights Landing (Sodani et al. 2016), Hyper-Threading (Intel ARK)."""
    assert ss.machine(name).threads_per_core == threads


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["phi-a", "phi-queue", "phi-simulated"])
def test_threads_that_fill_every_core_alike_do_no_more_than_cores(estimator: str) -> None:
    """68, 136 and 272 threads on 68 cores without a table of cycles an instruction: the cores' work, within 2 %."""
    times = [
        ss.estimate("phi-cnn-medium", "xeon-phi-7250", estimator=estimator, settings={"run.threads": count}).time
        for count in (68, 136, 272)
    ]
    assert times[1:] == pytest.approx(times[:1] * 2, rel=0.02)
