"""A server of a language model under continuous batching, simulated request by request."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipstick.common.errors import InputError
from slipstick.estimators.serving.batching.replica import Replica, Seconds
from slipstick.estimators.serving.batching.request_record import ServingRecord
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.batching.simulation_result import SimulationResult
from slipstick.estimators.simulation.event_clock import EventClock
from slipstick.workloads.runs.requests import Request

MOST_REPLICAS, MOST_CHOICES = 2_000, 10_000_000
"""Each request is sent to the copy with fewest: ten seconds."""
MOST_REQUESTS = 1_000_000
"""Half a minute of CPU time in one simulation; an answer with its band takes one of all and some of a tenth of them."""
MOST_TOKENS, OF_A_REQUEST = 500_000_000, 2_000
"""Read and made by all requests together, and for each of them where that is more: half a minute, and for a million
requests two, where the cache is always full, else far less."""


@dataclass(frozen=True)
class PrefillWorkers:
    """Workers that read prompts alone, and hand the cache of each to a worker that decodes.

    `seconds`, `rules`, `replicas`, `groups`: of these workers, as of `simulate`.
    `transfer`: seconds of sending the cache of a prompt of so many tokens to another worker. A worker sends, and
        another receives, one prompt after the other on each group of ranks.
    """

    seconds: Seconds
    rules: Scheduler
    replicas: int
    groups: int
    transfer: Callable[[int], float]

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.groups < 1:
            raise InputError(f"{self.replicas} prefill workers of {self.groups} groups: want at least 1 of each")


def simulate(
    requests: Sequence[Request],
    seconds: Seconds,
    rules: Scheduler,
    users: int | None = None,
    replicas: int = 1,
    groups: int = 1,
    front: float = 0.0,
    prefill: PrefillWorkers | None = None,
) -> SimulationResult:
    """Serve requests in order of arrival, or in a closed loop of `users` that each send one when theirs is done.

    Parameters
    ----------
    seconds
        The time of a step of one group of ranks that share a cache (`StepTime.seconds`).
    users
        Of a closed loop, all replicas together; None where requests have arrival times.
    replicas
        Copies behind a router that sends each request to the copy with fewest.
    groups
        Groups of ranks of a replica with caches of their own, which step together on equal shares.
    front
        Seconds between a user's sending and the replica's queue (network, tokenising, scheduling ahead).
    prefill
        Workers that read all prompts, where these are not read beside decoding. The other copies then only decode: a
        request's first token is seen when its cache has come and it joins their steps.

    Raises
    ------
    InputError
        Where a request could never be placed, arrival times and users contradict each other, or there are more
        requests or tokens than one simulation takes.
    """
    if not requests:
        raise InputError("no requests to serve")
    longest = max(requests, key=lambda r: r.input_tokens + r.output_tokens)
    _require_room(longest.input_tokens + longest.output_tokens, rules)
    if prefill is not None:
        _require_room(max(request.input_tokens for request in requests) + 1, prefill.rules)
    together = min(rules.max_num_seqs, -(-users // (replicas * groups)) if users else len(requests))
    if rules.chunked_prefill and rules.token_budget < together:
        raise InputError(
            f"max_batched_tokens = {rules.token_budget:,}: want at least the {together:,} sequences that decode "
            f"together, a token each (--max-batched-tokens {together}, or --max-num-seqs {rules.token_budget})"
        )
    timed = [r for r in requests if r.arrival is not None]
    if (users is None) != bool(timed) or 0 < len(timed) < len(requests):
        raise InputError("give users for requests without arrival times, and none for requests with them")
    if len(requests) > MOST_REQUESTS:
        raise InputError(f"{len(requests):,} requests: want at most {MOST_REQUESTS:,} in one simulation")
    read, made = sum(r.input_tokens for r in requests), sum(r.output_tokens for r in requests)
    most = max(MOST_TOKENS, OF_A_REQUEST * len(requests))
    if read + made > most:
        raise InputError(
            f"{len(requests):,} requests of {read:,} input + {made:,} output tokens = {read + made:,} tokens: want at "
            f"most {most:,} in one simulation; take fewer requests"
        )
    workers = replicas + (prefill.replicas if prefill else 0)
    if workers > MOST_REPLICAS or workers * len(requests) > MOST_CHOICES:
        raise InputError(
            f"{workers:,} replicas x {len(requests):,} requests = {workers * len(requests):,}: want at most "
            f"{MOST_REPLICAS:,} replicas, and {MOST_CHOICES:,} in all"
        )
    if users is not None and users < 1:
        raise InputError(f"users = {users}: want at least 1")
    return _Simulation(requests, seconds, rules, users, replicas, groups, front, prefill).run()


def _require_room(tokens: int, rules: Scheduler) -> None:
    """Refuse a longest request of so many tokens that no cache holds."""
    if -(-tokens // rules.block) > rules.cache_tokens // rules.block:
        raise InputError(
            f"a request of {tokens:,} tokens does not fit the cache of {rules.cache_tokens:,} tokens: "
            "use more devices, a smaller type of weights or cache, or shorter requests"
        )


class _Simulation:
    """The run of one server."""

    def __init__(
        self,
        requests: Sequence[Request],
        seconds: Seconds,
        rules: Scheduler,
        users: int | None,
        replicas: int,
        groups: int,
        front: float,
        prefill: PrefillWorkers | None,
    ) -> None:

        self.requests, self.rules, self.users, self.front = requests, rules, users, front
        self.env = EventClock()
        self.record = ServingRecord(len(requests))
        self.left, self.next = len(requests), 0
        self.over = self.env.event()
        watched = int(users is None or replicas > 1 or front > 0 or prefill is not None)
        self.prefill = prefill
        self.readers = [
            Replica(
                self.env, i, prefill.rules, prefill.seconds, self.record, self._was_read, groups=prefill.groups,
                watched=0,
            )
            for i in range(prefill.replicas)
        ] if prefill else []  # fmt: skip
        before = len(self.readers)
        self.replicas = [
            Replica(self.env, before + i, rules, seconds, self.record, self._finished, groups=groups, watched=watched)
            for i in range(replicas)
        ]
        self.bound = [0] * replicas  # requests of each, on their way as well
        self.free_at = [0.0] * (before + replicas)  # when each worker's connection is free

    def run(self) -> SimulationResult:
        if self.users is None:
            self.env.process(self._arrivals())
        else:
            for _ in range(min(self.users, len(self.requests))):
                self._send()
        self.env.run(until=self.over)
        workers = [*self.readers, *self.replicas]
        peak = max(worker.cache.peak / worker.cache.capacity for worker in workers)
        return SimulationResult.of(self.requests, self.record, len(workers), peak, len(self.readers))

    def _arrivals(self) -> Generator[Any, Any, None]:
        for request in self.requests:
            wait = (request.arrival or 0.0) - self.env.now
            if wait > 0:
                yield self.env.timeout(wait)
            self._send()

    def _send(self) -> None:
        index, self.next = self.next, self.next + 1
        self.record.arrived[index] = self.env.now
        if self.front:
            self.env.after(self.front, lambda _: self._route(index))
        else:
            self._route(index)

    def _route(self, index: int) -> None:
        workers = self.readers or self.replicas
        replica = workers[0] if len(workers) == 1 else min(workers, key=lambda r: r.load)
        self.record.replica[index] = replica.name
        request = self.requests[index]
        replica.put(index, replace(request, output_tokens=1) if self.readers else request)

    def _was_read(self, index: int) -> float:
        """A prefill worker made the first token: the request goes on elsewhere, or is done; seconds of sending it."""
        request = self.requests[index]
        if self.prefill is None or request.output_tokens == 1:
            return self._finished(index)
        place = min(range(len(self.replicas)), key=self.bound.__getitem__)
        self.bound[place] += 1
        sender, receiver = int(self.record.replica[index]), len(self.readers) + place
        self.record.replica[index] = receiver
        seconds = self.prefill.transfer(request.input_tokens)
        start = max(self.env.now, self.free_at[sender], self.free_at[receiver])
        self.free_at[sender] = start + seconds / self.prefill.groups
        self.free_at[receiver] = start + seconds / self.replicas[place].groups
        there = self.replicas[place]
        wait: float = start + seconds - self.env.now
        self.env.after(wait, lambda _: there.join(index, request))
        return wait

    def _finished(self, index: int) -> float:
        place = int(self.record.replica[index]) - len(self.readers)
        if self.readers and place >= 0:
            self.bound[place] -= 1
        self.left -= 1
        if self.left == 0:
            self.over.succeed()
        elif self.users is not None and self.next < len(self.requests):
            self._send()
        return 0.0
