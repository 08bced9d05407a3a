"""Questions of one user's model under llama.cpp: names, files and measured runs in, a `Local` out."""

from __future__ import annotations

from collections.abc import Mapping

from slipstick.estimators.engine_steps.fitted_steps import is_llama_cpp
from slipstick.estimators.serving.llama_cpp_run import Local, as_stored
from slipstick.experiments.calibrate.measured_serving import AnchorRun, require_possible
from slipstick.experiments.question.one_user import runs_locally
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language_catalog import language_model

READ = {"model", "on", "machine", "engine", "dtype", "input_tokens", "output_tokens", "measured", "format", "set"}
"""What the answer for one user reads."""
ALONE: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("concurrency", "devices", "tp", "pp", "dp", "ep", "replicas", "max_num_seqs"), (1,)),
    **dict.fromkeys(("prefill_workers", "draft_tokens", "length_range", "prefix_hit_rate"), (0,)),
    "cache_dtype": ("auto", "fp16"),
}
"""Values of other options that mean one user on one device, its lengths as given, as that answer has it."""
UNVARIED = ("limit", "host_power", "pue", "grid_intensity", "out", "timeline", "report")
"""What a comparison of servers does not read."""


def unread_by_one_user(name: str, value: object) -> bool:
    """Whether an option with this value says something that the answer for one user does not read."""
    return name not in {*READ, "settings"} and value not in ALONE.get(name, ())


def local(
    model: str, machine: Machine, dtype: str | None, input_tokens: int, output_tokens: int, anchor: str | None
) -> Local:
    """The answer for one user's machine.

    Raises InputError where the model does not fit, or the anchor is none.
    """
    one = language_model(model)
    known = AnchorRun.parse(anchor) if anchor else None
    if known is not None:
        require_possible(known, machine)
    result = Local(one, machine, as_stored(one, dtype), input_tokens, output_tokens, known)
    result.check()
    return result


def local_engine(
    model: str, on: str, dtype: str | None, changes: Mapping[str, str | float], *, crowd: bool
) -> str | None:
    """llama.cpp, as the runtime calls it, where one user of the machine would run the model under it; else None.

    `changes`: numbers of the machine by dotted name, in SI units or with units as text.
    `crowd`: whether users or a rate are given, which mean a server unless the machine's runtime is llama.cpp.
    """
    at = machine_by_name(on).using(dict(changes))
    if crowd:
        return at.runtime.library if is_llama_cpp(at.runtime.library) else None
    return runs_locally(language_model(model), at, dtype) or None
