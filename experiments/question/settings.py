"""Text and numbers as settings: ``namespace.name=value``, each value in the unit of what it names."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from inspect import signature
from numbers import Real
from typing import Any, SupportsFloat

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import RENAMED, renamed
from slipstick.common.units import parse_quantity
from slipstick.estimators.base.schedule_model import AMOUNTS
from slipstick.estimators.composition.compiled_estimator import NAMESPACES
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import workload as workload_by_name
from slipstick.workloads.graph.workload import Workload

Value = SupportsFloat | str
"""A number in SI units, or a text with its unit."""


HEAD = "machine."
SYNONYMS = {
    "mode": "machine.runtime.mode",
    "engine": "machine.runtime.library",
    "trainer": "machine.runtime.library",
    "clock": "machine.clock",
    "cores": "machine.cores",
    "tp": "run.tensor_parallel",
    "pp": "run.pipeline_parallel",
    "dp": "run.data_parallel",
    "ep": "run.expert_parallel",
    "cp": "run.context_parallel",
}
"""Short options for numbers of the machine and of the run."""
SIZES = {"batch": "decodes", "seq_len": "context"}
"""Words for the sizes of a serving step: sequences that write a token, and the tokens behind them."""
SERVER = (
    *("concurrency", "rate", "num_requests", "length_range", "prefix_hit_rate", "burstiness", "max_batched_tokens"),
    *("max_num_seqs", "memory_share", "replicas", "draft_tokens", "acceptance", "draft_cost"),
)
"""Numbers of a server's run."""
LAYOUT = (
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel", "expert_parallel"),
    *("microbatch", "interleave", "shard", "recompute", "input_rate"),
)
"""Numbers of a training run."""
RUN = ("threads", "images", "epochs", "nodes", "workers", "prefetch", "steps", *SERVER, *LAYOUT)
"""Numbers of a run that options of a command resemble (--threads, --train)."""
MODES = {"graphs": "graph_replay", "graph": "graph_replay"}


def by_namespace(settings: Mapping[str, Value] | Sequence[str]) -> dict[str, dict[str, Value]]:
    """Settings by namespace (machine, workload, run, estimator) and name.

    Raises InputError where a text is no NAMESPACE.NAME=VALUE, a namespace is unknown, a name is set twice, or it is
    what a machine is called.
    """
    spaces_of: dict[str, dict[str, Value]] = {space: {} for space in NAMESPACES}
    if not isinstance(settings, Mapping):
        assigned = assignments(settings, NAMESPACES)
        settings = {f"{space}.{name}": value for space, each in assigned.items() for name, value in each.items()}
    for name, value in settings.items():
        if name == f"{HEAD}name":
            raise InputError(f"{name} = {value}: is no quantity but what rows are known by; extend the file instead")
        space, _, path = name.partition(".")
        if space not in spaces_of or not path:
            raise unknown_name("namespace", space, list(NAMESPACES))
        spaces_of[space][path] = value if isinstance(value, str) else plain_number(name, value)
    return spaces_of


def plain_number(name: str, value: object) -> float | int:
    """A Python number of any kind of number (numpy's too); whole ones stay whole.

    Raises InputError where it is none, or not finite.
    """
    if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
        raise InputError(f"{name} = {value!r}: want a finite number")
    number = float(value)
    return int(number) if number.is_integer() else number


def prices(texts: Sequence[str]) -> dict[str, float]:
    """``namespace.name=number`` texts as one mapping: prices in any one unit, by name."""
    assigned = assignments(texts, NAMESPACES)
    return {
        f"{space}.{name}": number_of(f"{space}.{name}", value)
        for space, entries in assigned.items()
        for name, value in entries.items()
    }


def assignments(texts: Sequence[str], spaces: Sequence[str]) -> dict[str, dict[str, str]]:
    """``namespace.name=value`` texts by namespace.

    Raises InputError where a text has another form, or a name is set twice.
    """
    result: dict[str, dict[str, str]] = {space: {} for space in spaces}
    for text in texts:
        name, value = name_and_value(text)
        space, _, path = name.partition(".")
        if space not in result:
            raise unknown_name("namespace", space, list(spaces))
        if path in result[space]:
            raise InputError(f"{name} is set twice")
        result[space][path] = value
    return result


def name_and_value(text: str) -> tuple[str, str]:
    """The two sides of ``namespace.name=value``.

    Raises InputError where the text has another form.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name.partition(".")[2] or not value:
        raise InputError(f"{text[:60]!r}: want NAMESPACE.NAME=VALUE, such as run.threads=240")
    return name, value


def machine_change(name: str, text: str, machine: Machine) -> float:
    """The value of a machine's field written as text with its unit, in SI.

    Raises InputError where the field is no number, or the text no quantity of it.
    """
    path = name.partition(".")[2]
    machine.get(path)
    changed = machine.using({path: text.strip()}).get(path)
    if isinstance(changed, str):
        raise InputError(f"{name} is a word, which does not vary: ask once for each, --set {name}={text.strip()[:40]}")
    if not isinstance(changed, (int, float)):
        raise InputError(f"{name} is no number; fields that can vary: {', '.join(list(machine.numbers)[:30])}")
    return float(changed)


def run_number(workload: Workload, name: str, value: Value) -> float:
    """A number of the run, or one of the words that the workload has for its values 1, 2, ... (metadata words.NAME).

    Raises InputError where the workload has no such word.
    """
    words = workload.metadata.get(f"words.{name}")
    if not isinstance(value, str) or not isinstance(words, tuple) or value[:1].isdigit():
        return number_of(f"run.{name}", value, AMOUNTS.get(name, "1"))
    if value not in words:
        raise unknown_name(f"value of run.{name}:", value, list(map(str, words)))
    return float(words.index(value) + 1)


def number_of(name: str, text: Value, unit: str = "1") -> float:
    """A finite number, or a text in a unit or with one that converts to it.

    Raises InputError where it is neither.
    """
    if not isinstance(text, str):
        return float(plain_number(name, text))
    if "," in text:
        hint = (
            f" (several: slipstick whatif --vary {name}={text[:60]})"
            if name.startswith(("workload.", "run.", "machine."))
            else ", with a decimal point"
        )
        raise InputError(f"{name} = {text[:60]}: want one value{hint}")
    try:
        value = parse_quantity(text, unit)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    if not math.isfinite(value):
        raise InputError(f"{name} = {text}: want a finite number")
    return value


def machine_changes(words: Mapping[str, str | float] | Sequence[str]) -> dict[str, str | float]:
    """Numbers of the machine from "machine.NAME=VALUE", or by these names.

    Raises InputError where a word is none of these.
    """
    changes: dict[str, str | float] = {}
    pairs = words.items() if isinstance(words, Mapping) else [word.partition("=")[::2] for word in words]
    for name, value in ((name.strip(), value.strip() if isinstance(value, str) else value) for name, value in pairs):
        if not name.startswith(HEAD) or value == "":
            word = f"{name}={value}"[:60].rstrip("=")
            raise InputError(f"{word!r}: want machine.NAME=VALUE, such as machine.memory.HBM3.bandwidth=4TB/s")
        changes[name.removeprefix(HEAD)] = value
    return changes


def setting_of(name: str, sizes: Collection[str]) -> str:
    """The dotted name of a number by its word: ``workload.batch``, of a step of serving ``workload.decodes``.

    >>> [setting_of(name, ["decodes"]) for name in ("batch", "mode", "threads")]
    ['workload.decodes', 'machine.runtime.mode', 'run.threads']
    """
    word = name if name in sizes else SIZES.get(name, name)
    return SYNONYMS.get(name, f"workload.{word}" if word in sizes else f"run.{name}")


def with_numbers(
    function: Callable[..., object],
    settings: Mapping[str, Value] | Sequence[str],
    numbers: Mapping[str, Value],
    workload: str | Workload,
) -> Mapping[str, Value] | Sequence[str]:
    """Settings with numbers that were given by their words, ``batch=8``, as the options of the command line are.

    Raises InputError where a number is set twice, or a word is rather an argument of the function misspelt.
    """
    if not numbers:
        return settings
    graph = workload_by_name(workload) if isinstance(workload, str) else workload
    sizes = {*graph.symbols, *graph.defaults}
    known = [name for name in signature(function).parameters if name != "numbers"]
    made: dict[str, Value] = {}
    for name, value in numbers.items():
        made[setting_of(name, sizes)] = MODES.get(str(value), value) if name == "mode" else value
        if (
            setting_of(name, sizes) == f"run.{name}"
            and name not in {*RUN, *RENAMED}
            and get_close_matches(name, [*known, *sizes])
        ):
            raise unknown_name(f"argument of {function.__name__}", name, [*known, *sorted(sizes)])
    if not isinstance(settings, Mapping):
        return [*settings, *(f"{name}={value}" for name, value in made.items())]
    if twice := sorted(settings.keys() & made.keys()):
        raise InputError(f"{twice[0]} is set twice")
    return {**settings, **made}


def server_numbers(given: Mapping[str, Any] | Sequence[str]) -> Mapping[str, Any] | Sequence[str]:
    """Settings, or what varies, of a server's run with its numbers as they are called today (`RENAMED`).

    Raises InputError where a number is given under both of its names.
    """

    def today(text: str) -> str:
        name, equals, value = text.partition("=")
        space, _, word = name.strip().partition(".")
        return f"run.{renamed(word, SERVER, 'run.')}{equals}{value}" if space == "run" and word in RENAMED else text

    if not isinstance(given, Mapping):
        return list(map(today, given))
    made = {today(name): value for name, value in given.items()}
    if len(made) < len(given):
        raise InputError(f"a number is given under both of its names: {', '.join(given)}")
    return made


def today_and_varied(
    settings: Mapping[str, Any] | Sequence[str], vary: Mapping[str, Any] | Sequence[str]
) -> tuple[Mapping[str, Any] | Sequence[str], Mapping[str, Any] | Sequence[str]]:
    """Settings and axes where a size is set and varies: the set value is today's, as with a number of the run.

    Raises
    ------
    InputError
        Where a name varies twice.

    Examples
    --------
    >>> today_and_varied(["workload.batch=8"], ["workload.batch=1,2"])
    (['run.batch=8'], ['run.batch=1,2'])
    >>> today_and_varied({"workload.batch": 8}, {"run.batch": [1, 2]})
    ({'run.batch': 8}, {'run.batch': [1, 2]})
    """
    axes = [text.partition("=")[0].strip() for text in vary]
    if twice := [name for place, name in enumerate(axes) if name in axes[:place]]:
        raise InputError(f"{twice[0]} varies twice: give all its values once, with commas between them")
    named, varied = {text.partition("=")[0].strip() for text in settings}, set(axes)
    set_sizes = {name.removeprefix("workload.") for name in named if name.startswith("workload.")}
    both = {f"workload.{name}" for name in set_sizes if {f"workload.{name}", f"run.{name}"} & varied}

    def renamed(text: str) -> str:
        name, equals, value = text.partition("=")
        return f"run.{name.strip().removeprefix('workload.')}{equals}{value}" if name.strip() in both else text

    def each(given: Mapping[str, Any] | Sequence[str]) -> Mapping[str, Any] | Sequence[str]:
        if isinstance(given, Mapping):
            return {renamed(name): value for name, value in given.items()}
        return list(map(renamed, given))

    return each(settings), each(vary)
