"""Layers that keep a state instead of a cache, from the fields of a configuration: their products, sizes and states.

Sources: Yang et al., "Gated Delta Networks", arXiv 2412.06464; Kimi Team, "Kimi Linear", arXiv 2510.26692, section 4;
Gu and Dao, "Mamba", arXiv 2312.00752, section 3.4; Dao and Gu, "Mamba 2", arXiv 2405.21060, section 7; MiniMax,
"MiniMax-01", arXiv 2501.08313, section 2.2; names and shapes of tensors: transformers, models/NAME/modeling_NAME.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstick.workloads.language.language_model import LinearAttention

if TYPE_CHECKING:
    from slipstick.workloads.importers.configs.config_fields import ConfigFields

STATES = ("linear_attention", "mamba", "mamba2", "conv", "kda", "lightning", "recurrent")
"""What files call such layers."""


def state_layers(fields: ConfigFields, kind: str, layers: int, width: int) -> LinearAttention | None:
    """The layers of this form; None where the file has none.

    `layers`: how many the file says there are; all of them where it says nothing of kinds.
    """
    if fields.given("linear_num_value_heads") is not None:
        return _delta(fields, layers)
    if fields.given("full_attn_layers", "kda_layers") is not None:
        return _kimi(fields, layers, width)
    if fields.given("conv_L_cache") is not None:
        taps = fields.whole("conv_L_cache") or 1
        return LinearAttention("short convolution", layers, 1, 3 * width, width, 0, taps * width, taps * width)
    if fields.given("attn_type_list") is not None:
        inner = (fields.optional("num_attention_heads") or 0) * (fields.optional("head_dim") or 0)
        state = inner * (fields.optional("head_dim") or 0)
        heads = fields.optional("num_attention_heads") or 1
        return LinearAttention("lightning attention", layers, heads, 4 * inner, inner, 0, inner, state)
    several = ("mamba_n_heads", "mamba_num_heads", *(("num_heads",) if kind == "mamba2" else ()))
    if fields.given(*several) is not None:
        return _mamba2(fields, several, layers, width)
    if fields.given("state_size", "mamba_d_state", "ssm_state_size") is not None:
        return _mamba(fields, kind, layers, width)
    if layers and fields.mixers(layers, []):
        fields.wrong.append(f"{layers} layers keep a state, but no field says its sizes (state_size, mamba_d_state)")
    return None


def _delta(fields: ConfigFields, layers: int) -> LinearAttention:
    names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim")
    key_heads, heads, key, value, taps = (fields.whole(name) or 0 for name in (*names, "linear_conv_kernel_dim"))
    if key_heads and heads % key_heads:
        fields.wrong.append(f"{names[0]} = {key_heads}: want a divisor of {names[1]} = {heads}")
    channels, values = 2 * key_heads * key + heads * value, heads * value
    small = channels * taps + 2 * heads + value
    state = heads * key * value + channels * (taps - 1)
    return LinearAttention(
        "gated delta rule", layers, heads, channels + values + 2 * heads, values, 0, small, state, measured=1
    )


def _kimi(fields: ConfigFields, layers: int, width: int) -> LinearAttention:
    section = fields.document.get("linear_attn_config")
    nested = type(fields)(section if isinstance(section, dict) else fields.document, fields.where)
    heads, size = nested.whole("num_heads") or 1, nested.whole("head_dim") or 1
    taps = nested.optional("short_conv_kernel_size") or 4
    fields.wrong += nested.wrong
    fields.given("num_heads", "short_conv_kernel_size")
    inner = heads * size
    return LinearAttention(
        "Kimi delta attention", layers, heads, 3 * inner + 2 * size + heads, inner, 2 * size * inner,
        3 * inner * taps + inner + heads + size, heads * size * size + 3 * inner * (taps - 1),
    )  # fmt: skip


def _mamba(fields: ConfigFields, kind: str, layers: int, width: int) -> LinearAttention:
    expand = fields.optional("mamba_expand", "expand", low=1) or 2
    inner = (fields.optional("intermediate_size") if "state_size" in fields.document else None) or expand * width
    states = fields.whole("state_size", "mamba_d_state", "ssm_state_size") or 1
    taps = fields.optional("conv_kernel", "mamba_d_conv", low=1) or 4
    rank = fields.given("time_step_rank", "mamba_dt_rank")
    rank = -(-width // 16) if rank in (None, "auto") else fields.optional("time_step_rank", "mamba_dt_rank") or 0
    norms = rank + 2 * states if "mamba_dt_rank" in fields.document else 0  # Jamba has norms of these
    small = inner * taps + inner + inner + inner * states + inner + norms
    between = inner * (rank + 2 * states) + rank * inner
    return LinearAttention(
        "Mamba", layers, inner, 2 * inner, inner, between, small, inner * states + inner * (taps - 1)
    )


def _mamba2(fields: ConfigFields, names: tuple[str, ...], layers: int, width: int) -> LinearAttention:
    heads = fields.whole(*names) or 1
    size = fields.optional("mamba_d_head", "mamba_head_dim", "head_dim")  # "auto" is not whole, and refused
    expand = fields.optional("mamba_expand", "expand", low=1) or 2
    inner = heads * size if size else expand * width
    states = fields.whole("mamba_d_state", "ssm_state_size", "state_size") or 1
    groups = fields.optional("mamba_n_groups", "n_groups", low=1) or 1
    taps = fields.optional("mamba_d_conv", "conv_kernel", low=1) or 4
    channels = inner + 2 * groups * states
    small = channels * taps + channels + 3 * heads + inner
    return LinearAttention(
        "Mamba 2", layers, heads, inner + channels + heads, inner, 0, small, inner * states + channels * (taps - 1)
    )
