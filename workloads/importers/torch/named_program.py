"""Torch models by the name of a function of yours that builds them, and inputs as text: one loader for every verb."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import torch
from slipstick.common.readers import whole_number
from slipstick.common.records import FrozenDict
from slipstick.common.trusted_code import import_own
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.importers.torch.arguments import Input, Inputs, described, without_constants

LAYERS = ("slipstick", "hwmodels", "workloads", "estimators", "experiments")


def build_by_name(target: str, *, values: bool = True) -> tuple[Any, Inputs | None]:
    """What ``MODULE:FUNCTION`` builds: a model, and its inputs where it returns ``(model, (tensor, ...))``.

    Numbers among its inputs stay what they are. `values`: whether parameters get theirs, as where the model is run.

    This is your own code, and it is run; modules of the current folder are found. A name from a file is refused.
    Raises InputError where there is no such function, it fails, or it returns something else.
    """
    sys.path.insert(0, str(folder_of(target)))
    try:
        make = import_own(target)
        built = make() if values else _without_values(make)
    except InputError:
        raise
    except Exception as error:  # whatever the function raises is the user's to read
        raise InputError(
            f"{target!r}: want MODULE:FUNCTION that builds a model or (model, inputs): {own_failure(error)}"
        ) from error
    finally:
        sys.path.pop(0)
    model, example = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
    if not callable(model):
        raise InputError(f"{target!r}: returns {type(model).__name__}, want a model or (model, inputs)")
    if isinstance(example, (tuple, list, Mapping)):
        model, example = without_constants(model, example)
    return model, described(example, f"{target!r}") if example is not None else None


RANDOM_FILLS = ("uniform_", "normal_", "trunc_normal_", "kaiming_uniform_", "kaiming_normal_", "xavier_uniform_")
"""What modules fill their parameters with; `xavier_normal_` calls `normal_`."""


def _without_values(make: Callable[[], Any]) -> Any:
    """What a function builds; parameters get no random numbers, since nothing that is recorded reads a value.

    A large network is otherwise built for longer than it is recorded. Where that fails, as where a builder looks at
    its weights, it is built once more with them.
    """
    if "torch" not in sys.modules:
        return make()
    try:
        with _parameters_unfilled():
            return make()
    except Exception:  # raised again by the second call if it is not of ours
        return make()


@contextmanager
def _parameters_unfilled() -> Iterator[None]:
    """Parameters are neither filled with random numbers nor copied with their values."""
    from torch.overrides import TorchFunctionMode

    class Unfilled(TorchFunctionMode):  # type: ignore[misc]  # untyped where torch is not installed
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if args and isinstance(args[0], torch.nn.Parameter) and getattr(func, "__name__", "") in RANDOM_FILLS:
                return args[0]
            return func(*args, **(kwargs or {}))

    def copied(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(torch.empty_like(self.data), self.requires_grad)
        return memo[id(self)]

    before = torch.nn.Parameter.__deepcopy__
    torch.nn.Parameter.__deepcopy__ = copied
    try:
        with Unfilled():
            yield
    finally:
        torch.nn.Parameter.__deepcopy__ = before


def folder_of(target: str) -> Path:
    """Where ``MODULE:FUNCTION`` or ``FILE.py:FUNCTION`` is imported from: the current folder, or that of the file.

    Raises InputError where there is no such file.
    """
    module_name = target.rpartition(":")[0]
    if not module_name.endswith(".py"):
        return Path.cwd()
    file = Path(module_name)
    if not file.is_file():
        raise InputError(f"{target!r}: no file {module_name}")
    return file.resolve().parent


def own_failure(error: BaseException) -> str:
    """An error that a user's code raised: what it says, and the last line of that code on the way to it."""
    message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        message += " (pip install 'slipstick[torch]')"
    if "not compiled with CUDA" in message or "NVIDIA driver" in message:
        message += " (build it on the CPU, or under torch.device('meta'): nothing is computed)"
    if isinstance(error, SyntaxError):
        return message
    here = [frame for frame in extract_tb(error.__traceback__) if _is_own(frame.filename)]
    return f"{message} at {Path(here[-1].filename).name}:{here[-1].lineno}: {here[-1].line}" if here else message


def raised_in_own(error: BaseException) -> bool:
    """Whether code of the user raised an error, or called what did: it stands behind all of this package on the way."""
    for frame in reversed(extract_tb(error.__traceback__)):
        if _is_own(frame.filename):
            return True
        if _is_ours(Path(frame.filename)):
            return False
    return False


def _is_own(filename: str) -> bool:
    """Whether a file is the user's: no library, nothing of Python, nothing of this package."""
    path = Path(filename)
    return path.suffix == ".py" and not (
        {"site-packages", "dist-packages"} & set(path.parts)
        or path.is_relative_to(Path(sysconfig.get_path("stdlib")))
        or _is_ours(path)
    )


def _is_ours(path: Path) -> bool:
    root = Path(__file__).resolve().parents[3]
    return any(path.resolve().is_relative_to(root / layer) for layer in LAYERS)


def inputs_from_text(shapes: Sequence[str]) -> Inputs:
    """Inputs such as ``batch,3,224,224`` or ``input_ids=batch,seq_len:int64``.

    Raises InputError where one cannot be read, or some are named and some are not.
    """

    positional: list[Input] = []
    named: dict[str, Input] = {}
    for text in shapes:
        name, _, rest = text.rpartition("=")
        sizes, _, dtype = rest.partition(":")
        parts = [part.strip() for part in sizes.split(",")]
        if not all(part.isidentifier() or whole_number(part) for part in parts):
            raise InputError(f"input {text!r}: want sizes >= 1 or names with commas between, as batch,3,224,224")
        if not isinstance(getattr(torch, dtype or "float32", None), torch.dtype):
            raise InputError(f"input {text!r}: {dtype[:40]!r} is no type of torch; want float32, int64, bfloat16, ...")
        given = Input(tuple(whole_number(part) or part for part in parts), dtype or "float32")
        if name:
            named[name] = given
        else:
            positional.append(given)
    if bool(named) == bool(positional):
        raise InputError("give inputs either all by position or all by name, at least one")
    return named or positional


def model_and_inputs(target: str, shapes: Sequence[str] = ()) -> tuple[Any, Inputs]:
    """The model of ``MODULE:FUNCTION`` with the inputs given as text, else with those that the function returns.

    Raises InputError where neither says what the inputs are.
    """
    model, inputs, _ = sized_model(target, shapes, values=True)
    return model, inputs


def sized_model(target: str, shapes: Sequence[str] = (), *, values: bool = False) -> tuple[Any, Inputs, dict[str, int]]:
    """The same, and the sizes that the inputs which the function returns have where the text has names.

    `values`: see `build_by_name`; what is recorded needs none.
    Raises InputError as `model_and_inputs`.
    """
    model, inputs = build_by_name(target, values=values)
    if shapes:
        given = inputs_from_text(shapes)
        return model, given, _sizes(inputs, given)
    if inputs is None:
        raise InputError(
            f"{target!r}: gives a model without inputs: add --input batch,3,224,224, or return (model, inputs)"
        )
    return model, inputs, {}


def with_sizes(workload: Workload, sizes: Mapping[str, int]) -> Workload:
    """With these sizes as defaults of the names that it has."""
    known = {name: float(size) for name, size in sizes.items() if name in workload.defaults}
    return replace(workload, defaults=FrozenDict({**workload.defaults, **known}))


def _sizes(example: Inputs | None, given: Inputs) -> dict[str, int]:
    """What named sizes are in an example; inputs that it lacks, or has with more or fewer sizes, say nothing."""
    shapes = {key: one.shape for key, one in _items(example)} if example is not None else {}
    sizes: dict[str, int] = {}
    for key, one in _items(given):
        known = shapes.get(key, ())
        for name, size in zip(one.shape, known, strict=True) if len(known) == len(one.shape) else ():
            if isinstance(name, str) and isinstance(size, int):
                sizes.setdefault(name, size)
    return sizes


def _items(inputs: Inputs) -> list[tuple[str | int, Input]]:
    return list(inputs.items()) if isinstance(inputs, Mapping) else list(enumerate(inputs))
