"""sympy, torch and numba, imported when one of their names is first needed: they take a second, or are extras."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from slipstick.common.optional_packages import EXTRAS, require_packages


class LazyModule:
    """A module by its name; its names raise an InputError where its package is not installed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._module: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            require_packages(EXTRAS.keys() & {self._path.partition(".")[0]})
            self._module = import_module(self._path)
        return getattr(self._module, name)


numba: Any = LazyModule("numba")
torch: Any = LazyModule("torch")
nn: Any = LazyModule("torch.nn")
fx: Any = LazyModule("torch.fx")
