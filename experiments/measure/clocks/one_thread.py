"""torch as it is timed here: on one thread, tiny numbers taken as zero, and as it was before afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slipstick.common.lazy_packages import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread, denormal numbers flushed (work repeated in place would run into them); both are put back."""

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
