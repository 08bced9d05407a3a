"""What a plan of serving says: whole reasons, and nothing of limits where there are none."""

from __future__ import annotations

import pytest

import slipstick as ss
from slipstick.common.errors import InputError


@pytest.mark.parametrize("rate", [None, 5.0])
def test_limits_are_kept_only_where_there_are_some(rate: float | None) -> None:
    free = ss.plan_serving("llama-3.1-8b", "h100-sxm", devices=1, rate=rate)
    held = ss.plan_serving("llama-3.1-8b", "h100-sxm", devices=1, rate=rate, limit={"tpot": 0.05})
    lines = [[line for line in plan.heads if "limits kept" in line] for plan in (free, held)]
    assert [len(each) for each in lines] == [0, 1 if rate is None else 2]


def test_a_reason_is_whole() -> None:
    plan = ss.plan_serving("llama-3.1-70b", ["l4", "h100-sxm"], dtype=["bf16"], devices=4)
    left_out = [line for line in plan.heads if line.startswith("left out: ")]
    assert left_out and all(line.count("(") == line.count(")") == 1 for line in left_out)  # (N layouts)
    with pytest.raises(InputError, match="can serve: l4: ") as said:
        ss.plan_serving("llama-3.1-70b", "l4", devices=1)
    assert str(said.value).count("(") == str(said.value).count(")")
