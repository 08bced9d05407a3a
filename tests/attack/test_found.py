"""What `make attack` found, kept: each was an exception, a crash or an endless run once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.experiments.question.question import question
from slipstick.experiments.traces.recorded import read_recorded
from slipstick.hwmodels.files.readers import InputError
from slipstick.workloads.graph.cost import Cost
from slipstick.workloads.graph.workload import Workload
from tests.attack.seeds import trace


def test_a_resource_of_four_words_is_refused() -> None:
    with pytest.raises(InputError, match=r"want flop\.UNIT\.DTYPE"):
        Cost({"flop.matrix.float32.more": 1})


def test_a_workload_of_no_operation_takes_no_time_and_that_is_no_answer() -> None:
    with pytest.raises(InputError, match="want a finite time > 0"):
        question(Workload("nothing", ()), "v100-sxm", "roofline", []).answer()


@pytest.mark.parametrize("text", ["e", "+", "--", ".."])
def test_a_correlation_that_is_no_number_is_left_out_or_said(text: str, tmp_path: Path) -> None:
    document = trace()
    document["traceEvents"][1]["args"]["correlation"] = "CUT"
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document).replace('"CUT"', text))
    with pytest.raises(InputError):
        read_recorded(str(path))
