"""The language models that ship, and any other from its config.json or GGUF file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from slipstick.hwmodels.files.readers import InputError, read_yaml, unknown_name
from slipstick.workloads.language.language_model import LanguageModel

_FILE = Path(__file__).parent / "language_models.yaml"


@cache
def _documents() -> dict[str, dict[str, Any]]:
    return dict(read_yaml(_FILE))


def language_model_names() -> list[str]:
    """Names of the language models that ship.

    Examples
    --------
    >>> import slipstick as ss
    >>> "llama-3.1-8b" in ss.language_model_names()
    True
    """
    return sorted(_documents())


def language_model_source(name: str) -> str:
    """Where the numbers of a shipped model come from."""
    return str(_documents()[name]["source"])


@cache
def _shipped(name: str) -> LanguageModel:
    from slipstick.workloads.importers.configs.huggingface import from_config

    return from_config(_documents()[name], f"shipped model {name}", name)


def language_model(name: str) -> LanguageModel:
    """A language model by its name here, or by the path of its config.json or .gguf file.

    Raises
    ------
    InputError
        Where the name is unknown or the file is no language model's.

    Examples
    --------
    >>> language_model("llama-3.1-8b").parameters
    8030261248
    """
    if name.endswith(".gguf"):
        from slipstick.workloads.importers.configs.gguf import read_gguf

        return read_gguf(name)
    if name.endswith(".json"):
        from slipstick.workloads.importers.configs.huggingface import read_config

        return read_config(name)
    if name in _documents():
        return _shipped(name)
    if Path(name).is_dir():
        return language_model(str(Path(name) / "config.json"))
    if "/" in name:
        raise InputError(f"{name}: no such file; want a config.json, a .gguf file, or a name")
    raise unknown_name("language model", name, language_model_names())
