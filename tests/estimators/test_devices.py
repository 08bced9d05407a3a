"""Calibration across devices: closed forms, what a new machine's band must do, and the file it is kept in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from estimators.across_devices import devices_file
from estimators.across_devices.devices import PREFIX, Belief, DeviceCalibration, fit_devices
from estimators.across_devices.operation_times import OperationTimes, RowFormula, thinned
from estimators.operation.kernel_classes import KernelParameters
from estimators.operation.tiled import TiledRoofline
from hwmodels.catalog import machine
from hwmodels.files import InputError
from hwmodels.records import Table
from workloads.layers import elementwise
from workloads.workload import Workload

# Shares of the bandwidth as vendors' relatives might have them; the L40S is the new machine.
EFFICIENCY = {"a100-sxm-80gb": 0.85, "h100-sxm": 0.89, "l4": 0.80, "t4": 0.74, "mi210": 0.65}


def streams(name: str, efficiency: float, rows: int = 40, noise: float = 0.02) -> OperationTimes:
    """Times of additions on a machine that reaches a share of its bandwidth, 2 us after a launch."""
    generator = np.random.default_rng(sum(map(ord, name)))
    elements = 2.0 ** generator.uniform(14, 28, rows)
    form = OperationTimes.of(
        machine(name),
        "elementwise",
        "float32",
        {"elements": elements, "reads": 2 * elements, "writes": elements},
        np.ones(rows),
    )
    known = KernelParameters(memory_efficiency=efficiency, overhead=2e-6)
    formula = RowFormula.of(TiledRoofline(), [form])
    times = formula.evaluate({f"{PREFIX}{n}": getattr(known, n) for n in KernelParameters.__dataclass_fields__})
    return OperationTimes(
        form.machine, form.op, form.dims, times * np.exp(noise * generator.standard_normal(rows)), "a"
    )


@pytest.fixture(scope="module")
def made() -> DeviceCalibration:
    return fit_devices([streams(name, share) for name, share in EFFICIENCY.items()], "made up")


def test_own_fits_find_the_truth(made: DeviceCalibration) -> None:
    (one,) = made.classes
    assert one.name == "elementwise.float32" and len(one.fits) == len(EFFICIENCY)
    for name, share in EFFICIENCY.items():
        fit = one.of(machine(name).name)
        assert fit is not None and fit.values["memory_efficiency"] == pytest.approx(share, rel=0.05)


def test_a_new_machine_has_a_wider_band_that_covers_it(made: DeviceCalibration) -> None:
    new, measured = streams("l40s", 0.78), streams("l4", 0.80)
    _, known = made.belief(measured.machine).predicted([measured])
    time, unknown = made.belief(new.machine).predicted([new])
    assert np.median(unknown) > 1.3 * np.median(known)
    assert np.mean(np.abs(np.log(new.times / time)) < 1.2816 * unknown) > 0.7


def test_a_machine_held_out_counts_as_new(made: DeviceCalibration) -> None:
    on = machine("l4")
    without = made.belief(on, without=(on.name,))
    index = [i for i, (name, _) in enumerate(without.names) if name != "default"]
    assert np.any(without.roots[index]) and not np.any(made.belief(on).roots[index])
    assert without.said["elementwise.float32"] == "the mean of 4 machines"


def test_an_anchor_narrows_the_band_and_moves_the_mean(made: DeviceCalibration) -> None:
    """A machine that reaches but half of what its family does: one long addition says so."""
    new = streams("l40s", 0.40, rows=60, noise=0.0)
    long = new.some(np.argsort(new.times)[-1:])
    before = made.belief(new.machine)
    after = before.conditioned([long])
    part = new.some(np.flatnonzero(new.times > 3e-4))
    (old, wide), (now, narrow) = before.predicted([part]), after.predicted([part])
    assert np.all(narrow < wide)
    assert np.median(np.abs(np.log(now / part.times))) < 0.5 * np.median(np.abs(np.log(old / part.times)))
    assert after.said["elementwise.float32"].endswith("and 1 anchors")


def test_conditioning_is_the_normal_law() -> None:
    """One unknown, log t = c - log efficiency for bytes far beyond the caches: shrinkage by s^2 / (s^2 + scatter^2)."""
    on = machine("h100-sxm").using({"runtime.launch_overhead": 0.0})
    elements = np.array([2.0**36])
    dims = {"elements": elements, "reads": 2 * elements, "writes": elements}
    exact = 12 * elements / on.bandwidth(on.main_memory)
    name = "elementwise.float32"
    values = {**{n: getattr(KernelParameters(), n) for n in KernelParameters.__dataclass_fields__}, "overlap": 1e-12}
    values |= {"memory_efficiency": 0.8, "overhead": 1e-30}
    names = tuple((name, parameter) for parameter in values)
    roots = np.zeros((len(names), 1))
    roots[names.index((name, "memory_efficiency")), 0] = 0.2
    belief = Belief(names, np.log(list(values.values())), roots, {name: 0.1}, {name: "made up"})
    anchor = OperationTimes.of(on, "elementwise", "float32", dims, exact / 0.6)
    after = belief.conditioned([anchor])
    gain = 0.2**2 / (0.2**2 + 0.1**2)
    expected = np.log(0.8) + gain * (np.log(0.6) - np.log(0.8))
    assert np.log(after.values(name)["memory_efficiency"]) == pytest.approx(expected, rel=1e-4)
    assert np.sqrt(float((after.roots @ after.roots.T).max())) == pytest.approx(0.2 * np.sqrt(1 - gain), rel=1e-3)


def test_estimates_say_how_the_machine_is_known(made: DeviceCalibration) -> None:
    net = Workload("adds", (elementwise("a", 10_000_000, inputs=2),))
    old, new = (made.on(machine(name), net).estimate(net, machine(name)) for name in ("l4", "l40s"))
    assert old.spread.parameter is None or old.spread.parameter < 1e-9
    assert new.spread.total is not None and old.spread.total is not None and new.spread.total > old.spread.total
    assert "the mean of 5 machines" in new.assumptions[-1]


def test_few_rows_are_anchors_and_the_file_keeps_everything(tmp_path: Path) -> None:
    forms = [streams(name, share, 30) for name, share in list(EFFICIENCY.items())[:3]]
    made = fit_devices([*forms, streams("l40s", 0.5, rows=2)], "made up")
    assert [form.machine.name for form in made.anchors] == [machine("l40s").name]
    path = tmp_path / "made.json"
    devices_file.save(made, path)
    again = devices_file.load(path)
    net = Workload("adds", (elementwise("a", 10_000_000, inputs=2),))
    for name in ("l4", "l40s", "v100-sxm"):
        one, other = (c.on(machine(name), net) for c in (made, again))
        assert other.values == pytest.approx(one.values, rel=1e-12)
        assert np.allclose(other.sample, one.sample, rtol=1e-9)
    assert again.fingerprint == made.fingerprint


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("schema", "other", "schema = 'other'"),
        ("classes", {}, "classes: no fit of any machine"),
        ("machines", [{"name": "x"}], "machines: field"),
        ("classes", {"gemm.float32": [{"machine": "y"}]}, "unknown machine 'y'"),
        ("anchors", [{"machine": "NVIDIA", "dims": {}, "time_s": []}], "unknown machine"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, field: str, value: object, words: str) -> None:
    path = tmp_path / "made.json"
    devices_file.save(fit_devices([streams(name, 0.8, 24) for name in ("l4", "t4")]), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(InputError, match=words):
        devices_file.load(path)


def test_parameters_of_files_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    devices_file.save(fit_devices([streams(name, 0.8, 24) for name in ("l4", "t4")]), path)
    document = json.loads(path.read_text())
    document["classes"]["elementwise.float32"][0]["parameters"] = {"speed": 1.0}
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="unknown parameter of a kernel 'speed'"):
        devices_file.load(path)


def test_nothing_to_fit_is_said() -> None:
    with pytest.raises(InputError, match="no machine has 24 rows of one kind and dtype"):
        fit_devices([streams("l4", 0.8, 5)])


def test_times_must_be_positive() -> None:
    with pytest.raises(InputError, match="time = 0.0: want numbers > 0"):
        OperationTimes.of(machine("l4"), "gemm", "float32", {"batch": 1, "m": 2, "n": 2, "k": 2}, np.zeros(1))


def test_parameters_of_tables_whose_names_hold_dots() -> None:
    from estimators.parameters import parameters, with_parameters

    model = TiledRoofline(Table({"default": KernelParameters(), "gemm.float32": KernelParameters()}))
    changed = with_parameters(model, {"kernels.gemm.float32.overhead": 1e-5})
    assert parameters(changed)["kernels.gemm.float32.overhead"][0] == 1e-5
    assert parameters(changed)["kernels.default.overhead"][0] == 0.0


def test_thinning_keeps_every_form() -> None:
    forms = [streams("l4", 0.8, 90), streams("t4", 0.8, 10)]
    assert [len(form) for form in thinned(forms, 20)] == [18, 2]
    assert thinned(forms, 1000) == forms
