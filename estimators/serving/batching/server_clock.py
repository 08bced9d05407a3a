"""The clock of a simulated server: SimPy's, which goes on at once where nothing happens before."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop

import simpy


class ServerClock(simpy.Environment):  # type: ignore[misc]  # SimPy states no types to mypy
    """An environment whose processes need no event for a wait that nothing else falls into.

    Most steps of a server are such waits, and a time-out with its way through the queue takes as long as what the
    server does in a step.
    """

    timeout: Callable[..., simpy.Timeout]
    event: Callable[[], simpy.Event]
    _now: float
    _queue: list[tuple[float, int, int, simpy.Event]]

    def __init__(self) -> None:
        super().__init__()
        self.timeout, self.event = self.timeout, self.event  # bound once, as SimPy does in its own class alone

    def passes(self, seconds: float) -> bool:
        """Let so many seconds pass at once, and say so, where no event comes by then; else nothing changes.

        What follows is as if a time-out had been waited for: it would have been the next event. Those at the head of
        the queue that nobody waits for any more are dropped.
        """
        queue, then = self._queue, self._now + seconds
        while queue and queue[0][0] <= then:
            event = queue[0][3]
            if event.callbacks or not event.ok:
                return False
            heappop(queue)
        self._now = then
        return True
