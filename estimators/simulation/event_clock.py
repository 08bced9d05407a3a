"""What jobs, servers, dispatch and threads simulate with: SimPy's clock, resources that are shared, and barriers.

What happens between two events is plain code that runs at once; a process stands only for what goes on throughout a run
(a host, a stream, a thread, a replica of a server) or is a user's own. There is no chance in it: times are drawn from
seeds before, and events of one time come in the order in which they were scheduled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from heapq import heappop
from typing import Any

import simpy
from simpy.events import Timeout

Call = Callable[[Any], object]
"""What is called with one value: the event that came, or what waited."""


class EventClock(simpy.Environment):  # type: ignore[misc]  # SimPy states no types to mypy
    """SimPy's clock, for which a wait into which nothing falls needs no event.

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

    def after(self, seconds: float, call: Call, value: Any = None) -> simpy.Timeout:
        """Call after so many seconds, with the event whose value is `value`: a process would take three events."""
        timeout = Timeout(self, seconds, value)
        timeout.callbacks.append(call)
        return timeout

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


class SharedCapacity:
    """A capacity that is granted first come, first served."""

    def __init__(self, capacity: int) -> None:
        self.free = capacity
        self.waiting: deque[tuple[Call, Any]] = deque()

    def hold(self, call: Call, value: Any = None) -> None:
        """Call with the value as soon as a unit is free, which is then taken."""
        if self.free:
            self.free -= 1
            call(value)
        else:
            self.waiting.append((call, value))

    def release(self) -> None:
        """A unit is given back, to the next who waits."""
        if self.waiting:
            call, value = self.waiting.popleft()
            call(value)
        else:
            self.free += 1


class Barrier:
    """Calls with a key once so many have arrived at it."""

    def __init__(self, count: int, call: Call) -> None:
        self.count, self.call = count, call
        self.arrived: dict[Hashable, int] = {}

    def arrive(self, key: Hashable) -> None:
        """One is there; the last one opens it."""
        count = self.arrived.pop(key, 0) + 1
        if count < self.count:
            self.arrived[key] = count
        else:
            self.call(key)


class SharedRate:
    """Work in progress that slows down together where the demands add up to more than there is (processor sharing)."""

    def __init__(self, clock: EventClock) -> None:
        self.clock = clock
        self.work: dict[simpy.Event, list[float]] = {}  # what comes when it is done -> seconds left alone, demand
        self.since, self.turn = 0.0, 0

    def run(self, seconds: float, demand: float) -> simpy.Event:
        """An event that comes when `seconds` of work are done that alone needs a share `demand` of the whole."""
        self._advance()
        event = self.clock.event()
        self.work[event] = [seconds, demand]
        self._plan()
        return event

    def _speed(self) -> float:
        return 1.0 / max(1.0, sum(demand for _, demand in self.work.values()))

    def _advance(self) -> None:
        passed = (self.clock.now - self.since) * self._speed()
        for entry in self.work.values():
            entry[0] -= passed
        self.since = self.clock.now

    def _plan(self) -> None:
        self.turn += 1
        if self.work:
            nearest = min(left for left, _ in self.work.values())
            self.clock.after(max(0.0, nearest) / self._speed(), self._finish, self.turn)

    def _finish(self, planned: simpy.Timeout) -> None:
        if planned.value != self.turn:
            return
        self._advance()
        least = min(left for left, _ in self.work.values())
        for event in [event for event, (left, _) in self.work.items() if left <= least + 1e-15]:
            del self.work[event]
            event.succeed()
        self._plan()
