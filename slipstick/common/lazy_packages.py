"""torch and numba, imported when one of their names is first needed: they are extras, and take a second to load."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from slipstick.common.optional_packages import require_packages


@dataclass(frozen=True)
class _Module:
    """A module by its name; its names raise an InputError where its package is not installed."""

    path: str

    def __getattr__(self, name: str) -> Any:
        require_packages((self.path.partition(".")[0],))
        known = getattr(import_module(self.path), name)
        self.__dict__[name] = known  # a closure that is timed calls it again
        return known


numba: Any = _Module("numba")
torch: Any = _Module("torch")
nn: Any = _Module("torch.nn")
fx: Any = _Module("torch.fx")
