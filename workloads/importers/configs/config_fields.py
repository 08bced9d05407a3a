"""The fields of one configuration of a model, under whatever of their names; what is wrong of any is kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slipstick.common.errors import InputError
from slipstick.workloads.importers.configs.state_layers import STATES
from slipstick.workloads.language.language_model import BYTES_ALONE

LARGEST = 10**9
MOST_LAYERS = 10_000
WINDOWS = ("sliding_attention", "chunked_attention", "window", "local")
FULL = ("full_attention", "attention", "full", "global", "nope_attention", "moe", "hybrid_attention", "dense")
"""What files call the layers that attend to all tokens ("moe", "dense": called by the feed-forward)."""
STRUCTURAL = re.compile(
    r"(layers?|experts?|heads?|ranks?|dim|width|size|state|block|streams?|groups?|tokens?_?codebooks?)(_|$)"
)
OF_NO_WEIGHTS = re.compile(
    r"(^_|^head_dim$|attention_head|kv_head|key_value|window|vocab|batch|token|image|vision|audio|video|_id|ids$|"
    r"chunk|norm_|_norm|dropout|scal|prob|init|position|context|cache|tp_|pretrain|rope|rotary|aux|coef|loss|n_group|"
    r"topk_group|_groups?$|sparse_step|_freq|_interval|max_window|num_logits|parallel|type|torch|vocab|index_|"
    r"classifier|label|router_|num_beam|expand|intermediate|hidden_layers|mamba_chunk|norm|block_(sparse|auto|multiple|"
    r"type)|no_rope|residual|fused|final|attn_|layer_(idx|index)|mlp_only|weight_|first_k|skip|use_|num_labels)"
)


class ConfigFields:
    """The fields; errors are raised together (`check`), and those that nothing read are named (`unread`)."""

    def __init__(self, document: Mapping[str, Any], where: object, kind: str = "") -> None:
        self.document, self.where, self.kind = document, where, kind
        self.wrong: list[str] = []
        self.wrong_names: set[str] = set()
        self._read: set[str] = set()

    def check(self, more: Sequence[str] = ()) -> None:
        """End the reading of a configuration.

        Raises InputError where something is wrong: names all of it.
        """
        if wrong := [*dict.fromkeys(self.wrong), *more]:
            missing = "; is this a language model's config.json?" if any(one.startswith("no ") for one in wrong) else ""
            raise InputError(f"{self.where}: {'; '.join(wrong)}{missing}")

    def given(self, *names: str) -> Any:
        """What the file says under the first of these names that it has; None where it has none."""
        self._read |= {*names}
        return next((self.document[name] for name in names if self.document.get(name) is not None), None)

    def optional(self, *names: str, low: int = 0, high: int = LARGEST) -> int | None:
        """A whole number under one of its names; a list that says it for each layer says one number."""
        self._read |= {*names}
        name = next((name for name in names if self.document.get(name) is not None), None)
        if name is None:
            return None
        value = self.document[name]
        if isinstance(value, list) and value and all(one == value[0] for one in value):
            value = value[0]
        if isinstance(value, list) and value:
            self._refuse(name, f"{name} differs from layer to layer ({str(value)[:40]}...): want one number")
        elif not isinstance(value, bool) and isinstance(value, int) and low <= value <= high:
            return value
        else:
            shown = f"{value:,}" if type(value) is int else repr(str(value)[:40])
            self._refuse(name, f"{name} = {shown[:40]}: want a whole number from {low} to {high:,}")
        return None

    def _refuse(self, name: str, words: str) -> None:
        self.wrong.append(words)
        self.wrong_names.add(name)

    def whole(self, *names: str, high: int = LARGEST) -> int | None:
        """A number that has to be there, at least 1; None where it is wrong."""
        if all(self.document.get(name) is None for name in names):
            self._refuse(names[0], f"no {names[0]}")
        return self.optional(*names, low=1, high=high)

    def text(self, name: str) -> str:
        """A text that has to be there.

        Raises InputError where it is not.
        """
        value = self.document.get(name)
        if not isinstance(value, str):
            raise InputError(f"{self.where}: no field {name!r}; is this a language model's config.json?")
        return value

    def switch(self, name: str, default: int = 0) -> int:
        """1 where a field says true."""
        self._read.add(name)
        value = self.document.get(name, default)
        if value not in (None, 0, 1):
            self._refuse(name, f"{name} = {str(value)[:40]!r}: want true or false")
        return int(bool(value))

    def listed(self, name: str, layers: int) -> list[str]:
        """A word for each layer; empty where the file does not say."""
        self._read.add(name)
        value = self.document.get(name) or []
        if not isinstance(value, list) or (value and layers and len(value) != layers):
            count = f"{len(value):,} entries" if isinstance(value, list) else repr(str(value)[:40])
            self._refuse(name, f"{name} of {count}: want one for each of num_hidden_layers = {layers:,}")
            return []
        return [str(word) for word in value]

    def letters(self, name: str, layers: int) -> str:
        """A text with a letter for each layer; empty where the file does not say."""
        self._read.add(name)
        value = self.document.get(name)
        if value is None:
            return ""
        if (
            not isinstance(value, str)
            or len(value) != layers
            or not set(value) <= set("M*-E")
            or not set(value) & set("M*")
        ):
            self._refuse(name, f"{name} = {str(value)[:40]!r}: want a letter of M, *, - and E for each layer")
            return ""
        return str(value)

    def places(self, name: str, layers: int, first: int = 0) -> list[int]:
        """Numbers of layers, counted from `first`; given back counted from 0."""
        self._read.add(name)
        value = self.document.get(name) or []
        low, most = first, (layers or MOST_LAYERS) - 1 + first
        if not isinstance(value, list) or not all(type(one) is int and low <= one <= most for one in value):
            self._refuse(name, f"{name} = {str(value)[:40]}: want numbers of layers from {low} to {most:,}")
            return []
        return [one - first for one in value]

    def mixers(self, layers: int, omitted: list[tuple[str, float]]) -> list[str]:
        """What mixes the tokens of each layer: "full", "window" or a word of `STATES`; empty where no field says."""
        self._read |= {"full_attn_layers", "kda_layers"}
        for name in ("layer_types", "layers_block_type"):
            if words := self.listed(name, layers):
                return [self._mixer(word, omitted) for word in words]
        if self.document.get("attn_type_list"):
            return ["full" if word == "1" else "lightning" for word in self.listed("attn_type_list", layers)]
        for name, first, other in (
            ("full_attn_layers", 1, "kda"), ("full_attn_idxs", 0, "conv"), ("attn_layer_indices", 0, "mamba"),
        ):  # fmt: skip
            if name in self.document:
                full = {*self.places(name, layers, first)}
                return ["full" if i in full else other for i in range(layers)]
        if (period := self.optional("attn_layer_period", low=1)) is not None:
            offset = self.optional("attn_layer_offset") or 0
            return ["full" if i % period == offset % period else "mamba" for i in range(layers)]
        if "linear_num_value_heads" in self.document:
            every = self.optional("full_attention_interval", low=1) or 4
            return ["full" if (i + 1) % every == 0 else "linear_attention" for i in range(layers)]
        return []

    @staticmethod
    def _mixer(word: str, omitted: list[tuple[str, float]]) -> str:
        plain = word.lower()
        if plain in WINDOWS:
            return "window"
        if plain in STATES:
            return plain
        doubt = f"layers of kind {word[:40]!r} are counted as attention", BYTES_ALONE
        if plain not in FULL and doubt not in omitted:
            omitted.append(doubt)
        return "full"

    def unread(self) -> list[str]:
        """Fields with a number that look like sizes of the model, and that nothing has read."""
        return [
            f"{name} = {value}"
            for name, value in sorted(self.document.items())
            if name not in self._read and type(value) is int and value > 1
            and STRUCTURAL.search(name) and not OF_NO_WEIGHTS.search(name)
        ][:6]  # fmt: skip
