"""Names of language models as people type them: ORG/NAME of the hub in any case, endings, and how weights are stored.

``Qwen/Qwen3-32B-FP8``, ``meta-llama/Llama-3.1-8B-Instruct``, ``llama3.1:8b`` and ``bartowski/Qwen3-8B-GGUF:Q4_K_M`` all
name a shipped model; a configuration that the hub's library has downloaded is found by its full name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

ENDINGS = frozenset(
    {"instruct", "chat", "it", "base", "hf", "pt", "thinking", "preview", "gguf", "text", "latest", "quantized"}
)
"""Words after a model's name that change no number of it; dates and versions of a release count too."""
_RELEASE = re.compile(r"v\d+(\.\d+)?|\d{4}|\d{6}")
_STORED = (
    (r"(?:ud[-_])?(q\d(?:_k_[sml]|_k|_\d))(?:[-_]?xl)?", ""),
    (r"nvfp4|fp4", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"fp8(?:[-_](?:dynamic|block|static(?:-pertensor)?|kv))?|w8a8[-_]fp8|float8", "fp8"),
    (r"(?:gptq[-_])?(?:int8|w8a8|w8a16|8bit)", "int8"),
    (r"awq(?:[-_](?:int4|4bit))?|(?:gptq[-_])?(?:int4|w4a16|4bit)|gptq|bnb[-_]4bit", "int4"),
    (r"bf16", "bf16"),
    (r"fp16|f16", "fp16"),
)
"""How weights are stored, by the words that publishers put behind a name; a GGUF mixture is its own word."""
_MARK = re.compile(
    r"[-_:.](?:" + "|".join(f"(?P<s{number}>{words})" for number, (words, _) in enumerate(_STORED)) + r")$",
    re.IGNORECASE,
)
_VERSION_ORG = re.compile(r"^(?:meta|unsloth|nvidia)[-_](?=llama)", re.IGNORECASE)


@dataclass(frozen=True)
class Typed:
    """What was typed, taken apart.

    `names`: the model's name, lower case: as it is, without endings, and without dates and versions either; all three.
    `stored`: how weights are stored, as the name says; "" where it says nothing.
    """

    names: tuple[str, ...]
    stored: str


def typed(text: str) -> Typed:
    """A name taken apart.

    >>> typed("Qwen/Qwen3-32B-FP8")
    Typed(names=('qwen3-32b', 'qwen3-32b', 'qwen3-32b'), stored='fp8')
    >>> typed("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M").names[-1]
    'llama-3.1-8b'
    """
    name, stored = _VERSION_ORG.sub("", text.strip().rsplit("/", 1)[-1].lower()), ""
    while mark := _MARK.search(name):
        at = next(number for number in range(len(_STORED)) if mark.group(f"s{number}"))
        stored = stored or _STORED[at][1] or _mixture(mark.group(f"s{at}"))
        name = name[: mark.start()]
    words = re.split(r"([-_:])", name)
    named = _without(words, ENDINGS.__contains__)
    return Typed((name, "".join(named), "".join(_without(named, _is_release))), stored)


def _without(words: Sequence[str], left_out: Callable[[str], bool]) -> list[str]:
    """Words and the marks before them, the first word kept whatever it is."""
    kept = [*words[:1]]
    for mark, word in zip(words[1::2], words[2::2], strict=True):
        kept += [] if left_out(word) else [mark, word]
    return kept


def _is_release(word: str) -> bool:
    return _RELEASE.fullmatch(word) is not None


def _mixture(words: str) -> str:
    """A GGUF mixture as `weight_types` spells it; one without a size (or extra large) is taken for the middle one."""
    mixture = re.search(r"q\d(?:_k_[sml]|_k|_\d)", words)
    name = mixture[0] if mixture else words
    return f"{name}_m" if name.endswith("_k") and name != "q2_k" and name != "q6_k" else name


def known_as(names: Iterable[str], known: Mapping[str, Iterable[str]]) -> str | None:
    """The model that the first fitting of `names` means; None where none fits.

    `known`: model -> its aliases.
    """
    table = {plain(one): model for model, aliases in known.items() for one in (*aliases, model)}
    return next((table[plain(name)] for name in names if plain(name) in table), None)


def plain(name: str) -> str:
    """Letters and digits alone: llama3.1:8b is llama-3.1-8b."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def nearest(names: Iterable[str], known: Mapping[str, Iterable[str]], count: int = 3) -> list[str]:
    """Shipped models with a similar name, best first."""
    table = {plain(one): model for model, aliases in known.items() for one in (*aliases, model)}
    near = (table[one] for name in reversed([*names]) for one in get_close_matches(plain(name), table, 2 * count, 0.6))
    return list(dict.fromkeys(near))[:count]


def downloaded(text: str) -> Path | None:
    """The config.json that the hub's library keeps of ORG/NAME, the newest snapshot; None where it keeps none.

    Where it lies: HF_HUB_CACHE, HF_HOME/hub, ~/.cache/huggingface/hub (huggingface_hub, "Understand caching").
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", text) or ".." in text:
        return None
    wanted = f"models--{text.replace('/', '--')}".lower()
    for folder in _hubs():
        kept = [one for one in folder.iterdir() if one.name.lower() == wanted] if folder.is_dir() else []
        configs = [path for one in kept for path in one.glob("snapshots/*/config.json")]
        if configs:
            return max(configs, key=lambda path: (path.stat().st_mtime, str(path)))
    return None


def _hubs() -> Iterator[Path]:
    if "HF_HUB_CACHE" in os.environ:
        yield Path(os.environ["HF_HUB_CACHE"])
    elif "HF_HOME" in os.environ:
        yield Path(os.environ["HF_HOME"]) / "hub"
    else:
        yield Path.home() / ".cache" / "huggingface" / "hub"
