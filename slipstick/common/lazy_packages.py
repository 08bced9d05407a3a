"""sympy, torch and numba, imported when one of their names is first needed: they take a second, or are extras."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from slipstick.common.optional_packages import EXTRAS, require_packages


class LazyModule:
    """A module by its name; its names raise an InputError where its package is not installed, each looked up once."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        require_packages(EXTRAS.keys() & {self._path.partition(".")[0]})
        value = getattr(import_module(self._path), name)
        setattr(self, name, value)  # formulas look up sympy's names by the million
        return value


numba: Any = LazyModule("numba")
torch: Any = LazyModule("torch")
nn: Any = LazyModule("torch.nn")
fx: Any = LazyModule("torch.fx")
