"""Questions of one user's model under llama.cpp: names, files and measured runs in, a `Local` out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.engine_steps.fitted_steps import LLAMA_CPP, is_llama_cpp
from slipstick.estimators.serving.llama_cpp_run import Local, as_stored
from slipstick.experiments.calibrate.measured_files import LOCAL
from slipstick.experiments.calibrate.measured_serving import AnchorRun, require_possible
from slipstick.experiments.question.one_user import runs_locally
from slipstick.experiments.question.settings import HEAD, Value
from slipstick.experiments.question.unused_inputs import AnswerNumbers, unused_of
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.importers.formats.registry import identify
from slipstick.workloads.language_catalog import language_model

READ = {"model", "on", "machine", "engine", "dtype", "input_tokens", "output_tokens", "measured", "format", "set"}
"""What the answer for one user reads."""
ALONE: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("concurrency", "devices", "tp", "pp", "dp", "ep", "replicas", "max_num_seqs"), (1,)),
    **dict.fromkeys(("prefill_workers", "draft_tokens", "length_range", "prefix_hit_rate"), (0,)),
    "cache_dtype": ("auto", "fp16"),
}
"""Values of other options that mean one user on one device, its lengths as given, as that answer has it."""
LIBRARY = "runtime.library"
UNVARIED = ("limit", "host_power", "pue", "grid_intensity", "out", "timeline", "report")
"""What a comparison of servers does not read."""


def unread_by_one_user(name: str, value: object) -> bool:
    """Whether an option with this value says something that the answer for one user does not read."""
    return name not in {*READ, "settings"} and value not in ALONE.get(name, ())


def local(
    model: str,
    machine: Machine,
    dtype: str | None,
    input_tokens: int,
    output_tokens: int,
    anchor: str | None,
    changes: Mapping[str, str | float] = FrozenDict(),
) -> Local:
    """The answer for one user's machine, with what of the machine it does not read.

    `changes`: numbers of the machine by dotted name, in SI units or with units as text.
    Raises InputError where the model does not fit, the anchor is none, or the machine is to run another program.
    """
    one = language_model(model)
    library = str(changes.get(LIBRARY, LLAMA_CPP))
    if not is_llama_cpp(library):
        raise InputError(f"machine.{LIBRARY} = {library}: llama.cpp answers here; give one of --engine and --set")
    known = AnchorRun.parse(anchor) if anchor else None
    if known is not None:
        require_possible(known, machine)

    def made(given: Mapping[str, Value]) -> Local:
        changed = machine.using({name.removeprefix(HEAD): value for name, value in given.items()})
        result = Local(one, changed, as_stored(one, dtype), input_tokens, output_tokens, known, stood=machine)
        result.check()
        return result

    given = {f"{HEAD}{name}": value for name, value in changes.items()}
    answer = made(given)
    settable = {name: value for name, value in given.items() if name != f"{HEAD}{LIBRARY}"}
    unused, read = unused_of(settable, lambda some: AnswerNumbers.of_estimate(made(some).estimate()), answer.machine)
    return replace(answer, given=read, not_used=unused)


def local_engine(
    model: str,
    machine: str,
    dtype: str | None,
    changes: Mapping[str, str | float],
    measured: str | None,
    *,
    crowd: bool,
) -> str | None:
    """llama.cpp, as the runtime calls it, where one user of the machine would run the model under it; else None.

    `changes`: numbers of the machine by dotted name, in SI units or with units as text.
    `measured`: what was measured, if anything: what llama-bench prints was measured under llama.cpp.
    `crowd`: whether users or a rate are given, which mean a server unless the machine's runtime is llama.cpp.
    """
    if measured and Path(measured).is_file() and (kind := identify(measured)) and kind.key == LOCAL:
        return LLAMA_CPP
    at = machine_by_name(machine).using(dict(changes))
    if crowd:
        return at.runtime.library if is_llama_cpp(at.runtime.library) else None
    return runs_locally(language_model(model), at, dtype) or None
