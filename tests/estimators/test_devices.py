"""Calibration across devices: closed forms, what a new machine's band must do, and the file it is kept in."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sympy

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import Estimate, quantile
from slipstick.estimators.composition.compiled_estimator import Compiled
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.fitting.similarity_weights import fitted_similarity
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.gpu.transfer import devices_file
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, variant_name
from slipstick.estimators.gpu.transfer.device_fits import fit_devices
from slipstick.estimators.gpu.transfer.kernel_class import PREFIX, library_spreads, times
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula, thinned
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.host_constants import WHOLE
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.user_measured.measured_operations import MeasuredOperations
from slipstick.experiments.calibrate.calibrated import read_calibration
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.scoreboards.shipped.shipped_board import without_rows
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import convolution_dims
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.layers.single import convolution, elementwise, gemm

# Shares of the bandwidth as vendors' relatives might have them; the L40S is the new machine.
EFFICIENCY = {"a100-sxm-80gb": 0.85, "h100-sxm": 0.89, "l4": 0.80, "t4": 0.74, "mi210": 0.65}


def streams(
    name: str, efficiency: float, rows: int = 40, noise: float = 0.02, overhead: float = 2e-6
) -> OperationTimes:
    """Times of additions on a machine that reaches a share of its bandwidth after a launch."""
    generator = np.random.default_rng(sum(map(ord, name)))
    elements = 2.0 ** generator.uniform(14, 28, rows)
    form = OperationTimes.of(
        machine(name),
        "elementwise",
        "float32",
        {"elements": elements, "reads": 2 * elements, "writes": elements},
        np.ones(rows),
    )
    known = KernelParameters(memory_efficiency=efficiency, overhead=overhead)
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
    known, told = (made.forecast(form.machine).predict([form]) for form in (measured, new))
    assert np.median(told.high / told.low) > np.median(known.high / known.low) ** 1.3
    assert np.mean((told.low < new.times) & (new.times < told.high)) > 0.7


def test_a_machine_held_out_counts_as_new(made: DeviceCalibration) -> None:
    on = machine("l4")
    without, own = made.forecast(on, (on.name,)).belief, made.forecast(on).belief
    index = [i for i, (name, _) in enumerate(without.names) if name != "default"]
    assert np.any(without.roots[index]) and not np.any(own.roots[index])
    assert without.notes["elementwise.float32"] == "the mean of 4 machines"


def test_an_anchor_moves_the_answer(made: DeviceCalibration) -> None:
    """A machine that reaches but half of what its family does: one long addition says so."""
    new = streams("l40s", 0.40, rows=60, noise=0.0)
    long = new.some(np.argsort(new.times)[-1:])
    part = new.some(np.flatnonzero(new.times > 3e-4))
    before, after = (made.forecast(new.machine, anchors=known) for known in ((), (long,)))
    old, now = (told.predict([part]) for told in (before, after))
    assert np.median(np.abs(np.log(now.time / part.times))) < 0.5 * np.median(np.abs(np.log(old.time / part.times)))
    covered = [np.mean((told.low < part.times) & (part.times < told.high)) for told in (old, now)]
    assert covered[1] > covered[0] + 0.3  # a row that surprises widens the band
    assert after.belief.notes["elementwise.float32"].endswith("and 1 anchors")


def asked(known: DeviceCalibration, net: Workload, name: str) -> Question:
    return question(net, name, calibration=known)


def known_width(said: Estimate) -> float:
    """Standard deviation of log time by an answer's 80 % band, without what it says that widens it."""
    low, high = said.interval(0.8) or (0.0, 0.0)
    return math.log(high / low) / 2 / quantile(0.8, None) / math.prod(one.band_factor for one in said.conditions)


def test_estimates_say_how_the_machine_is_known(made: DeviceCalibration) -> None:
    net = Workload("adds", (elementwise("a", 10_000_000, inputs=2),))
    old, new = (asked(made, net, name).answer() for name in ("l4", "l40s"))
    assert new.spread.total is not None and old.spread.total is not None and new.spread.total > old.spread.total
    assert "the mean of 5 machines" in new.assumptions[-1]


def test_what_shapes_have_in_common_is_carried_over() -> None:
    """Machines that all take half as long again where the length is 2^25 .. 2^27, beyond caches: so will the next."""

    def humped(name: str, efficiency: float) -> OperationTimes:
        form = streams(name, efficiency, rows=120, noise=0.0)
        inside = (form.dims["elements"] > 2**25) & (form.dims["elements"] < 2**27)
        return replace(form, times=form.times * np.where(inside, 1.5, 1.0))

    made = fit_devices([humped(name, share) for name, share in EFFICIENCY.items()])
    new = humped("l40s", 0.8)
    told = made.forecast(new.machine)
    plain = times([new], told.belief.values("elementwise.float32"))
    shaped = told.predict([new]).time
    error = [np.mean(np.abs(np.log(one / new.times))) for one in (plain, shaped)]
    assert error[1] < 0.5 * error[0]


def test_estimates_are_what_forecasts_say(made: DeviceCalibration) -> None:
    """What users are answered and what scoreboards score: one time but for the launch that a kernel before hides, one
    scatter but for that of a program around it, which other libraries and clocks run."""
    form = streams("l40s", 0.78, rows=3)
    forecast = made.forecast(form.machine)
    told, rule = forecast.predict([form]), forecast.rule("elementwise.float32")
    factor = np.exp(rule.factor.logs(form))
    launch = forecast.belief.values("elementwise.float32")["overhead"]
    for row, elements in enumerate(form.dims["elements"]):
        alone = Workload("adds", (elementwise("a", float(elements), inputs=2),), metadata={"work": "kernel"})
        said = asked(made, alone, "l40s").answer()
        assert said.time == pytest.approx(told.time[row] - launch * factor[row], rel=1e-9)
        assert known_width(said) == pytest.approx(np.hypot(rule.scatter.of(said.time), WHOLE), rel=1e-6)


@pytest.mark.parametrize(
    "names", [("xeon-gold-6148", "epyc-9654", "xeon-e5-2690v2"), ("tpu-v3-8", "tpu-v4", "tpu-v5e")]
)
def test_off_gpus_operations_keep_their_fixed_time(names: tuple[str, ...]) -> None:
    """A processor has no queue of launches, and programs on GPUs say nothing of its convolutions in groups."""
    cost = 20e-6
    known = fit_devices(
        [streams(name, share, overhead=cost) for name, share in zip(names, (0.8, 0.7, 0.75), strict=True)]
    )
    adds = Workload("adds", tuple(elementwise(f"a{i}", 1e4, inputs=2) for i in range(3)))
    assert asked(known, adds, names[0]).answer().time == pytest.approx(3 * cost, rel=0.05)
    depthwise = Workload("net", (convolution("c", 8, 56, 56, (56, 56), (3, 3), groups=56),))
    said = asked(known, depthwise, names[0]).answer().assumptions[-1]
    assert "not measured on any machine" in said and "programs" not in said


@pytest.mark.parametrize("groups", [1, 256])
def test_rows_of_dense_convolutions_say_nothing_of_those_in_groups(groups: int) -> None:
    """A depthwise convolution is as in timed programs, unless the file holds convolutions in as many groups."""
    rows = np.ones(24)
    dims = convolution_dims(8 * rows, 256, 256, groups, (56, 56), (56, 56), (3, 3))
    form = OperationTimes.of(machine("a100-sxm-80gb"), "convolution", "bfloat16", dims, 1e-3 * rows)
    known = fit_devices([form], "convolutions")
    net = Workload("net", (convolution("c", 8, 256, 256, (56, 56), (3, 3), groups=256, dtype="bfloat16"),))
    said, plain = (
        question(net, "a100-sxm-80gb", calibration=one).answer().time for one in (MeasuredOperations(known), None)
    )
    assert (said == pytest.approx(plain, rel=1e-9)) == (groups == 1)


def test_dims_that_vary_are_asked_point_by_point(made: DeviceCalibration) -> None:
    """The nearest shapes have no formula; the same call answers as `estimate` does."""
    size = sympy.Symbol("size", positive=True)
    net = Workload("adds", (elementwise("a", size, inputs=2),), defaults=FrozenDict({"size": 2.0**20}))
    on = machine("l40s")
    calibrated = asked(made, net, "l40s").estimator
    both = calibrated.compile(net, on, ("workload.size",))({"workload.size": [2.0**18, 2.0**24]})
    alone = [calibrated.estimate(net, on, {"size": n}).time for n in (2.0**18, 2.0**24)]
    assert both == pytest.approx(alone)
    fast = calibrated.compile(net, on, ("machine.clock",))
    assert isinstance(fast, Compiled) and fast({"machine.clock": [on.clock]}) == pytest.approx(
        [calibrated.estimate(net, on).time]
    )


def test_few_rows_are_anchors_and_the_file_keeps_everything(tmp_path: Path) -> None:
    forms = [streams(name, share, 30) for name, share in list(EFFICIENCY.items())[:3]]
    made = fit_devices([*forms, streams("l40s", 0.5, rows=2)], "made up", typical=["a"])
    assert [form.machine.name for form in made.anchors] == [machine("l40s").name]
    path = tmp_path / "made.json"
    devices_file.save(made, path)
    again = devices_file.load_device_calibration(path)
    net = Workload("adds", (elementwise("a", 10_000_000, inputs=2),))
    for name in ("l4", "l40s", "v100-sxm"):
        estimates = [asked(c, net, name).answer() for c in (made, again)]
        assert estimates[1].time == estimates[0].time and estimates[1].interval() == estimates[0].interval()
    assert again.fingerprint == made.fingerprint


def test_parameters_known_by_draws_have_their_spread() -> None:
    drawn = ((0.4,), (0.5,), (0.7,))
    told = Calibration(ComposedEstimator(Roofline(), Sequential()), ("operation.compute_efficiency",), sample=drawn)
    errors = told.standard_errors()
    assert told.covariance == () and set(errors) == set(told.names)
    assert errors[told.names[0]] == pytest.approx(np.std([row[0] for row in told.sample], ddof=1))
    assert replace(told, sample=()).standard_errors() == dict.fromkeys(told.names)


@pytest.mark.parametrize(
    ("workload", "name", "dtype"),
    [("mlp-inference", "h100-sxm", None), ("gemm", "dgx-spark", "bfloat16")],
)
def test_kernels_by_name_are_the_ones_that_answer_by_default(workload: str, name: str, dtype: str | None) -> None:
    """`--calibration gpus` names what answers already: one time, one band and what widens it, one schedule."""
    named, plain = (
        question(workload, name, dtype=dtype, calibration=c).answer() for c in (read_calibration("gpus"), None)
    )
    assert (named.time, named.interval()) == (plain.time, plain.interval())
    assert named.conditions == plain.conditions
    assert any(one.widens for one in named.conditions) == (workload == "gemm")  # a second model disagrees


def test_a_library_that_was_not_measured_is_said() -> None:
    """The machine's file names it; kernels of any library answer, of these and by default."""
    on = machine("h100-sxm")
    mine = Machine.model_validate({**on.model_dump(), "runtime": {**on.runtime.model_dump(), "library": "cutlass"}})
    product = Workload("product", (gemm("g", 512, 512, 512, dtype="bfloat16"),))
    for known in (read_calibration("gpus"), None):
        said = question(product, mine, calibration=known).answer().conditions
        assert "not measured: kernels as of any of them" in [one.note for one in said if one.value == "cutlass"]


def test_a_pipeline_keeps_its_schedule_under_named_kernels() -> None:
    """Four stages pass eight microbatches: the bubble is 3 / 8 of the work, and four devices are counted."""
    names = ("pipeline_parallel", "interleave", "data_parallel", "microbatch", "batch", "overlap_gradients")
    layout = FrozenDict(dict(zip(names, (4.0, 1.0, 1.0, 1.0, 8.0, 1.0), strict=True)))
    share = Workload(
        "share", (gemm("g", 4096, 4096, 4096, dtype="bfloat16"),), (), layout, FrozenDict(devices="pipeline_parallel")
    )
    gpus = read_calibration("gpus")
    named, plain = (question(share, "h100-sxm", calibration=c).answer() for c in (gpus, None))
    assert named.metrics["pipeline_bubble"] == pytest.approx(3 / 11) and named.devices == plain.devices == 4
    assert named.time == pytest.approx(plain.time, rel=1e-6)


def test_a_file_across_devices_is_read_as_its_record() -> None:
    """What it holds can be asked, as of a calibration that was just fitted."""
    known = read_calibration("gpus")
    assert isinstance(known, DeviceCalibration) and known.devices > 20
    assert known.forecast(machine("l4")).belief.values("gemm.float32")["compute_efficiency"] > 0


def test_without_rows_the_file_holds_no_measurement_and_still_covers(made: DeviceCalibration, tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    devices_file.save(without_rows(made, fitted_similarity()), path)
    document = json.loads(path.read_text())
    assert document["anchors"] == [] and all(fit["rows"] == [] for fits in document["classes"].values() for fit in fits)
    new = streams("l40s", 0.80)
    plain, told = (
        one.forecast(machine("l40s")).predict([new]) for one in (made, devices_file.load_device_calibration(path))
    )
    assert np.allclose(told.time, plain.time, rtol=0.05)
    assert np.mean((told.low <= new.times) & (new.times <= told.high)) > 0.7
    scatters = document["scatters"]["elementwise.float32"]
    assert scatters[0][1] > scatters[2][1] > scatters[3][1]  # the closer the relatives, the narrower


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("schema", "other", "schema = 'other'"),
        ("classes", {}, "classes: no fit of any machine"),
        ("machines", [{"name": "x"}], "machines: .*field"),
        ("classes", {"gemm.float32": [{"machine": "y"}]}, "unknown machine 'y'"),
        ("typical_sources", "a", "typical_sources = .a.: want a list"),
        ("anchors", [{"machine": "NVIDIA", "dims": {}, "time_s": []}], "unknown machine"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, field: str, value: object, words: str) -> None:
    path = tmp_path / "made.json"
    devices_file.save(fit_devices([streams(name, 0.8, 24) for name in ("l4", "t4")]), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    with pytest.raises(InputError, match=words):
        devices_file.load_device_calibration(path)


def test_parameters_of_files_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    devices_file.save(fit_devices([streams(name, 0.8, 24) for name in ("l4", "t4")]), path)
    document = json.loads(path.read_text())
    document["classes"]["elementwise.float32"][0]["parameters"] = {"speed": 1.0}
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="unknown parameter of a kernel 'speed'"):
        devices_file.load_device_calibration(path)


def test_nothing_to_fit_is_said() -> None:
    with pytest.raises(InputError, match="no machine has 24 rows of one kind and dtype"):
        fit_devices([streams("l4", 0.8, 5)])


def test_times_must_be_positive() -> None:
    with pytest.raises(InputError, match="time = 0.0: want numbers > 0"):
        OperationTimes.of(machine("l4"), "gemm", "float32", {"batch": 1, "m": 2, "n": 2, "k": 2}, np.zeros(1))


def test_parameters_of_tables_whose_names_hold_dots() -> None:
    from slipstick.estimators.symbolic.formula import parameters, with_parameters

    model = TiledRoofline(FrozenDict({"default": KernelParameters(), "gemm.float32": KernelParameters()}))
    changed = with_parameters(model, {"kernels.gemm.float32.overhead": 1e-5})
    assert parameters(changed)["kernels.gemm.float32.overhead"][0] == 1e-5
    assert parameters(changed)["kernels.default.overhead"][0] == 0.0


def test_thinning_keeps_every_form() -> None:
    forms = [streams("l4", 0.8, 90), streams("t4", 0.8, 10)]
    assert [len(form) for form in thinned(forms, 20)] == [18, 2]
    assert thinned(forms, 1000) == forms


def test_who_names_a_library_is_told_by_what_ran_it() -> None:
    """Machines of one family, of which two run kernels that reach half: the new one is as the library it names."""
    slow, fast = {"a100-sxm-80gb": 0.42, "a30": 0.40}, {"a100-pcie-80gb": 0.85, "a40": 0.83}

    def ran(name: str, efficiency: float, library: str) -> OperationTimes:
        form = streams(name, efficiency)
        return replace(form, machine=form.machine.using({"runtime.library": library}))

    forms = [ran(name, share, "slow kernels") for name, share in slow.items()]
    known = fit_devices([*forms, *(ran(name, share, "fast kernels") for name, share in fast.items())])
    new = machine("h100-sxm")
    told = {
        library: known.forecast(new.using({"runtime.library": library} if library else {})).belief.values(
            "elementwise.float32"
        )["memory_efficiency"]
        for library in ("slow kernels", "", "fast kernels")
    }
    assert told["slow kernels"] < told[""] < told["fast kernels"]
    assert told["fast kernels"] / told["slow kernels"] > 1.5


def test_a_machine_that_ran_two_libraries_has_a_fit_of_each() -> None:
    """One device reaches 0.4 of its bandwidth with a library and 0.8 with another: the fit of the named one answers."""
    slow = streams("a100-sxm-80gb", 0.4)
    first = replace(slow, machine=slow.machine.using({"runtime.library": "slow 1.0"}))
    fast = streams("a100-sxm-80gb", 0.8)
    named = fast.machine.using({"runtime.library": "fast 2.1"})
    second = replace(fast, machine=named.model_copy(update={"name": variant_name(named.name, "fast 2.1")}))
    known = fit_devices([first, second, streams("l40s", 0.6)])
    assert known.libraries == ("fast 2.1", "slow 1.0")
    assert (known.library("fast"), known.library("slow 1.0"), known.devices) == ("fast 2.1", "slow 1.0", 2)
    with pytest.raises(InputError, match=r"unknown kernel library .*'quick' \(known: fast 2.1, slow 1.0\)"):
        known.library("quick")
    a100 = machine("a100-sxm-80gb")
    forecasts = {
        library: known.forecast(a100.using({"runtime.library": library}) if library else a100)
        for library in ("", "slow 1.0", "fast 2.1")
    }
    reached = {
        library: each.belief.values("elementwise.float32")["memory_efficiency"] for library, each in forecasts.items()
    }
    assert reached == pytest.approx({"": 0.4, "slow 1.0": 0.4, "fast 2.1": 0.8}, rel=0.03)
    unnamed, chosen = (forecasts[library].rule("elementwise.float32").scatter for library in ("", "slow 1.0"))
    assert unnamed.long == pytest.approx(float(np.hypot(chosen.long, library_spreads()["gemm"])))


def test_machines_of_one_chip_say_little_of_another_chip() -> None:
    """H100 and H200 agree to 2 %, but both are a GH100: an L40S is as doubtful as with one machine measured."""
    known = fit_devices([streams("h100-sxm", 0.89), streams("h200-sxm", 0.89)])
    similarity = fitted_similarity()
    for one in (known, without_rows(known, similarity)):
        scatters = {
            name: one.forecast(machine(name)).rule("elementwise.float32").scatter for name in ("gh200", "l40s", "mi210")
        }
        assert scatters["gh200"].long < 0.1
        assert scatters["l40s"].long == pytest.approx(similarity.one_source * similarity.errors[1])
        assert scatters["mi210"].short == pytest.approx(similarity.one_source * similarity.errors[0])
