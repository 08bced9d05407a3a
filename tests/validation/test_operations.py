"""The scoreboard's machinery: its formulas on closed forms, its held-out rule, and its rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from estimators.across_devices.bands import band, weighted_quantiles
from estimators.across_devices.pooling import MachineFit, pooled, shared_words, weights
from estimators.across_devices.stacking import PRIOR, Told, Trial, stacked
from estimators.operation.energy import PowerModel, fit_power
from experiments.validation import gpu_data, gpu_scores
from experiments.validation.data import data_folder
from experiments.validation.gpu_boards import Board
from experiments.validation.gpu_cases import cases
from experiments.validation.gpu_transfer import Transfer
from experiments.validation.model_graphs import graph
from experiments.validation.switch_transformer import MODELS, SwitchConfiguration, switch_transformer
from hwmodels.catalog import machine
from hwmodels.files import InputError
from hwmodels.records import Table

FAMILIES = [("nvidia-ampere-ga100", "nvidia-ampere-ga100", 3), ("nvidia-ampere-ga100", "nvidia-ampere-ga102", 2)]


@pytest.mark.parametrize(
    ("one", "other", "shared"), [*FAMILIES, ("nvidia-a", "amd-a", 0), ("nvidia-x-y", "nvidia-z", 1)]
)
def test_kinship_counts_leading_words(one: str, other: str, shared: int) -> None:
    assert shared_words(one, other) == shared


def fit(name: str, family: str, launch: float, scatter: float = 0.05) -> MachineFit:
    return MachineFit(name, family, "HBM", Table({"overhead": launch, "overlap": 0.3}), scatter, 100)


def test_a_new_machine_takes_after_its_relatives() -> None:
    """With a twin at 4 us and a stranger at 1 us, the new machine lies close to its twin."""
    fits = [fit("twin", "nvidia-ampere-ga100", 4e-6), fit("stranger", "intel-knights-landing", 1e-6)]
    value = pooled(fits, machine("a100-sxm-80gb"))["overhead"]
    assert 3.5e-6 < value < 4.1e-6


def test_badly_described_machines_count_less() -> None:
    share = weights([fit("good", "nvidia-a", 1e-6, 0.05), fit("bad", "nvidia-b", 1e-6, 0.45)], "nvidia-c")
    assert share[1] / share[0] == pytest.approx(0.10 / 0.50)


def test_pooling_over_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="no measured machine to pool over"):
        pooled([], machine("l4"))


def test_weighted_quantiles_of_equal_weights_are_numpy_s() -> None:
    """Against numpy's hazen rule, which puts the i-th of n values at (i - 1/2) / n."""
    values = np.random.default_rng(0).normal(size=500)
    low, high = weighted_quantiles(values, np.ones(500), 0.8)
    assert [low, high] == pytest.approx(np.quantile(values, [0.1, 0.9], method="hazen"))


def test_a_band_covers_what_it_was_made_of() -> None:
    residual = np.random.default_rng(1).normal(0, 0.2, 4000)
    made = band({"a": residual}, {"a": np.full(4000, 1e-3)}, {"a": 1.0})
    low, high = made.around(np.ones(4000))
    inside = (np.exp(residual) >= low) & (np.exp(residual) <= high)
    assert inside.mean() == pytest.approx(0.8, abs=0.01)


def told(count: int = 400) -> Told:
    generator = np.random.default_rng(5)
    base = generator.normal(-9, 1, count)
    return Told(base, base + generator.normal(0, 0.3, count), base + generator.normal(0, 0.3, count), base * 0 + 0.2)


def test_stacking_finds_the_way_that_is_right() -> None:
    """Machines whose times are those of one way give that way all weight, as far as the prior lets them."""
    one = told()
    found = stacked([Trial(one, one.apart, 1.0)] * 40)
    assert found[0] > 0.95 and found[1:] == pytest.approx([0, 0], abs=0.05)
    assert one.together(found) == pytest.approx(one.apart, abs=0.05)


def test_stacking_without_trials_keeps_its_prior() -> None:
    assert tuple(stacked([])) == PRIOR


def test_stacking_refuses_a_trial_without_rows() -> None:
    with pytest.raises(InputError, match="machine without measured rows"):
        stacked([Trial(told(0), np.zeros(0), 1.0)])


def test_interval_score_is_gneiting_s() -> None:
    """Inside: the width; a factor e outside: 2 / 0.2 more (Gneiting and Raftery 2007, equation 43, in log time)."""
    one = np.array([1.0])
    assert gpu_scores.interval_score(one, one * np.e, one * 1.5) == pytest.approx(1.0)
    assert gpu_scores.interval_score(one, one * np.e, one / np.e) == pytest.approx(1.0 + 10.0)


def test_power_model_recovers_its_parameters() -> None:
    on = machine("h200-sxm")
    generator = np.random.default_rng(2)
    time = generator.uniform(1e-5, 1e-3, 400)
    flop, moved = time * generator.uniform(0, 9e13, 400), time * generator.uniform(0, 4e12, 400)
    truth = PowerModel(0.15, 0.8, 1.2, 2e-5)
    watts = truth.watts(on, time, flop, moved)
    assert (watts < 700).sum() > 200 and (watts == 700).sum() > 20
    found = fit_power(on, time, flop, moved, watts)
    assert [found.active, found.flop, found.byte] == pytest.approx([0.15, 0.8, 1.2], rel=1e-4)
    assert found.settle == pytest.approx(2e-5, rel=1e-4)
    assert truth.joules(on, time, flop, moved) == pytest.approx(watts * time)


def test_short_kernels_draw_half_at_the_settling_time() -> None:
    """idle + half the range at time = settle, for a kernel whose range is all active."""
    on = machine("h200-sxm")
    nothing = np.zeros(1)
    watts = PowerModel(1.0, 1.0, 1.0, 1e-5).watts(on, np.array([1e-5]), nothing, nothing)
    assert watts == pytest.approx([105 + (700 - 105) / 2])


def test_power_needs_a_cap() -> None:
    with pytest.raises(InputError, match=r"states no power\.cap or no power\.per_flop"):
        PowerModel().formula(machine("xeon-phi-7120p"))


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
def test_layernorm_on_machines_left_out_beats_the_roofline() -> None:
    folder = data_folder()
    assert folder is not None
    case = next(case for case in cases() if "layernorm" in case.name)
    board = Board(case.frame(folder), case.kind, case.dtype, case.facts, 60, case.priors)
    if board.training.empty:
        pytest.skip("gpu/neusight is not in the data folder")
    for name in ("l4", "a100-pcie-80gb"):
        chosen = board.training[(board.training["machine"] == name)]
        measured = chosen["time"].to_numpy()
        ours = gpu_scores.mape(Transfer(board).predict(name, chosen, (name,)).time, measured)
        assert ours < gpu_scores.mape(board.roofline(name, chosen), measured)
