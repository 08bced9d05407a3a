"""What the fitted files say of a step under an engine on a machine; `estimate`, `serve` and plans all ask here.

An engine is part of the machine's runtime (`runtime.library`, such as "vllm 0.19.0"); what was fitted of its version,
of the machine's maker, generation and chip and of the model enters as effects of groups.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from slipstick.common.errors import InputError
from slipstick.estimators.base.conditions import UNMEASURED, Condition, omitted_conditions, widening
from slipstick.estimators.engine_steps.engines import UNNAMED, ServingFit, engine_condition, engine_of, step_groups
from slipstick.estimators.engine_steps.llama_cpp_fit import LocalFit
from slipstick.estimators.engine_steps.llama_cpp_step import backend_of, local_groups, memory_of
from slipstick.estimators.engine_steps.step_law import StepSum
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import UNGROUPED
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.weight_types import is_gguf

LLAMA_CPP, USUAL = "llama.cpp", "vllm"
MACHINE, OF_MACHINE = "machine", ("vendor", "stack", "generation", "chip")
"""The condition that no row is of a machine, and the levels of the law that say so."""


@cache
def serving_fit() -> ServingFit:
    """Steps and first tokens of servers, as they ship."""
    return ServingFit.of(load_fitted("serving"))


@cache
def local_fit(backend: str) -> LocalFit:
    """Tokens of llama.cpp on a backend, as they ship."""
    return LocalFit.of(load_fitted("llama-cpp").fits, backend)


def engine_on(machine: Machine, stored: str) -> str:
    """The engine that the machine's runtime names, with its version; where it names none, the usual one.

    Weights as GGUF files store them, and Apple's machines, run under llama.cpp; all others under vLLM.
    """
    if is_llama_cpp(machine.runtime.library):
        return machine.runtime.library
    local = is_gguf(stored) or backend_of(machine.family) == "metal"
    return LLAMA_CPP if local and not names_server(machine) else server_on(machine)


def server_on(machine: Machine) -> str:
    """The engine of a server that the machine's runtime names, else the usual one."""
    return machine.runtime.library if names_server(machine) else USUAL


def names_server(machine: Machine) -> bool:
    """Whether the machine's runtime names an engine of servers that was measured."""
    return is_server(machine.runtime.library)


def is_server(library: str) -> bool:
    """Whether words name an engine of servers that was measured."""
    try:
        engine_of(library)
    except InputError:
        return False
    return True


def is_llama_cpp(engine: str) -> bool:
    """Whether words mean llama.cpp."""
    return engine.strip().lower().startswith(("llama.cpp", "llama-cpp", "llamacpp"))


def groups_on(
    machine: Machine, engine: str, model: str, weights: float, stored: str, *, named: bool = True
) -> dict[str, str]:
    """The groups of a step of a server: maker, generation and chip, engine and version, weights, model.

    `weights`: of the model, that a token meets: one of as many that was fitted under another name stands for it.
    `stored`: how its weights are stored.
    `named`: whether somebody said the engine.
    Raises InputError where the engine is not known.
    """
    known = serving_fit().steps
    name, version = engine_of(engine) if named else (UNNAMED, "")
    chip = chip_among(known.seen("chip"), machine)
    return step_groups(machine, chip, name, version, _model_among(known.seen("model"), model, weights), stored)


def local_groups_on(machine: Machine, stored: str, backend: str = "") -> dict[str, str]:
    """The groups of a token under llama.cpp: as `local_groups` has them."""
    fitted = local_fit(backend or backend_of(machine.family))
    chips = fitted.generating.made.seen("chip") | fitted.prompting.made.seen("chip")
    chip, memory = chip_among(chips, machine), memory_of(machine)
    return local_groups(machine.family, chip, stored, LLAMA_CPP, backend=fitted.backend, memory=memory)


def unseen_machine(machine: Machine, groups: Mapping[str, str], fitted: ServingFit) -> list[Condition]:
    """That no server on such a machine was measured; none where one was."""
    name = machine.name
    levels = {"vendor": f"{name}, none of its maker", "generation": f"{name}, none of its generation", "chip": name}
    unseen = next((words for level, words in levels.items() if not fitted.knows(groups, level)), "")
    if unseen:
        return [
            Condition(MACHINE, f"no measured row is of {unseen}: its data sheet under parameters of others", UNMEASURED)
        ]
    model = next((one for level in levels if (one := fitted.only_model(groups, level))), "")
    return [Condition(MACHINE, f"no measured row is of {name} but those of {model}", UNMEASURED)] if model else []


def step_conditions(
    fitted: ServingFit, row: StepSum, groups: Mapping[str, str], named: Condition, machine: Machine,
    left_out: Sequence[tuple[str, float]],
) -> tuple[Condition, ...]:  # fmt: skip
    """What makes the band of a step's log time wider: engine, machine, what a file omits.

    `named`: the engine as it was named.
    `left_out`: in words, with the factor by which the time may be off for each.
    """
    omitted, engine = omitted_conditions(left_out), engine_condition(fitted, groups, named, row)

    def width(without: Collection[Condition]) -> float:
        gone = dict.fromkeys(_levels_of(fitted, groups, without), UNGROUPED)
        known = fitted.under_each(groups).values() if engine in without and engine.origin == "unknown" else ()
        half = max(fitted.half_width(row, {**one, **gone}) for one in known or [groups])
        return math.hypot(half, *(math.log(off) for one, off in omitted.items() if one not in without))

    return widening([engine, *unseen_machine(machine, groups, fitted), *omitted], width)


def _levels_of(fitted: ServingFit, groups: Mapping[str, str], conditions: Collection[Condition]) -> list[str]:
    """The levels by which these conditions widen a band: a release, and what is unseen of a machine."""
    names = {one.name for one in conditions}
    of_machine = [level for level in groups if level in OF_MACHINE or level.endswith(" on generation")]
    unseen = [at for at in of_machine if not fitted.knows(groups, at) or fitted.only_model(groups, at)]
    return [*(["version"] if "engine" in names else []), *(unseen if MACHINE in names else [])]


def chip_among(names: Collection[str], machine: Machine) -> str:
    """The name among those fitted of a board of the same family, cores and memory, whatever was set of it since; else
    its own.

    Names that the catalogue lacks stand for nothing but themselves.
    """
    from slipstick.hwmodels.catalog import machine as machine_by_name
    from slipstick.hwmodels.catalog import machine_names

    made = {name: machine_by_name(name) for name in sorted(set(names) & set(machine_names()))}
    alike = [
        name
        for name, measured in made.items()
        if (measured.family, measured.cores, measured.main_memory)
        == (machine.family, machine.stated.cores, machine.main_memory)
    ]
    itself = (name for name in alike if made[name].name == machine.name)
    return next(itself, alike[0] if alike else machine.name)


def _model_among(names: Collection[str], model: str, weights: float) -> str:
    if model in names:
        return model
    from slipstick.workloads.language_catalog import language_model

    # a gate of one column, which a graph may leave out, is less than the tolerance
    alike = (name for name in sorted(names) if math.isclose(language_model(name).multiplied, weights, rel_tol=1e-4))
    return next(alike, model)
