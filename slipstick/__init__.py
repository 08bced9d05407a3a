"""Slipstick, a slide rule for machines: the face for users and notebooks.

What it holds stands in `__init__.pyi`, in the sections of the API page; a name is imported when it is first used.

>>> import slipstick as ss
>>> phi = ss.machine("xeon-phi-7120p")
>>> phi.using(clock="852 MHz").clock
852000000.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import lazy_loader

if TYPE_CHECKING:
    from collections.abc import Sequence

_from_stub, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from slipstick.experiments.studies.versions import installed_version

        return installed_version("slipstick")
    try:
        return _from_stub(name)
    except AttributeError:
        from difflib import get_close_matches

        close = get_close_matches(name, __all__, 3)
        hint = f"; close names: {', '.join(close)}" if close else ""
        raise AttributeError(f"module 'slipstick' has no attribute {name!r}{hint}") from None


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave.

    Parameters
    ----------
    arguments
        The words after ``slipstick``; those of the process where none are given.

    Raises
    ------
    SystemExit
        Always: code 0 done, 1 a check failed, 2 bad input, 3 a defect of ours, 130 interrupted.
    """
    from slipstick.experiments.commands.cli import run

    raise SystemExit(run(None if arguments is None else [*arguments]))
