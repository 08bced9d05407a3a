"""Flop and memory of training against published figures: Megatron-Bridge, Korthikanti et al. 2022, ZeRO 2020."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.memory_band import GIB_OVER_GB, with_band
from slipstick.workloads.language.training_layout import TrainingLayout, training_flop
from slipstick.workloads.language.training_memory import (
    TrainerKeeps,
    layer_activation_bytes,
    parameters_of,
    stage_memories,
    state_parts,
    undivided_bytes,
)
from slipstick.workloads.language_catalog import language_model

GPT3 = LanguageModel("gpt-3", 96, 12288, 96, 96, 128, 49152, 51200, matrices=2)


@pytest.mark.parametrize(
    ("name", "sequence", "published"),
    [
        ("llama-3.1-70b", 8192, 449.2),
        ("llama-3.1-405b", 8192, 2524.0),
        ("qwen3-235b-a22b", 4096, 148.3),
        ("deepseek-v3", 4096, 250.5),
    ],
)
def test_flop_of_a_training_token(name: str, sequence: int, published: float) -> None:
    """Model flop over tokens, both as published by Megatron-Bridge (DeepSeek-V3 without its MTP head)."""
    assert training_flop(language_model(name), sequence) / 1e9 == pytest.approx(published, abs=0.06)


def test_activations_of_gpt_3() -> None:
    """Korthikanti et al. 2022: equation 1; eight tensor ranks with sequence parallelism; selective recomputation."""
    assert layer_activation_bytes(GPT3, 2048, dropout=1) / 1e9 == pytest.approx(2.869, abs=5e-4)
    eight = TrainingLayout(tensor=8, recompute="none")
    assert 96 * layer_activation_bytes(GPT3, 2048, eight, dropout=1) / 1e9 == pytest.approx(34.4, abs=0.05)
    selective = TrainingLayout(tensor=8)
    assert 96 * layer_activation_bytes(GPT3, 2048, selective, dropout=1) / 1e9 == pytest.approx(10.3, abs=0.05)


def test_tensor_ranks_that_keep_sequences_whole() -> None:
    """Korthikanti et al., equation 2, of GPT-3 on eight ranks: s b h (10 + 24 / t + 5 a s / (h t)); of the ten, two are
    masks of dropout, which models of today do not keep."""
    eight = TrainingLayout(tensor=8, recompute="none")
    whole = 2048 * GPT3.width
    masks = 2 * (1 - 1 / 8) * whole
    more, again = undivided_bytes(GPT3, 2048, eight)
    kept = layer_activation_bytes(GPT3, 2048, eight, dropout=1) + more + masks
    assert kept == pytest.approx(whole * (10 + 24 / 8 + 5 * GPT3.heads * 2048 / (GPT3.width * 8)), rel=1e-12)
    assert again == 0 and undivided_bytes(GPT3, 2048, TrainingLayout(recompute="full")) == (0.0, 0.0)
    stages = [stage_memories(GPT3, eight, 8, 2048, (0,), TrainerKeeps(split))[0].total for split in (True, None, False)]
    assert stages[0] == stages[1] < stages[2]


def test_states_of_zero() -> None:
    """Rajbhandari et al. 2020, figure 1: 7.5 billion parameters on 64 devices."""
    found = [sum(state_parts(7.5e9, 64, stage, gradient=2.0)) / 1e9 for stage in (0, 1, 2, 3)]
    assert found == pytest.approx([120, 31.4, 16.6, 1.9], abs=0.05)


def test_one_device_has_no_communication_buffers() -> None:
    memory = stage_memories(language_model("llama-3.1-8b"), TrainingLayout(), 1, 1024, (0,))[0]
    assert with_band(memory, TrainingLayout()).beyond["communication buffers"] == 0
    two = with_band(memory, TrainingLayout(tensor=2, data=2)).beyond["communication buffers"]
    assert two == 2 * 32 * 2 * 4 * 2**20  # NCCL_BUFFSIZE of 4 MiB, 32 channels, two directions, two communicators


@given(st.sampled_from(["llama-3.1-70b", "qwen3-235b-a22b", "deepseek-v3"]), st.integers(0, 60))
def test_parts_of_a_model_add_up_to_its_parameters(name: str, layers: int) -> None:
    model = language_model(name)
    one = parameters_of(model, layers, 1)
    rest = parameters_of(model, model.layers - layers, 1)
    assert sum(one) + sum(rest) == pytest.approx(model.parameters, rel=1e-12)


@given(
    st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]),
    st.sampled_from([0, 1, 2, 3]), st.sampled_from(["none", "selective", "full"]),
)  # fmt: skip
def test_memory_is_the_sum_of_its_parts_and_sharing_never_raises_it(
    tensor: int, pipeline: int, data: int, shard: int, recompute: str
) -> None:
    model = language_model("llama-3.1-8b")
    layout = TrainingLayout(tensor, pipeline, data, shard=shard, recompute=recompute)  # type: ignore[arg-type]
    memory = stage_memories(model, layout, 64, 8192, (0,))[0]
    assert memory.total == pytest.approx(sum(memory.parts().values()))
    band = with_band(memory, layout)
    assert band.low <= memory.total <= band.high
    assert band.high == pytest.approx(memory.total + sum(band.beyond.values()))
    assert band.fits(band.high) == "fits"
    assert band.fits(memory.total) == "may not fit"
    assert band.fits(band.low / GIB_OVER_GB * (1 - 1e-9)) == "does not fit"
    if shard < 2:
        further = TrainingLayout(tensor, pipeline, data, shard=shard + 1, recompute=recompute)  # type: ignore[arg-type]
        assert stage_memories(model, further, 64, 8192, (0,))[0].total <= memory.total * (1 + 1e-12)


@pytest.mark.parametrize(
    ("layout", "batch", "says"),
    [
        (TrainingLayout(tensor=3), 64, "64 heads on 3 tensor ranks"),
        (TrainingLayout(data=3), 64, "want a multiple of data x micro = 3"),
        (TrainingLayout(pipeline=81), 64, "want at most its 80 layers"),
        (TrainingLayout(pipeline=8, chunks=9), 64, "80 layers on 8 stages x 9 chunks of 2: 64 too few"),
        (TrainingLayout(data=2, expert=2), 64, "has no experts"),
        (TrainingLayout(pipeline=4, chunks=2, data=32), 64, "multiple of the 4 stages"),
        (TrainingLayout(context=3), 64, "sequence of 8192 tokens"),
    ],
)
def test_layouts_that_do_not_divide_are_refused(layout: TrainingLayout, batch: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        layout.check(language_model("llama-3.1-70b"), batch, 8192)


@given(st.integers(1, 130), st.integers(1, 16), st.integers(1, 8))
def test_stages_hold_all_layers(layers: int, stages: int, chunks: int) -> None:
    try:
        first, middle, last = TrainingLayout(pipeline=stages, chunks=chunks if stages > 1 else 1).stage_layers(layers)
    except InputError:
        return
    assert first + (stages - 2) * middle + last == layers if stages > 1 else first == layers
    assert 0 <= last <= first <= middle


@pytest.mark.parametrize("field", ["tensor", "pipeline", "data", "context", "expert", "chunks", "micro"])
def test_degrees_below_one_are_refused(field: str) -> None:
    with pytest.raises(InputError, match=field):
        TrainingLayout(**{field: 0})
