"""What a program asks of every machine, without checking it anew, is what `using` makes of it."""

from __future__ import annotations

import pytest

from slipstick.hwmodels.catalog import machine


@pytest.mark.parametrize("name", ["h100-sxm", "rtx-4090", "a100-80-dgx"])
@pytest.mark.parametrize("changes", [{}, {"clock": 1e9}])
def test_weights_between_uses_are_those_of_using(name: str, changes: dict[str, float]) -> None:
    on = machine(name).using(changes) if changes else machine(name)
    on.get("runtime.weights_between"), on.form, on.numbers  # what was read of the one is not read of the other
    short, long = on.after_weights(1e9), on.using({"runtime.weights_between": 1e9})
    assert short == long and hash(short) == hash(long) and short.sources == long.sources
    assert short.form == long.form != on.form and short.numbers == long.numbers
    assert short.fingerprint == long.fingerprint != on.fingerprint
    assert short.stated is long.stated is on.stated
