"""The scoreboard's machinery: its formulas on closed forms, its held-out rule, and its rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.scores import mean_error
from slipstick.estimators.fitting.similarity_weights import SimilarityWeights, fitted_similarity
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.gpu.transfer import devices_file
from slipstick.estimators.gpu.transfer.device_fits import fit_devices
from slipstick.estimators.gpu.transfer.kernel_class import MachineFit, pooled, priors_of, times, weights
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula
from slipstick.estimators.gpu.transfer.pooling_constants import GRAPH_LAUNCH, SHARE
from slipstick.estimators.gpu.transfer.transfer_bands import LeaveOneOutDevice, left, repeats, scatter
from slipstick.estimators.power.energy import PowerModel
from slipstick.estimators.schedules.host_constants import WHOLE
from slipstick.estimators.symbolic.formula import parameters
from slipstick.estimators.user_measured.measured_operations import MeasuredOperations
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.question import registry
from slipstick.experiments.question.question import question
from slipstick.experiments.scoreboards.gpu import gpu_data
from slipstick.experiments.scoreboards.gpu.gpu_cases import BLACKWELL, HOPPER, SGLANG, cases
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoreboards.gpu.operations_board import fit_power
from slipstick.experiments.scoreboards.gpu.whole_models import (
    MODELS,
    SwitchConfiguration,
    graph,
    switch_transformer,
)
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import KINDS, operation
from slipstick.workloads.graph.workload import Workload
from tests.estimators.test_devices import known_width

SIMILARITY = SimilarityWeights((0.5, 2.5, 25.0, 150.0), 0.05, 0.1, 0.1)
TAILS = 0.9
FAMILIES = [("nvidia-ampere-ga100", "nvidia-ampere-ga100", 3), ("nvidia-ampere-ga100", "nvidia-ampere-ga102", 2)]


@pytest.mark.parametrize(
    ("one", "other", "shared"), [*FAMILIES, ("nvidia-a", "amd-a", 0), ("nvidia-x-y", "nvidia-z", 1)]
)
def test_families_share_leading_words(one: str, other: str, shared: int) -> None:
    assert shared_words(one, other) == shared


def fit(name: str, family: str, launch: float, scatter: float = 0.05) -> MachineFit:
    return MachineFit(name, family, "HBM", FrozenDict({"overhead": launch, "overlap": 0.3}), scatter, 100)


def test_a_new_machine_takes_after_its_relatives() -> None:
    """With its chip at 4 us and another maker at 1 us, the new machine lies close to its chip."""
    fits = [fit("same chip", "nvidia-ampere-ga100", 4e-6), fit("another maker", "intel-knights-landing", 1e-6)]
    value = pooled(fits, machine("a100-sxm-80gb"), SIMILARITY)["overhead"]
    assert 3.5e-6 < value < 4.1e-6


def test_the_prior_counts_one() -> None:
    """Another maker at 8 us counts half as much as the prior of 2 us: the logarithm moves by a third of the way."""
    alone = pooled([fit("one", "amd-x", 8e-6)], machine("a100-sxm-80gb"), SIMILARITY)
    assert alone["overhead"] == pytest.approx(2e-6 * 4 ** (1 / 3))


def test_badly_described_machines_count_less() -> None:
    share = weights([fit("good", "nvidia-a", 1e-6, 0.05), fit("bad", "nvidia-b", 1e-6, 0.45)], SIMILARITY, "nvidia-c")
    assert share[1] / share[0] == pytest.approx(0.10 / 0.50)


def test_pooling_over_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no measured machine to pool over"):
        pooled([], machine("l4"), SIMILARITY)


def test_a_scatter_is_what_it_was_made_of() -> None:
    """Normal errors of 0.2 below the border and 0.1 above; a machine and a group count as one, not as their rows."""
    generator = np.random.default_rng(1)
    predicted = np.repeat([1e-6, 1e-3], 4000)
    error = np.concatenate([generator.normal(0, 0.2, 4000), generator.normal(0, 0.1, 4000)])
    made = scatter([error], [predicted], TAILS)
    assert made.of(np.array([1e-6, 1e-3])) == pytest.approx([0.2 * TAILS, 0.1 * TAILS], rel=0.05)
    four = [np.full(count, 0.1 * at) for at, count in ((1, 5), (2, 500), (3, 70), (4, 9))]
    both = scatter(four, [np.ones(len(one)) for one in four], TAILS, ["a", "b", "c", "c"])
    assert both.long == pytest.approx(TAILS * 0.3 / 1.2816, rel=1e-3) and both.short == both.long


def test_a_scatter_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no error to estimate a scatter from"):
        scatter([], [], TAILS)


def trial(share: float, count: int = 400, scale: float = 1.0) -> LeaveOneOutDevice:
    generator = np.random.default_rng(5)
    base, factor = generator.normal(-9, 1, count), generator.normal(0, 0.3, count)
    return LeaveOneOutDevice(base, factor, base + share * factor, scale=scale)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_the_share_that_repeats_is_found(share: float) -> None:
    """From many machines, as far as what holds in general lets them."""
    trials = [trial(share)] * 40
    assert repeats(trials) == pytest.approx(share, abs=0.03)
    assert left(trials, share, TAILS).long == pytest.approx(0.0, abs=1e-9)


def test_a_relatives_errors_are_scaled() -> None:
    one, other = (left([trial(0.5, scale=scale)], 0.7, TAILS).long for scale in (1.0, 2.0))
    assert other == pytest.approx(2 * one, rel=1e-6)


def test_without_trials_the_share_is_what_holds_in_general() -> None:
    assert repeats([]) == SHARE


def test_a_trial_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="machine without measured rows"):
        repeats([trial(0.5, 0)])


def test_power_model_recovers_its_parameters() -> None:
    on = machine("h200-sxm")
    generator = np.random.default_rng(2)
    time = generator.uniform(1e-5, 1e-3, 400)
    flop, moved = time * generator.uniform(0, 9e13, 400), time * generator.uniform(0, 4e12, 400)
    truth = PowerModel(0.85, 0.4, 1.2, 2e-5)
    watts = truth.watts(on, time, flop, moved)
    assert (watts < 700).sum() > 200 and (watts == 700).sum() > 20
    found = fit_power(on, time, flop, moved, watts)
    assert [found.active, found.flop, found.byte] == pytest.approx([0.85, 0.4, 1.2], rel=1e-4)
    assert found.settle == pytest.approx(2e-5, rel=1e-4)
    assert truth.joules(on, time, flop, moved) == pytest.approx(watts * time)


def test_short_kernels_draw_half_at_the_settling_time() -> None:
    """At time = settle, idle and half of what a long kernel draws beside it, here as much as idle again."""
    on = machine("h200-sxm")
    nothing = np.zeros(1)
    watts = PowerModel(1.0, 1.0, 1.0, 1e-5).watts(on, np.array([1e-5]), nothing, nothing)
    assert watts == pytest.approx([105 + 105 / 2])


@pytest.mark.parametrize(
    ("name", "missing"), [("xeon-phi-7120p", "power.cap and no power.per_flop"), ("mi300x", "power.per_flop")]
)
def test_power_needs_a_cap_and_joules_of_a_flop(name: str, missing: str) -> None:
    with pytest.raises(InputError, match=f"states no {missing}: its power is unknown"):
        PowerModel().formula(machine(name))


def test_scored_keys_leave_the_training_data() -> None:
    frame = pd.DataFrame({"key": [1, 2, 3], "time": [1.0, 2.0, 3.0]})
    assert list(gpu_data.without(frame, [2])["key"]) == [1, 3]


def test_devices_are_in_the_catalogue() -> None:
    """Every device of the collections has its machine."""
    assert [device for device in gpu_data.MACHINES if not gpu_data.machine_of(device)] == []


def test_a_graph_repeats_its_block() -> None:
    """Nodes between the first and the last of block 0 are done once a layer, the others once."""
    nodes = pd.DataFrame(
        [
            ("transformer_wte", "call_module", "transformer.wte", "[[4, 8]]", "(4, 8, 16)"),
            ("transformer_h_0_ln_1", "call_module", "transformer.h.0.ln_1", "[[4, 8, 16]]", "(4, 8, 16)"),
            (
                "matmul",
                "call_function",
                "<built-in method matmul of type object at 0x1>",
                "[[4, 2, 8, 3], [4, 2, 3, 8]]",
                "(4, 2, 8, 8)",
            ),
            ("transformer_h_0_mlp_fc", "call_module", "transformer.h.0.mlp.fc", "[[4, 8, 16]]", "(4, 8, 64)"),
            ("lm_head", "call_module", "lm_head", "[[4, 8, 16]]", "(4, 8, 100)"),
        ],
        columns=["Name", "op", "target", "input_shapes", "output_shape"],
    )
    found = graph(nodes, 12)
    assert [(node.kind, node.times) for node in found] == [
        ("elementwise", 1.0),
        ("norm", 12),
        ("bmm", 12),
        ("linear", 12),
        ("linear", 1.0),
    ]
    assert found[2].dims == {"batch": 8.0, "m": 8, "n": 8, "k": 3}
    assert found[3].dims == {"batch": 1.0, "m": 64, "n": 32.0, "k": 16}


@pytest.mark.parametrize(
    ("target", "dtype", "before", "does"),
    [
        ("to", "torch.float32", "add", False),
        ("to", "torch.int64", "add", True),
        ("contiguous", "torch.float32", "linear", False),
        ("contiguous", "torch.float32", "permute", True),
    ],
)
def test_casts_to_the_same_type_and_copies_in_order_do_nothing(
    target: str, dtype: str, before: str, does: bool
) -> None:
    """PyTorch's documentation of Tensor.to and Tensor.contiguous: self is returned where nothing is to be done."""
    lines = pd.DataFrame(
        [
            ("call_method", before, "[[4, 8, 16]]", "(4, 8, 16)", "x"),
            ("call_method", target, "[[4, 8, 16]]", "(4, 8, 16)", dtype),
        ],
        columns=["op", "target", "input_shapes", "output_shape", "dtype"],
    ).assign(Name=["one", "other"])
    count = len(graph(lines, 1.0)) - len(graph(lines.iloc[:1], 1.0))
    assert count == int(does)


def flop(model: SwitchConfiguration, batch: int, length: int) -> float:
    nodes = switch_transformer(model, batch, length)
    products = [node for node in nodes if node.kind in ("linear", "bmm")]
    return sum(2 * n.times * n.dims["batch"] * n.dims["m"] * n.dims["n"] * n.dims["k"] for n in products)


def test_switch_transformer_counts_the_closed_form() -> None:
    """Attention 8 t d i + 4 t L i three times a layer pair, feed-forward 4 t d f, experts at 64 tokens each."""
    d, f, inner, t, length = 1024, 16384, 4096, 512, 512
    attention = 72 * (8 * t * d * inner + 4 * t * length * inner)
    dense, experts = 24 * 4 * t * d * f, 24 * 4 * (4 * 64 * d * f)
    rest = 24 * 2 * t * d * 4 + 2 * t * d * 32128
    assert flop(MODELS["switchxl4"], 1, 512) == pytest.approx(attention + dense + experts + rest)
    assert flop(MODELS["switchxl4"], 2, 512) == pytest.approx(2 * flop(MODELS["switchxl4"], 1, 512))


@pytest.mark.skipif(data_folder() is None, reason="no public measurements here (set SLIPSTICK_DATA)")
def test_what_users_load_is_what_the_board_scores(tmp_path: Path) -> None:
    """LayerNorm on machines left out: the saved calibration of the others gives the board's error, below a roofline.

    What the others count for them is as found without their generation, both times.
    """
    folder = data_folder()
    assert folder is not None
    case = next(case for case in cases() if "layernorm" in case.name)
    board = replace(case, sample=60).board(case.frame(folder))
    if board.training.empty:
        pytest.skip("gpu/neusight is not in the data folder")
    for name in ("l4", "a100-pcie-80gb"):
        chosen = case.scored(board.training[board.training["machine"] == name])
        told = board.predict(name, chosen, (name,))
        others = [form for form in board.forms if form.machine.name != machine(name).name]
        typical = sorted(board.calibration.classes[0].typical)
        devices_file.save(fit_devices(others, "the others", 60, typical=typical), tmp_path / "made.json")
        loaded = devices_file.load_device_calibration(tmp_path / "made.json")
        form = board.rows(name, chosen)
        same = loaded.forecast(machine(name), similarity=fitted_similarity(generation_of(machine(name).family)))
        assert same.predict([form]).time == pytest.approx(told.time, rel=1e-9)
        assert mean_error(told.time, form.times) < mean_error(board.roofline(name, chosen), form.times)
        row = chosen.iloc[0]
        op = operation("norm", "norm", {"elements": row["elements"], "groups": row["groups"]}, "float32")
        net = Workload("norm", (op,))
        said = question(net, name, calibration=MeasuredOperations(loaded)).answer()
        forecast = loaded.forecast(machine(name))
        shipped, rule = forecast.predict([form]), forecast.rule(form.name)
        launch = forecast.belief.values(form.name)["overhead"] * np.exp(rule.factor.logs(form)[0])
        assert said.time == pytest.approx(shipped.time[0] - launch, rel=1e-9)
        assert known_width(said) == pytest.approx(np.hypot(rule.scatter.of(said.time), WHOLE), rel=1e-6)


@pytest.mark.skipif(data_folder() is None, reason="no public measurements here (set SLIPSTICK_DATA)")
@pytest.mark.parametrize(("file", "kind"), [("softmax", "softmax"), ("ln", "norm")])
def test_rows_of_an_a100_are_told_no_worse_than_by_the_plain_roofline(file: str, kind: str) -> None:
    """NeuSight's A100 80 GB, on which nothing that ships is fitted: MAPE by the estimators as they are registered."""
    folder = data_folder()
    assert folder is not None
    frame = gpu_data.neusight_rows(folder, file)
    frame = frame[frame["machine"] == "a100-pcie-80gb"]
    columns = {dim: frame[dim].to_numpy(float) for dim in KINDS[kind].dims}
    form = OperationTimes.of(machine("a100-pcie-80gb"), kind, "float32", columns, frame["time"].to_numpy())
    errors = {}
    for name in ("roofline", "tiled-roofline"):
        model = registry.estimator(name).operation
        own = {f"parameter.{part}": value for part, (value, _) in parameters(model).items()}
        errors[name] = float(np.mean(np.abs(RowFormula.of(model, [form]).evaluate(own) / frame["time"] - 1)))
    assert errors["tiled-roofline"] <= errors["roofline"] + 0.005


@pytest.mark.skipif(data_folder() is None, reason="no public measurements here (set SLIPSTICK_DATA)")
def test_a_cache_that_holds_the_keys_serves_generation_attention() -> None:
    """L40S, 96 MB of L2: keys and values of 64 to 85 MB come faster than the data sheet's 864 GB/s, those of 128 to 192
    MB do not; a fit that knows that the measuring program used one set is within 10 % of the former.
    """
    folder = data_folder()
    assert folder is not None
    case = next(case for case in cases() if case.name == "generation attention")
    frame = case.frame(folder)
    board = case.board(frame[frame["machine"] == "l40s"])
    if board.training.empty:
        pytest.skip("gpu/aiconfigurator is not in the data folder")
    (fit,) = board.calibration.classes[0].fits
    for low, high, faster in ((64e6, 85e6, True), (128e6, 192e6, False)):
        size = 2 * board.training.eval("batch * kv_heads * keys * (head_dim + value_dim)")
        chosen = board.training[(size > low) & (size < high) & (board.training["keys"] >= 1024)]
        least = size[chosen.index] / 864e9
        assert (np.median(least / chosen["time"]) > 1) == faster
        form = board.rows("l40s", chosen)
        assert abs(np.median(np.log(times([form], fit.values) / form.times))) < (0.1 if faster else 0.25)


def test_a_class_has_one_place_for_what_is_known_of_it() -> None:
    kernels = TiledRoofline().kernels
    for kind in ("softmax", "norm", "gemm"):
        known = kernels[kind if kind in kernels else "default"]
        for name, prior in priors_of(f"{kind}.float32").items():
            assert name == "overhead" or prior.value == getattr(known, name)
    assert kernels["softmax"].step_cycles == 1.0  # a step along a row is one element


def test_products_in_blocks_are_scored_from_other_generations_alone() -> None:
    """Of Hopper and Blackwell the rows in blocks, of an L40S those scaled a tensor: no other's."""
    case = next(case for case in cases() if case.name == "FP8 gemm in blocks, one generation left out")
    machines = ["h100-sxm", "h100-sxm", "b200-sxm", "l40s", "l40s"]
    dtypes = ["float8_block", "float8", "float8_block", "float8", "bfloat16"]
    frame = pd.DataFrame({"machine": machines, "dtype": dtypes})
    assert case.keep is not None and list(case.keep(frame)) == [True, False, True, True, False]
    assert case.held_out == (HOPPER, BLACKWELL)


def test_a_timed_product_in_blocks_packs_its_scales_on_blackwell_alone() -> None:
    """The collector hands float32 scales over: Hopper's kernels read them, Blackwell's take packed exponents, which
    DeepGEMM makes in each call by four kernels beside the two of the call (csrc/apis/layout.hpp)."""
    dims = {"batch": 1.0, "m": 4096.0, "n": 64.0, "k": 4096.0, "time": 1e-5}
    rows = [(on, kind) for on in ("h200-sxm", "b200-sxm") for kind in ("float8_block",)] + [("gb200", "float8")]
    frame = pd.DataFrame([{"machine": on, "dtype": kind, "stack": SGLANG, **dims} for on, kind in rows])
    board = OperationBoard(frame, "gemm", "float8")
    launches = {form.machine.name: form.machine.runtime.launch_overhead / GRAPH_LAUNCH for form in board.forms}
    assert sorted(launches.values()) == pytest.approx([2, 2, 6])
    assert [bool(form.op.attributes.get("packs_scales")) for form in board.forms] == [True, False, False]


@pytest.mark.skipif(data_folder() is None, reason="no public measurements here (set SLIPSTICK_DATA)")
@pytest.mark.parametrize(("folder", "word"), [("gemm", "BF16 gemm"), ("attention", "generation attention")])
def test_every_system_of_the_serving_tables_is_left_out_once(folder: str, word: str) -> None:
    """Whoever adds a system's tables to the data adds it to a generation of the board."""
    root = data_folder()
    assert root is not None
    measured = {path.parts[-5] for path in root.glob(f"gpu/aiconfigurator/*/{folder}/sglang/0.5.10/*.parquet")}
    case = next(case for case in cases() if case.name.startswith(word))
    assert {gpu_data.machine_of(name) for name in measured} <= {name for group in case.held_out for name in group}
