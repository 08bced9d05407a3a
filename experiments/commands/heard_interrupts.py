"""Ctrl-C that falls into a finaliser, where Python prints an exception and goes on, ends the command all the same."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer, get_ident

SOON = 0.01
"""Seconds until it is sent again: by then the finaliser is over, else it is heard once more."""


@contextmanager
def heard_interrupts() -> Iterator[None]:
    """Inside, an interrupt that a finaliser swallowed is sent again; other exceptions of finalisers go their usual way.

    pyarrow's ParquetWriter has a finaliser: of a study's interrupts some fell into it, and the study went on to its end
    (https://docs.python.org/3/library/sys.html#sys.unraisablehook).
    """
    usual, main = sys.unraisablehook, get_ident()

    def again(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            later = Timer(SOON, signal.pthread_kill, (main, signal.SIGINT))  # sent from here it would end in this hook
            later.daemon = True
            later.start()
        else:
            usual(lost)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = usual
