"""The law of collectives: equal to the library that ships, and a band that knows which links nobody timed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import digest, load_fitted
from slipstick.estimators.interconnect.collective_law import (
    LOOP,
    NAME,
    CollectiveCase,
    CollectiveLaw,
    half_width,
    library,
    shipped,
)
from slipstick.estimators.interconnect.collectives import Collectives
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.scoreboards.parallel.collectives_board import (
    FOLDER,
    described,
    law_rows,
    nccl_timings,
    timings,
    together,
)
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op

FUNCTIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")


def call(function: str, size: float, devices: int) -> Op:
    return operation(
        "it", "collective", {"elements": size / 2, "participants": devices}, "float16", {"function": function}
    )


@given(
    st.sampled_from(["a100-sxm-80gb", "h100-sxm", "b200-sxm", "mi300x", "gb200"]),
    st.sampled_from(FUNCTIONS),
    st.floats(1e3, 1e10),
    st.integers(2, 8),
)
def test_the_library_that_ships_says_what_the_law_says(name: str, function: str, size: float, devices: int) -> None:
    on, made = machine(name), shipped()
    law = CollectiveLaw((CollectiveCase(on, function, LOOP),))
    columns = {"case": np.zeros(1), "bytes": np.array([size]), "participants": np.array([float(devices)])}
    columns["stride"] = np.ones(1)
    by_law = float(made.seconds(law, columns, law.groups(columns["case"]))[0])
    assert float(library(made).times([call(function, size, devices)], on)[0]) == pytest.approx(by_law, rel=1e-9)


@given(st.integers(2, 8), st.floats(0.0, 1.0))
def test_a_ring_ends_with_a_copy_that_passes_no_link(devices: int, copied: float) -> None:
    """NCCL's src/device/all_gather.h: a block sends, passes on p - 2 parts and copies the last, in turn."""
    on, size = machine("a100-sxm-80gb"), 1e12
    rate = float(on.links["nvswitch"].bandwidth)
    for function, passed in (("all_gather", 1), ("reduce_scatter", 1), ("all_reduce", 2)):
        parts = passed * (devices - 1) + copied
        seconds = float(Collectives(copied=copied).times([call(function, size, devices)], on)[0])
        assert seconds == pytest.approx(parts * size / devices / rate, rel=1e-3)


def test_a_band_is_wider_where_nobody_timed_the_link() -> None:
    made, op = shipped(), call("all_reduce", 1e9, 8)
    known, no_timings = (half_width(made, op, machine(name)) for name in ("h100-sxm", "mi300x"))
    assert no_timings > 1.3 * known
    far = call("all_reduce", 1e9, 64)
    assert half_width(made, far, machine("a100-80-dgx")) > half_width(made, op, machine("a100-80-dgx"))


@pytest.mark.slow
@pytest.mark.skipif(data_folder() is None, reason="no public measurements here (set SLIPSTICK_DATA)")
def test_what_ships_is_what_public_timings_give() -> None:
    folder, file = data_folder(), load_fitted(NAME)
    assert folder is not None
    if any(digest(folder / name) != known for name, known in file.rows.items() if (folder / name).exists()):
        pytest.skip("these timings are not those that ship")
    if not all((folder / name).exists() for name in file.rows):
        pytest.skip(f"only a part of {FOLDER} is here")
    law, rows = law_rows(together(timings(folder), described(nccl_timings(folder))))
    made = fit(law, rows)
    assert made.coordinates == file.fit(NAME).coordinates
    assert made.logs == pytest.approx(file.fit(NAME).logs, abs=1e-4)
