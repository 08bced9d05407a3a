"""What machines count for one another: found again where it was planted, blind to what is left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.base.machine_family import MOST_WORDS
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.similarity_weights import DIFFERENCES, SimilarityWeights, fitted_similarity
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.gpu.shared_kernels import program_shares
from slipstick.estimators.gpu.step_of_kernels import step_of_kernels
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.estimators.gpu.transfer.device_fits import fit_devices
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.scoreboards.gpu.similarity_fit import fitted_to, judging_rows
from slipstick.experiments.scoreboards.shipped.shipped_board import fitted, public_times
from slipstick.experiments.scoring.unseen_answers import unseen, unseen_group
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Workload

MACHINES = ("a100-pcie-40gb", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "l4", "l40s", "t4", "v100-pcie", "v100-sxm")


def streams(name: str, efficiency: float) -> OperationTimes:
    """Times of additions on a machine that reaches a share of its bandwidth, 2 us after a launch."""
    generator = np.random.default_rng(sum(map(ord, name)))
    elements = 2.0 ** generator.uniform(20, 28, 40)
    dims = {"elements": elements, "reads": 2 * elements, "writes": elements}
    form = OperationTimes.of(machine(name), "elementwise", "float32", dims, np.ones(40))
    known = KernelParameters(memory_efficiency=efficiency, overhead=2e-6)
    formula = RowFormula.of(TiledRoofline(), [form])
    values = {f"parameter.kernels.default.{n}": getattr(known, n) for n in KernelParameters.__dataclass_fields__}
    noise = np.exp(0.02 * generator.standard_normal(40))
    return OperationTimes(form.machine, form.op, form.dims, formula.evaluate(values) * noise, "a")


def calibration(efficiencies: Mapping[str, float]) -> DeviceCalibration:
    return fit_devices([streams(name, share) for name, share in efficiencies.items()])


def by_generation(name: str) -> float:
    """A share of the bandwidth that the machines of one generation have in common."""
    return {"ampere": 0.9, "hopper": 0.5, "ada": 0.8, "turing": 0.4, "volta": 0.65}[machine(name).family.split("-")[1]]


def test_relatives_count_as_far_as_they_are_alike() -> None:
    """Where a generation is alike, its members count more than expected; where nothing is shared, less."""
    alike = fitted_to(judging_rows(calibration({name: by_generation(name) for name in MACHINES}))).similarity
    order = [
        MACHINES[(5 * place) % len(MACHINES)] for place in range(len(MACHINES))
    ]  # boards of a chip no longer agree
    apart = {name: by_generation(other) for name, other in zip(MACHINES, order, strict=True)}
    strange = fitted_to(judging_rows(calibration(apart))).similarity
    closeness = [one.weights[MOST_WORDS] / one.weights[1] for one in (alike, strange)]
    assert closeness[0] > 16 > closeness[1]  # expected: four for each of two words
    assert alike.errors[MOST_WORDS] < strange.errors[MOST_WORDS]


def test_what_is_left_out_is_not_looked_at() -> None:
    """Without a generation the numbers are those of a calibration that never had it."""
    whole = {name: by_generation(name) for name in MACHINES}
    others = {name: share for name, share in whole.items() if "hopper" not in machine(name).family}
    blind = fitted_to(judging_rows(calibration(whole)), "nvidia-hopper").similarity
    assert blind == fitted_to(judging_rows(calibration(others))).similarity
    assert blind != fitted_to(judging_rows(calibration(whole))).similarity


def test_a_board_takes_the_numbers_without_what_it_scores() -> None:
    known = ["nvidia-hopper-gh100", "nvidia-ada-ad102"]
    assert unseen_group(["nvidia-hopper-gh100"], known) == "nvidia-hopper"
    assert unseen_group(["amd-cdna-aldebaran"], known) == "amd"
    assert unseen_group([], known) == ""
    with pytest.raises(InputError, match="want machines of one vendor"):
        unseen_group(["amd-cdna-x", "nvidia-ada-x"], known)


def test_kernels_of_a_board_have_seen_nothing_of_several_generations_either() -> None:
    """Two generations of a vendor leave the numbers without the vendor; of two vendors there are none."""
    hopper, ada, amd = machine("h100-sxm"), machine("l40s"), machine("mi300x")
    assert unseen([hopper], []).similarity == fitted_similarity("nvidia-hopper")
    assert unseen([hopper, ada], []).similarity == fitted_similarity("nvidia")
    assert unseen([hopper, ada], [ada]).similarity == fitted_similarity("nvidia-hopper")
    assert unseen([hopper, machine("i9-10940x")], [hopper]).similarity == fitted_similarity()
    with pytest.raises(InputError, match="want machines of one vendor"):
        unseen([hopper, amd], [])


def test_answers_take_the_numbers_of_their_calibration() -> None:
    """What weights stored narrower add to a band, and what relatives count beside programs."""
    known, h200 = unseen([machine("h100-sxm")], []), machine("h200-sxm")
    product = operation("a", "gemm", {"batch": 1, "m": 64, "n": 4096, "k": 4096}, "bfloat16", {"weights": "int4"})
    wide = (2.0,) * len(DIFFERENCES)
    other = replace(fitted_similarity("nvidia-hopper"), weights=(1.0, 1.0, 1.0, 99.0), substitute_spread=wide)
    changed = replace(known, similarity=other)
    stds = [step_of_kernels(one, h200, Workload("a", (product,)))[0].residual_std or 0.0 for one in (known, changed)]
    assert stds[1] > 2 * stds[0]
    shares = [program_shares(one, machine("rtx-4080"), [product]) for one in (known, changed)]
    assert shares[0] != shares[1]


def test_the_file_has_numbers_without_every_generation_that_was_fitted() -> None:
    names = {generation_of(fit.family) for one in gpu_kernels().classes for fit in one.fits}
    every = fitted_similarity()
    assert len(names) >= 10
    assert all(fitted_similarity(name) != every for name in names)
    assert fitted_similarity("amd") != every != fitted_similarity("nvidia")
    assert fitted_similarity("someone-new") == every  # nothing of it was looked at


@pytest.mark.parametrize("field", ["scatter", "library", "tails"])
def test_numbers_of_similarity_are_above_zero(field: str) -> None:
    numbers = {**vars(fitted_similarity()), field: 0.0}
    with pytest.raises(InputError, match="all numbers above 0"):
        SimilarityWeights.of(numbers)
    with pytest.raises(InputError, match="no numbers of similarity"):
        SimilarityWeights.of({name: value for name, value in numbers.items() if name != field})


@pytest.mark.slow
def test_the_file_is_what_the_command_finds() -> None:
    if data_folder() is None:
        pytest.skip("no public measurements here")
    judges = judging_rows(fitted(public_times()))
    for without in ("", "nvidia-ada"):
        assert fitted_to(judges, without).similarity.weights == pytest.approx(
            fitted_similarity(without).weights, rel=1e-3
        )
