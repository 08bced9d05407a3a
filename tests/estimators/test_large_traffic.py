"""Many requests: corrections and edges of the band come from a shorter run, and are those of all requests simulated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest

import slipstick as ss
from slipstick.estimators.serving import serving_answer
from slipstick.estimators.serving.serving_answer import MEASURES, QUANTILES, Serving

COUNT, FEW = 10_000, 5_000
serve: Callable[..., Serving] = ss.serve


def served(load: Mapping[str, float]) -> Serving:
    words = {"input_tokens": 256, "output_tokens": 32, "num_requests": COUNT, **load}
    made: Serving = serve("llama-3-8b", "h100-sxm", **words)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("load", [{"concurrency": 8}, {"rate": 60.0}])
def test_edges_of_a_shorter_run_are_those_of_all(load: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """In front of the 80 % band of x1.3 to x2 that is little: within 5 % at every quantile, the 99th as well."""
    monkeypatch.setattr(serving_answer, "SAMPLED", FEW)
    few = served(load)
    monkeypatch.setattr(serving_answer, "SAMPLED", COUNT)
    every = served(load)
    assert any("as 5,000 of the requests have them" in text for text in few.assumptions)
    assert not any("of the requests have them" in text for text in every.assumptions)
    assert few.fast.arrived.shape == every.fast.arrived.shape == (COUNT,)
    for measure in MEASURES:
        for quantile in QUANTILES:
            pairs = zip(few.band(measure, quantile), every.band(measure, quantile), strict=True)
            assert all(abs(math.log(a / b)) < 0.05 for a, b in pairs), (measure, quantile)
    assert all(abs(math.log(a / b)) < 0.01 for a, b in zip(few.rate_band, every.rate_band, strict=True))


def test_a_queue_that_grows_is_simulated_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the slow edge first tokens come later with every request: no part of it stands for the whole."""
    monkeypatch.setattr(serving_answer, "SAMPLED", FEW)
    few = served({"rate": 150.0})
    monkeypatch.setattr(serving_answer, "SAMPLED", COUNT)
    every = served({"rate": 150.0})
    assert few.band("ttft", "p99") == every.band("ttft", "p99")
    assert few.band("ttft", "p99")[2] > 4 * few.band("ttft", "p99")[0]
