"""Torch's fake tensors: with symbols where a size is open or hangs on values, and without torch's compiler elsewhere.

Symbols import sympy and torch's compiler (dynamo), which takes nearly as long as torch itself. A recording of numbers
alone needs two things of the compiler: switches of its configuration, and to leave alone functions that nobody
compiles. What stands in its place has both; the compiler is imported as soon as anything else of it is used.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

COMPILER, SWITCHES = "torch._dynamo", "torch._dynamo.config"


class CompilerWantedError(Exception):
    """A program that was recorded without the compiler uses it."""


class FakeSizes:
    """Sizes of one recording and the fake tensors that have them, open while a stack is.

    Parameters
    ----------
    values
        Numbers by the names of sizes.
    fixed
        Names that are no symbols.
    """

    def __init__(self, stack: contextlib.ExitStack, values: Mapping[str, int], fixed: Sequence[str]) -> None:
        self._stack = stack
        self.environment: Any = None
        self.sizes: dict[str, Any] = dict(values)
        self.variables: dict[str, str] = {}
        """Torch's name of a symbol -> the user's."""
        self._mode: Any = None
        self._stand_in = None
        names = [name for name in values if name not in fixed]
        if names or COMPILER in sys.modules:
            self.wanted()
            self._name(names)
        else:
            self._stand_in = _CompilerAlone.placed()
            stack.callback(self._stand_in.leave)
        from torch._subclasses.fake_tensor import FakeTensorMode

        mode = FakeTensorMode(shape_env=self.environment, allow_non_fake_inputs=True)
        self._mode = stack.enter_context(mode)

    @property
    def uses_compiler(self) -> bool:
        """Whether a program used the compiler itself while that was left out: it is to be recorded with it."""
        return self._stand_in is not None and self._stand_in.used

    @property
    def guards(self) -> Sequence[Any]:
        """The conditions on symbols."""
        return () if self.environment is None else self.environment.guards

    def wanted(self) -> bool:
        """Make the environment of symbols; False where there is one."""
        if self.environment is not None:
            return False
        if self._stand_in is not None:
            self._stand_in.leave()
        import torch
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self.environment = ShapeEnv()
        # modules that their user compiled run as they were written
        self._stack.enter_context(torch.compiler.set_stance("force_eager"))
        if self._mode is not None:
            self._mode.shape_env, self._mode.static_shapes = self.environment, False
        return True

    def _name(self, names: Sequence[str]) -> None:
        """A symbol for each name."""
        from torch._dynamo.source import ConstantSource
        from torch.fx.experimental.symbolic_shapes import DimDynamic

        for name in names:
            value, source = self.sizes[name], ConstantSource(name)
            variable = self.environment.create_symbol(
                value, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None
            )
            self.sizes[name] = self.environment.create_symintnode(variable, hint=value, source=source)
            self.variables[str(variable)] = name


class _CompilerAlone(ModuleType):
    """In the place of the compiler: its switches, and functions that it is told to leave alone as they are."""

    def __init__(self) -> None:
        super().__init__(COMPILER)
        self.config: ModuleType | None = None
        self.used = False
        self._left_alone: list[Any] = []

    @classmethod
    def placed(cls) -> _CompilerAlone:
        """One that stands there."""
        import torch

        made = cls()
        folder = Path(torch.__file__).parent / "_dynamo"
        if (folder / "config.py").is_file():
            sys.modules[COMPILER] = torch._dynamo = made
            made.__path__ = [str(folder)]
            import torch._dynamo.config as switches

            made.config = switches
            del made.__path__
        return made

    def disable(self, function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        """The function as it is."""
        self._left_alone.append(function)
        return function

    def __getattr__(self, name: str) -> Any:
        self.used |= not name.startswith("__") or name == "__path__"  # the folder of its parts
        if name.startswith("__"):
            raise AttributeError(name)
        self.leave()
        import torch._dynamo

        return getattr(torch._dynamo, name)

    def leave(self) -> None:
        """Make room for the compiler, which is then told of these functions, too."""
        import torch

        if sys.modules.get(COMPILER) is self:
            del sys.modules[COMPILER], sys.modules[SWITCHES], torch._dynamo
        for function in self._left_alone:
            vars(function).pop("__dynamo_disable", None)
        self._left_alone.clear()
