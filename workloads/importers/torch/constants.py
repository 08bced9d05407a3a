"""Arguments of a program that are no tensors: numbers, words and None stay as they are while the tensors are traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PLAIN = (bool, int, float, complex, str, type(None))


def without_constants(model: Any, example: Sequence[Any] | Mapping[str, Any]) -> tuple[Any, Any]:
    """A model that takes the tensors of an example alone, and these; both unchanged where nothing else is given.

    Examples
    --------
    A model that is called as ``model(x, 0.5)`` becomes one that is called as ``bound(x)``.
    """
    import torch

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
