"""The language models that ship, and any other from its config.json or GGUF file."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.formatting import visible
from slipstick.common.opener import is_folder
from slipstick.common.readers import read_yaml
from slipstick.common.renamed_arguments import checked
from slipstick.workloads.language_names import downloaded, known_as, nearest, plain, typed

if TYPE_CHECKING:
    from slipstick.workloads.language.language_model import LanguageModel

_FILE = Path(__file__).parent / "language_models.yaml"


@cache
def shipped_documents() -> dict[str, dict[str, Any]]:
    """What the file of language models says of each that ships, by name: its fields, aliases and source."""
    return dict(read_yaml(_FILE))


def language_model_names() -> list[str]:
    """Names of the language models that ship.

    Examples
    --------
    >>> import slipstick as ss
    >>> "llama-3.1-8b" in ss.language_model_names()
    True
    """
    return sorted(shipped_documents())


@cache
def _shipped(name: str) -> LanguageModel:
    from slipstick.workloads.importers.configs.huggingface import from_config

    shapes = from_config(shipped_documents()[name], f"shipped model {name}", name)
    omitted = (*shapes.omitted, *shipped_documents()[name].get("omits", {}).items())
    return replace(shapes, cache="", quantiser="", omitted=omitted)  # of no checkpoint's file


@cache
def _known() -> dict[str, tuple[str, ...]]:
    return {name: tuple(document.get("aliases", ())) for name, document in shipped_documents().items()}


@lru_cache(maxsize=1024)
def shipped_name(text: str) -> str | None:
    """The shipped model that a name of the hub, an alias or its name here means; None where there is none.

    >>> shipped_name("meta-llama/Llama-3.3-70B-Instruct"), shipped_name("facebook/opt-125m")
    ('llama-3.1-70b', None)
    """
    return text if text in shipped_documents() else known_as(typed(text).names, _known())


@checked
def language_model(name: str) -> LanguageModel:
    """A language model by its name, here or on the hub, or by the path of its config.json, its folder or a .gguf file.

    A name may say how weights are stored: "Qwen/Qwen3-32B-FP8", "llama-3.1-8b-awq", "qwen3-8b:q4_k_m". A sibling of
    the same shapes stands for a model without numbers of its own, which answers say (`LanguageModel.stands_for`).

    Raises
    ------
    InputError
        Where the name is unknown or the file is no language model's.

    Examples
    --------
    >>> language_model("llama-3.1-8b").parameters
    8030261248
    >>> language_model("Qwen/Qwen3-32B-FP8").weights
    'fp8'
    """
    if name.endswith(".gguf"):
        from slipstick.workloads.importers.configs.gguf import read_gguf

        return read_gguf(name)
    if name.endswith(".json"):
        from slipstick.workloads.importers.configs.huggingface import read_config

        return read_config(name)
    if name in shipped_documents():
        return _shipped(name)
    if name and is_folder(name):
        return language_model(str(Path(name) / "config.json"))
    if name.startswith((".", "/", "~")):
        raise InputError(
            f"{visible(name[:200])}: no such file or folder; want a config.json, its folder or a .gguf file"
        )
    shipped = shipped_name(name)
    if shipped is not None:
        named = typed(name)
        itself = plain(shipped) in map(plain, named.names[:2])  # else a sibling's or another release's name
        return replace(_stored_as_named(_shipped(shipped), named.stored), typed="" if itself else visible(name[:80]))
    config = downloaded(name)
    if config is not None:
        from slipstick.workloads.importers.configs.huggingface import read_config

        return replace(read_config(config), name=name.rsplit("/", 1)[-1].lower())
    raise InputError(f"unknown language model {visible(name[:80])!r}{_way_on(name)}")


def _stored_as_named(model: LanguageModel, stored: str) -> LanguageModel:
    from slipstick.workloads.language.weight_types import stored_as

    return replace(model, weights=stored_as(model, stored)) if stored else model


def _way_on(name: str) -> str:
    """What to do about a model that does not ship."""
    near = nearest(typed(name).names, _known())
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    brought = f"`hf download {name} config.json` brings it" if name.count("/") == 1 else "as its publisher has it"
    return f"{hint} Any other: its config.json ({brought}), its folder or a .gguf file ({len(_known())} models ship)"
