"""torch and numba, imported when one of their names is first needed: they are extras, and take a second to load."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from slipstick.common.optional_packages import require_packages


@dataclass(frozen=True)
class _Module:
    """A module by its name; its names raise an InputError where its package is not installed."""

    path: str

    def __getattr__(self, name: str) -> Any:
        return getattr(_imported(self.path), name)


@cache
def _imported(path: str) -> ModuleType:
    """The module, looked for once: closures that are timed call its functions."""
    require_packages((path.partition(".")[0],))
    return import_module(path)


numba: Any = _Module("numba")
torch: Any = _Module("torch")
nn: Any = _Module("torch.nn")
fx: Any = _Module("torch.fx")
