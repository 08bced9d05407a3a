"""What a program is called with: tensors are described by shape and type, what is no tensor stays what it is."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import torch

PLAIN = (bool, int, float, complex, str, type(None))


@dataclass(frozen=True)
class Input:
    """One tensor given to the callable: sizes are numbers, or names that become symbols."""

    shape: tuple[int | str, ...]
    dtype: str = "float32"


Inputs = Sequence[Input] | Mapping[str, Input]


def as_text(given: Input) -> str:
    """As ``--input`` takes it: ``batch,3,224,224``, ``batch,seq_len:int64``."""
    sizes = ",".join(map(str, given.shape))
    return sizes if given.dtype == "float32" else f"{sizes}:{given.dtype}"


def described(example: Any, place: str) -> Inputs:
    """Arguments as `Input`: tensors (of any device, "meta" too) by their shapes and types, an `Input` as it is.

    `example`: one tensor or `Input`, a sequence of them (by position) or a mapping (by name).
    `place`: whose arguments they are, for the error.
    Raises InputError where something else is among them, or nothing.
    """
    if isinstance(example, Mapping):
        given = {str(name): _described(value) for name, value in example.items()}
        if given and None not in given.values():
            return {name: value for name, value in given.items() if value is not None}
    else:
        entries = list(example) if isinstance(example, (list, tuple)) else [example]
        inputs = [value for value in map(_described, entries) if value is not None]
        if inputs and len(inputs) == len(entries):
            return inputs
    raise InputError(
        f"{place}: its inputs are {_what(example)}, not tensors: want (tensor, ...), {{name: tensor}} or "
        'Input(("batch", 3, 224, 224)), whose named sizes stay open'
    )


def _described(value: Any) -> Input | None:
    if isinstance(value, Input):
        return value
    torch = sys.modules.get("torch")  # without it nothing is a tensor
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    return Input(tuple(int(size) for size in value.shape), str(value.dtype).removeprefix("torch."))


def _what(example: Any) -> str:
    entries = list(example.values()) if isinstance(example, Mapping) else example
    if not isinstance(entries, (list, tuple)):
        return f"a {type(entries).__name__}"
    return f"({', '.join(type(entry).__name__ for entry in entries[:6])})"


def without_constants(model: Any, example: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, Any]:
    """A model that takes the tensors of an example alone, and these; both unchanged where nothing else is given.

    Examples
    --------
    A model that is called as ``model(x, 0.5)`` becomes one that is called as ``bound(x)``.
    """

    keyed = dict(example) if isinstance(example, Mapping) else dict(enumerate(example))
    fixed = {place: value for place, value in keyed.items() if isinstance(value, PLAIN)}
    tensors = {place: value for place, value in keyed.items() if place not in fixed}
    if not fixed or not tensors:
        return model, example

    class Bound(torch.nn.Module):  # type: ignore[misc]
        """The model with its constants."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *positional: Any, **named: Any) -> Any:
            if isinstance(example, Mapping):
                return self.model(**named, **{str(place): value for place, value in fixed.items()})
            given = iter(positional)
            return self.model(*(fixed[place] if place in fixed else next(given) for place in keyed))

    left = dict(tensors) if isinstance(example, Mapping) else list(tensors.values())
    return Bound(), left
