"""Requests of one user: under which program, and in which type of weights, their machine would answer them."""

from __future__ import annotations

from collections.abc import Collection

from slipstick.estimators.engine_steps.fitted_steps import LLAMA_CPP, engine_on, is_llama_cpp, names_server
from slipstick.estimators.serving.llama_cpp_run import as_stored
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.weight_types import stored_as

CROWD = frozenset({"concurrency", "rate"})
"""Numbers of the run by which somebody means a server of several."""


def runs_locally(model: LanguageModel, machine: Machine, dtype: str | None) -> str:
    """llama.cpp, as the runtime calls it, where one user of the machine would run the model under it; else "".

    A runtime that names an engine decides; else weights as GGUF files store them, and Apple's machines, run under it.
    Raises InputError where nothing stores weights in the type.
    """
    if is_llama_cpp(machine.runtime.library):
        return machine.runtime.library
    if names_server(machine):
        return ""
    return LLAMA_CPP if is_llama_cpp(engine_on(machine, stored_as(model, dtype))) else ""


def for_one_user(
    model: LanguageModel, machine: Machine, dtype: str | None, numbers: Collection[str]
) -> tuple[str, str | None]:
    """The program that one user runs there and how it stores weights; "" and `dtype` where a server answers.

    `numbers`: names of the numbers of the run that are given or vary.
    Raises InputError where nothing stores weights in the type.
    """
    if CROWD & set(numbers) and not is_llama_cpp(machine.runtime.library):
        return "", dtype
    library = runs_locally(model, machine, dtype)
    return library, as_stored(model, dtype) if library else dtype
