"""Your own estimator, by MODULE:ATTRIBUTE: code that is run because you named it yourself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.trusted_code import TrustedName, announce, code_refused, found_here, is_own, is_trusted
from slipstick.estimators.base.shipped_estimator import ShippedEstimator
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import work_named
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.importers.torch.arguments import Input, Inputs, as_text

NOT_MODULES = ("pagerank", "decode", "prompt", "serve", "train")
"""Words before a colon that name no module of Python."""

OPTIMIZER = "sgd"
"""With which a program trains where nobody names another."""
PLACES = {"batch": 0, "batch_size": 0, "seq_len": 1}
"""Sizes that people ask for by name, and where they stand in the shape of an input."""


def own_factory(name: str) -> Callable[[], object]:
    """The function that MODULE:FACTORY is, such as one that makes an executor; modules of the current folder too.

    What is imported is reported on standard error.
    Raises InputError where there is none, or importing it fails.
    """
    factory: Callable[[], object] = _callable(name, "MODULE:FACTORY", "want a function without arguments")
    return factory


def own_function(name: str) -> Callable[..., Any]:
    """The function that MODULE:FUNCTION is, such as a predictor; as `own_factory`, but it takes arguments."""
    return _callable(name, "MODULE:FUNCTION", "want a function")


def _callable(name: str, form: str, want: str) -> Callable[..., Any]:
    with code_refused(f"{name!r}: want {form}"):
        attribute_value: Any = found_here(name)
    if not callable(attribute_value):
        raise InputError(f"{name!r}: a {type(attribute_value).__name__} cannot be called: {want}")
    function: Callable[..., Any] = attribute_value
    return function


def own_object(name: str, place: str) -> object:
    """The record that MODULE:ATTRIBUTE is, or one that the class of this name makes; modules of the current folder too.

    `place`: the file and its field, for messages.
    Raises InputError where the name came from a file alone, there is none, or it fails.
    """
    with code_refused(f"{place} = {name!r}"):
        made = found_here(name)
        return made() if isinstance(made, type) else made


def own_record(name: str) -> ShippedEstimator:
    """The record that MODULE:ATTRIBUTE is, or one around the estimator that it is or makes.

    What is imported is reported on standard error; modules of the current folder count too.
    Raises InputError where the name came from a file, there is none, it fails, or it has no `estimate`.
    """
    made = _imported(name)
    return made if isinstance(made, ShippedEstimator) else ShippedEstimator(name, lambda: made, purpose="your own")


def _imported(name: str) -> Any:
    want = "want MODULE:ATTRIBUTE, an estimator, a record of one or a function that returns one"
    with code_refused(f"estimator {name!r}: {want}"), redirect_stdout(sys.stderr):
        made = found_here(name)
        is_made = hasattr(made, "estimate") or isinstance(made, ShippedEstimator)
        made = made() if callable(made) and not is_made else made
    if isinstance(made, type):
        raise InputError(f"estimator {name!r}: is the class {made.__name__}; want one of it: a function or an object")
    if not isinstance(made, ShippedEstimator) and not callable(getattr(made, "estimate", None)):
        raise InputError(f"estimator {name!r}: a {type(made).__name__} has no estimate(workload, machine, run)")
    return made


def is_own_program(name: str) -> bool:
    """Whether a workload's name is MODULE:FUNCTION or FILE.py:FUNCTION, which is run: identifiers on both sides."""
    module, colon, function = name.rpartition(":")
    if module.endswith(".py"):
        return function.isidentifier()
    dotted = all(part.isidentifier() for part in (*module.split("."), function))
    return bool(colon) and dotted and module not in NOT_MODULES


def own_or_none(
    name: str,
    machines: Sequence[str],
    inputs: Sequence[str] = (),
    train: str | None = None,
    numbers: Sequence[str] = (),
) -> Workload | None:
    """`own_program` where the name is one; None for other names, which have neither inputs nor an optimizer.

    `machines`: those of the question: no code is run where none of them is known.
    Raises InputError as `own_program`, where no machine is known, or inputs or an optimizer are given to another
    workload.
    """
    if is_own_program(name):
        _require_one_known(machines)
        return own_program(name, inputs, train, numbers)
    if inputs or train:
        raise InputError(f"{name!r}: --input and --train are of a torch program: FILE.py:FUNCTION")
    return None


def of_work(name: TrustedName, work: str | None, train: str | None) -> tuple[TrustedName, str | None]:
    """The workload that a name and a work mean together, and the optimizer with which a program of one's own trains.

    Raises InputError where they do not go together.
    """
    if work is None:
        return name, train
    if not is_own_program(name):
        return TrustedName(work_named(name, work)), train
    if work not in ("train", "forward"):
        raise InputError(f"{name!r} has no work {work!r} (--work): it has forward, train")
    if work == "forward" and train:
        raise InputError(f"--work forward and --train {train}: a forward pass has no optimizer; give one of them")
    return name, (train or OPTIMIZER) if work == "train" else None


def own_workload(
    workload: str | Workload,
    machine: str | Machine,
    input: Sequence[str] = (),  # noqa: A002
    train: str | None = None,
    allow_code: Sequence[str] = (),
    work: str | None = None,
) -> str | Workload:
    """The torch program that a workload's text names, where it names one that is trusted; else the workload as it is.

    Raises InputError where code is named that is not trusted, or as `own_or_none`.
    """
    if not isinstance(workload, str | Workload):
        raise InputError(
            f"workload: a {type(workload).__name__}: want a name, a Workload, or 'FILE.py:FUNCTION' with "
            "allow_code=[...]; of a torch module ss.import_torch(module, inputs) makes a Workload"
        )
    if not isinstance(workload, str):
        if input or train:
            raise InputError(f"{workload.name}: input and train are of a torch program: FILE.py:FUNCTION")
        if work is not None:
            work_named(workload, work)
        return workload
    if isinstance(allow_code, bool):
        raise InputError(
            f"allow_code = {allow_code}: want the names of the code that may run, allow_code=[{workload!r}]"
        )
    if is_own_program(workload) and workload not in allow_code:
        raise InputError(
            f"{workload!r} would import your or somebody's code and run it: if you trust it, allow_code=[{workload!r}]"
        )
    machines = [machine] if isinstance(machine, str) else []
    named, train = of_work(TrustedName(workload), work, train)
    return own_or_none(named, machines, input, train) or str(named)


def _require_one_known(machines: Sequence[str]) -> None:
    unknown: list[InputError] = []
    for name in machines:
        try:
            machine_by_name(name)
        except InputError as error:
            unknown.append(error)
    if unknown and len(unknown) == len(machines):
        raise InputError("; ".join(map(str, unknown)))


def own_program(
    name: str, inputs: Sequence[str] = (), train: str | None = None, numbers: Sequence[str] = ()
) -> Workload:
    """The forward pass of the torch program that MODULE:FUNCTION builds, or with an optimizer its training step.

    Imports are reported on standard error.

    `inputs`: as text, ``batch,3,224,224`` or ``input_ids=batch,seq_len:int64``; those that the function returns
        without. Names have the sizes of those that it returns as defaults, where it returns some.
    `numbers`: texts NAME=VALUE that were typed: a batch or a length among them must be a named size of the inputs.
    Raises InputError where there is none, it fails, torch is not installed, or the inputs fix a size that a number
    would set.
    """
    from slipstick.workloads.importers.torch.named_program import folder_of, sized_model, with_sizes
    from slipstick.workloads.importers.torch.program_watch import cached_program

    folder_of(name)

    def record() -> tuple[Workload, Inputs]:
        from slipstick.workloads.importers.torch.importer import import_torch

        if is_trusted(name):
            announce(str(name))
        label = name.rpartition(":")[2]
        model, shapes, sizes = sized_model(name, inputs)
        _refuse_fixed(name, shapes, numbers)
        _hint_at_names(shapes)
        if train is None:
            recorded = import_torch(model, shapes, label, purpose="inference")
        else:
            recorded = import_torch(model, shapes, label, purpose="training", optimizer=train)
        return with_sizes(recorded, sizes), shapes

    typed = (text.partition("=")[0].removeprefix("workload.") for text in numbers)
    return cached_program(name, [train, *inputs], [size for size in typed if size in PLACES], record)


def _hint_at_names(shapes: Inputs) -> None:
    """A line on standard error for each size whose name is nearly one that answers know by its meaning."""
    given = shapes.values() if isinstance(shapes, Mapping) else shapes
    for size in sorted({size for one in given for size in one.shape if isinstance(size, str)} - set(PLACES)):
        if near := get_close_matches(size, PLACES, 1):
            known = f"known by its meaning: {', '.join(PLACES)}"
            text = f"--input: {size!r} is a size of your own; did you mean {near[0]!r}? ({known})"
            print(f"slipstick: {text}", file=sys.stderr)


def _refuse_fixed(name: str, shapes: Inputs, numbers: Sequence[str]) -> None:
    """Refuses a batch or a length where the inputs have no size of that name: before tracing, which takes long."""
    named = isinstance(shapes, Mapping)
    given = list(shapes.items()) if isinstance(shapes, Mapping) else [("", one) for one in shapes]
    for text in numbers:
        typed, _, value = text.partition("=")
        size = typed.removeprefix("workload.")
        if not value or size not in PLACES or any(size in one.shape for _, one in given):
            continue
        place = PLACES[size]
        texts = []
        for key, one in given:
            opened = Input(tuple(size if at == place else known for at, known in enumerate(one.shape)), one.dtype)
            texts.append(f"--input {f'{key}=' if named else ''}{as_text(opened)}")
        option = f"--{size.replace('_', '-')} {value}" if typed == size else text
        again = f" {option}" if typed == size else ""
        raise InputError(f"{option}: the inputs of {name} have fixed sizes; name it: {' '.join(texts)}{again}")


def code_digest(name: str | None) -> str:
    """Digest of the module's source, so that a study answered by other code is another study; "" for built-in ones."""
    if name is None or not is_own(name):
        return ""
    source = getattr(sys.modules.get(name.partition(":")[0]), "__file__", None)
    return sha256(Path(source).read_bytes()).hexdigest() if source else ""
