"""The tunable calls of an input pipeline, found by running it: workers, buffers, batches of calls, order of maps.

While a program is instrumented, calls of `TUNABLE` that its own code makes are noted with the place they stand at, and
get other values where some are set. Nothing of the program is rewritten; other code's calls stay as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from inspect import Signature, signature
from itertools import islice, permutations
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from slipstick.experiments.methods.tuning.tuner import Knob

Kind = Literal["workers", "buffer", "batch", "order"]
MOST_ORDERS = 24
BETWEEN = ("multiprocessing/context.py", "multiprocessing/pool.py")
"""Files of the standard library that stand between a program's call and the class that it makes."""


@dataclass(frozen=True)
class TunableCall:
    """A parameter of a call that changes how fast data come, not what comes; modules are not imported for it."""

    module: str
    owner: str
    method: str
    parameter: str
    kind: Kind


TUNABLE = (
    TunableCall("torch.utils.data", "DataLoader", "__init__", "num_workers", "workers"),
    TunableCall("torch.utils.data", "DataLoader", "__init__", "prefetch_factor", "buffer"),
    TunableCall("concurrent.futures", "ThreadPoolExecutor", "__init__", "max_workers", "workers"),
    TunableCall("concurrent.futures", "ProcessPoolExecutor", "__init__", "max_workers", "workers"),
    TunableCall("concurrent.futures", "ProcessPoolExecutor", "map", "chunksize", "batch"),
    TunableCall("multiprocessing.pool", "Pool", "__init__", "processes", "workers"),
    TunableCall("multiprocessing.pool", "ThreadPool", "__init__", "processes", "workers"),
    TunableCall("multiprocessing.pool", "Pool", "imap", "chunksize", "batch"),
    TunableCall("multiprocessing.pool", "Pool", "map", "chunksize", "batch"),
    TunableCall("queue", "Queue", "__init__", "maxsize", "buffer"),
    TunableCall("torchvision.transforms", "Compose", "__init__", "transforms", "order"),
    TunableCall("tensorflow.data", "Dataset", "prefetch", "buffer_size", "buffer"),
    TunableCall("tensorflow.data", "Dataset", "shuffle", "buffer_size", "buffer"),
    TunableCall("tensorflow.data", "Dataset", "map", "num_parallel_calls", "workers"),
    TunableCall("tensorflow.data", "Dataset", "interleave", "num_parallel_calls", "workers"),
)
OWNERS = frozenset(call.owner for call in TUNABLE)
WORDS: Mapping[Kind, tuple[str, ...]] = {
    "batch": ("chunk", "map_batch", "batched_calls"),
    "workers": ("workers", "threads", "processes", "parallel"),
    "buffer": ("buffer", "prefetch", "queue", "shuffle", "ahead"),
    "order": ("order", "maps", "transforms"),
}
"""Words in the names of a pipeline function's own parameters that show what they are."""


@dataclass(frozen=True)
class Tunable:
    """A tunable value of a program: where it stands, what it is, and the value that the program gives it."""

    name: str
    kind: Kind
    value: Any


@contextmanager
def instrumented(folder: Path, settings: Mapping[str, Any]) -> Iterator[dict[str, Tunable]]:
    """Calls made by files in `folder` get the values of `settings` by their names; gives what is found meanwhile."""
    values: dict[str, Tunable] = {}
    methods: dict[tuple[str, str, str], list[TunableCall]] = {}
    for call in TUNABLE:
        methods.setdefault((call.module, call.owner, call.method), []).append(call)
    with ExitStack() as undo:
        for (module, name, method), calls in methods.items():
            if module.partition(".")[0] not in sys.modules:
                continue
            try:
                owner = getattr(import_module(module), name)
            except (ImportError, AttributeError):
                continue
            original = owner.__dict__.get(method)
            if original is None or not callable(original):
                continue
            setattr(owner, method, _noting(original, calls, folder, settings, values))
            undo.callback(setattr, owner, method, original)
        yield values


def _noting(
    original: Callable[..., Any],
    calls: Sequence[TunableCall],
    folder: Path,
    settings: Mapping[str, Any],
    values: dict[str, Tunable],
) -> Callable[..., Any]:
    form = signature(original)
    owner, method = calls[0].owner, calls[0].method

    def noted(*args: Any, **kwargs: Any) -> Any:
        place = _place(sys._getframe(1), folder)
        inner = method == "__init__" and type(args[0]).__name__ in OWNERS - {owner}
        if place is None or inner:
            return original(*args, **kwargs)
        bound = form.bind(*args, **kwargs)
        for call in calls:
            name = f"{place} {owner}{'' if method == '__init__' else '.' + method}.{call.parameter}"
            value = bound.arguments.get(call.parameter, _default(form, call.parameter))
            values.setdefault(name, Tunable(name, call.kind, tuple(value) if call.kind == "order" else value))
            if name in settings and _means_something(call, bound.arguments):
                bound.arguments[call.parameter] = settings[name]
        return original(*bound.args, **bound.kwargs)

    return noted


def _default(form: Signature, parameter: str) -> Any:
    entry = form.parameters.get(parameter)
    return None if entry is None or entry.default is entry.empty else entry.default


def _means_something(call: TunableCall, arguments: Mapping[str, Any]) -> bool:
    """A loader without workers has nothing to fetch ahead, and refuses a number to fetch."""
    return call.parameter != "prefetch_factor" or bool(arguments.get("num_workers"))


def _place(frame: FrameType | None, folder: Path) -> str | None:
    """FILE:LINE of the call where the program's own code makes it; None for other code."""
    while frame is not None and frame.f_code.co_filename.replace("\\", "/").endswith(BETWEEN):
        frame = frame.f_back
    if frame is None:
        return None
    path = Path(frame.f_code.co_filename)
    if folder != path.parent and folder not in path.parents:
        return None
    return None if "site-packages" in path.parts else f"{path.name}:{frame.f_lineno}"


def own_parameters(build: Callable[..., Any]) -> dict[str, Tunable]:
    """Parameters of a pipeline function whose names and defaults say that they can be tuned."""
    parameters = {}
    for name, parameter in signature(build).parameters.items():
        kind = next((kind for kind, words in WORDS.items() if any(word in name.lower() for word in words)), None)
        value = parameter.default
        sequence = isinstance(value, (tuple, list)) and 2 <= len(value) <= 5
        number = isinstance(value, int) and not isinstance(value, bool)
        if kind is not None and (sequence if kind == "order" else number):
            parameters[name] = Tunable(name, kind, tuple(value) if kind == "order" else value)
    return parameters


def knob_of(noted: Tunable, cores: int) -> Knob | None:
    """The values to try for a tunable value, its own among them; None where there is but one."""
    if noted.kind == "order":
        orders = list(islice(permutations(noted.value), MOST_ORDERS))
        return Knob(noted.name, tuple(orders), noted.value)
    today = noted.value if isinstance(noted.value, int) else None
    if noted.kind == "workers":
        numbers = {number for number in (1, 2, 4, 8, 16) if number <= max(4, 2 * cores)}
        numbers |= {0} if noted.name.endswith("num_workers") else set()
    elif noted.kind == "batch":
        numbers = {1, 4, 16, 64}
    else:
        numbers = {1, 2, 4, 8, 16} | ({today // 4, today // 2, 2 * today, 4 * today} if today else set())
        numbers.discard(0)
    values: list[Any] = sorted(numbers | ({today} if today is not None else set()))
    return Knob(noted.name, (None, *values) if today is None else tuple(values), today)
