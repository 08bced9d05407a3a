"""Ctrl-C ends a long run also where the library that it falls into loses it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def heard_interrupts() -> Iterator[Callable[[], None]]:
    """Gives a call for between two parts of the work, which ends the run where an interrupt came and was lost.

    Three of sixty interrupts of a study were: numpy compares records by Python code, drops what that raises, and goes
    on or says that it cannot compare them (numpy/_core/src/multiarray/arrayobject.c, `_void_compare`). An error that
    follows an interrupt is taken for it. Outside the main thread, and where the caller has a handler of his own, all
    stays as it is.

    Raises
    ------
    KeyboardInterrupt
        Where one was sent meanwhile, whatever became of it.
    """
    sent: list[int] = []

    def heard(number: int, frame: FrameType | None) -> None:
        sent.append(number)
        signal.default_int_handler(number, frame)

    def check() -> None:
        if sent:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, heard)
    try:
        yield check
        check()
    except Exception:
        check()
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
