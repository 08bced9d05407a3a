"""One replica of a server: its queue, its cache, and how it puts steps together."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.serving.batching.kv_cache_blocks import CacheBlocks
from slipstick.estimators.serving.batching.request_record import ServingRecord
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.simulation.event_clock import EventClock
from slipstick.workloads.runs.requests import Request

if TYPE_CHECKING:
    import simpy

Seconds = Callable[[Batch], float]


class _Sequence:
    """A request at this replica: tokens that lie in the cache, tokens of its prompt to read, tokens to make."""

    __slots__ = ("blocks", "done", "ends", "index", "left", "prompt", "swapped", "taken")

    def __init__(self, index: int, prompt: int, done: int, left: int) -> None:
        self.index, self.prompt, self.done, self.left = index, prompt, done, left
        self.ends: int = -1  # the clock at which its last token is made; -1 while it does not decode
        self.swapped = 0
        self.blocks = self.taken = 0  # what it held when it lost its place, and the count when they are gone


class Replica:
    """A process that makes steps as long as there is work; decode steps between events advance together."""

    def __init__(
        self,
        environment: EventClock,
        name: int,
        rules: Scheduler,
        seconds: Seconds,
        record: ServingRecord,
        finished: Callable[[int], float],
        *,
        groups: int,
        watched: int,
    ) -> None:
        self.env, self.name, self.seconds, self.record = environment, name, seconds, record
        self.rules, self.longest = rules.of_ranks(groups), rules.token_budget
        self.finished, self.groups, self.watched = finished, groups, watched
        self.cache = CacheBlocks(rules.cache_tokens // rules.block, rules.block)
        self.waiting: deque[_Sequence] = deque()
        self.reading: deque[_Sequence] = deque()
        self.placed: list[_Sequence] = []  # in the order of their admission
        self.ending: list[tuple[int, int, _Sequence]] = []
        self.clock, self.decodes, self.offsets = 0, 0, 0
        self.awaited: simpy.Event | None = None  # what a request that comes triggers
        environment.process(self._run())

    @property
    def load(self) -> int:
        """Requests here, waiting or placed."""
        return len(self.waiting) + len(self.placed)

    def put(self, index: int, request: Request) -> None:
        """A request arrives."""
        self.waiting.append(_Sequence(index, request.input_tokens, request.cached_tokens, request.output_tokens))
        self._wake()

    def join(self, index: int, request: Request) -> None:
        """A request comes whose prompt another worker read: its cache and its first token are there."""
        tokens = request.input_tokens
        self.waiting.append(_Sequence(index, tokens, tokens, request.output_tokens - 1))
        self._wake()

    def _wake(self, _: object = None) -> None:
        if self.awaited is not None and not self.awaited.triggered:
            self.awaited.succeed()

    def _run(self) -> Generator[Any, Any, None]:
        while True:
            if not self.waiting and not self.placed:
                self.awaited = self.env.event()
                yield self.awaited
                continue
            preemptions = len(self.placed)
            penalty = self._make_room()
            # As vLLM does: a step that took places away gives none.
            chunks = self._chunks(admitting=preemptions == len(self.placed))
            if chunks:
                yield from self._read(chunks, penalty + sum(self._swap_in(s) for s, _ in chunks))
            elif self.decodes:
                yield from self._decode(penalty)
            elif preemptions == len(self.placed):  # prompts that were read hold the cache until they are sent
                self.awaited = self.env.event()
                yield self.awaited

    def _make_room(self) -> float:
        """Take places away until one more token of every sequence fits; returns the seconds that swapping costs."""
        seconds = 0.0
        while self.decodes > self.cache.free and self.cache.needed(1) > self.cache.free:
            seconds += self._preempt()
        return seconds

    def _preempt(self) -> float:
        sequence = self.placed.pop()
        self.record.preempted[sequence.index] += 1
        if sequence.ends < 0:
            self.reading.remove(sequence)
            self.cache.used -= self.cache.blocks(sequence.done) if sequence.done else 0
            sequence.done = 0
            self.waiting.appendleft(sequence)
            return 0.0
        tokens = sequence.done + self.clock
        before = self.cache.free
        self._leave(sequence, tokens)
        sequence.left = sequence.ends - self.clock
        sequence.ends = -1
        swap = self.rules.preemption == "swap"
        # Freed blocks are given away in the order they became free, its own from the end.
        sequence.blocks, sequence.taken = self.cache.blocks(tokens), self.cache.taken + before
        # Its last token is not in the cache yet: it is read with the others.
        sequence.prompt, sequence.done = tokens + 1, tokens if swap else 0
        sequence.swapped = tokens if swap else 0
        self.waiting.appendleft(sequence)
        return tokens * self.rules.swap_token_seconds if swap else 0.0

    def _find_again(self, sequence: _Sequence) -> None:
        """Blocks of a sequence that lost its place which nobody took since are still in the cache."""
        if sequence.blocks and self.rules.preemption == "cached":
            left = sequence.blocks - max(0, self.cache.taken - sequence.taken)
            sequence.done = max(0, min(sequence.prompt - 1, left * self.cache.size))

    def _swap_in(self, sequence: _Sequence) -> float:
        tokens, sequence.swapped = sequence.swapped, 0
        return tokens * self.rules.swap_token_seconds

    def _chunks(self, *, admitting: bool) -> list[tuple[_Sequence, int]]:
        """Which prompts are read in this step, and how many tokens of each; new ones only when `admitting`."""
        if not self.reading and not (admitting and self.waiting):
            return []
        rules, free = self.rules, self.cache.free - self.cache.needed(1)
        budget = rules.token_budget - (self.decodes if rules.chunked_prefill else 0)
        chunks: list[tuple[_Sequence, int]] = []
        for sequence in self.reading:
            free = self._chunk(sequence, budget, free, chunks)
            budget = rules.token_budget - sum(n for _, n in chunks) - (self.decodes if rules.chunked_prefill else 0)
        while admitting and self.waiting and budget > 0 and len(self.placed) < rules.max_num_seqs:
            sequence = self.waiting[0]
            self._find_again(sequence)
            before = len(chunks)
            # Tokens that are in the cache already (a prefix hit, or swapped in) take their blocks on admission.
            held = self.cache.blocks(sequence.done) if sequence.done else 0
            if sequence.done == sequence.prompt:
                if self.cache.blocks(sequence.done + 1) > free:
                    break
                self.cache.take(held)
                self._place()
                self.record.join(sequence.index, self.env.now)
                self._start(sequence)
                free -= self.cache.blocks(sequence.done + self.clock + 1)
                continue
            if held > free:
                break
            after = self._chunk(sequence, budget, free - held, chunks)
            if len(chunks) == before:
                break
            self.cache.take(held)
            sequence.blocks = 0
            free = after
            budget -= chunks[-1][1]
            self._place()
            self.reading.append(sequence)
        return chunks

    def _place(self) -> None:
        sequence = self.waiting.popleft()
        self.placed.append(sequence)
        self.record.place(sequence.index, self.env.now)

    def _start(self, sequence: _Sequence) -> None:
        """A sequence whose prompt is in the cache makes tokens."""
        self.cache.start(sequence.done)
        sequence.done -= self.clock
        sequence.ends = self.clock + sequence.left
        self.decodes += 1
        self.offsets += sequence.done
        heapq.heappush(self.ending, (sequence.ends, sequence.index, sequence))

    def _chunk(self, sequence: _Sequence, budget: int, free: int, chunks: list[tuple[_Sequence, int]]) -> int:
        """Add what fits of one prompt to a step; returns the blocks that are free after it."""
        held = self.cache.blocks(sequence.done) if sequence.done else 0
        room = (free + held) * self.cache.size - sequence.done
        count = min(budget, self.longest, sequence.prompt - sequence.done)
        if sequence in self.reading:
            count = min(count, room)
        if count <= 0 or count > room:  # a new one waits until the whole chunk has room, as in vLLM
            return free
        chunks.append((sequence, count))
        return free - (self.cache.blocks(sequence.done + count) - held)

    def _read(self, chunks: list[tuple[_Sequence, int]], penalty: float) -> Generator[Any, Any, None]:
        """One step that reads chunks of prompts, beside decodes where the scheduler mixes them."""
        mixed = self.decodes if self.rules.chunked_prefill else 0
        prompt = past = squares = 0
        done, blocks = [], self.cache.blocks
        for sequence, count in chunks:
            prompt, past, squares = prompt + count, past + count * sequence.done, squares + count * count
            held = blocks(sequence.done) if sequence.done else 0
            sequence.done += count
            self.cache.take(blocks(sequence.done) - held)
            if sequence.done == sequence.prompt:
                done.append(sequence)
        g = self.groups
        context = (self.offsets + self.decodes * self.clock) / self.decodes + 1 if mixed else 0.0
        batch = Batch(mixed / g, context, prompt / g, past / prompt, squares / prompt, len(done) / g)
        seconds = self.seconds(batch) + penalty
        if mixed:
            self.cache.grow(1)
        start = self.env.now
        if not self.env.passes(seconds):
            yield self.env.timeout(seconds)
        now = self.env.now
        self.record.stretch(self.name, start, now, 1, mixed, prompt)
        if mixed:
            self.clock += 1
        for sequence in done:
            self.reading.remove(sequence)
            self.record.token(sequence.index, now)
            sequence.left -= 1
            if sequence.left == 0:
                self._free(self.cache.blocks(sequence.done), self._done(sequence))
            else:
                self._start(sequence)
        if mixed:
            self._end()

    def _decode(self, penalty: float) -> Generator[Any, Any, None]:
        """Steps of decodes alone, until one ends, the cache is full, or a request comes that could be placed."""
        while self.ending[0][2].ends != self.ending[0][0]:
            heapq.heappop(self.ending)  # it lost its place since
        count, g = self.decodes, self.groups
        steps = self.cache.steps_left(self.ending[0][0] - self.clock)
        context = self.offsets / count + self.clock + 1
        first = self.seconds(Batch(count / g, context)) + penalty
        slope = (
            (self.seconds(Batch(count / g, context + steps - 1)) + penalty - first) / (steps - 1) if steps > 1 else 0.0
        )
        start, span = self.env.now, _span(first, slope, steps)
        if not self.env.passes(span):
            whole = self.env.timeout(span)
            if not self.watched or self.waiting:
                yield whole
            elif not (yield from self._wholly(whole)):
                steps = _steps_by(first, slope, steps, self.env.now - start)
                rest = max(0.0, start + _span(first, slope, steps) - self.env.now)
                if not self.env.passes(rest):
                    yield self.env.timeout(rest)
        self.record.stretch(self.name, start, self.env.now, steps, count, 0)
        self.cache.grow(steps)
        self.clock += steps
        self._end()

    def _wholly(self, whole: simpy.Timeout) -> Generator[Any, Any, bool]:
        """Wait until steps are over or a request comes; whether they are over."""
        self.awaited = self.env.event()
        whole.callbacks.append(self._wake)
        yield self.awaited
        if whole.processed:
            return True
        whole.callbacks.clear()
        return False

    def _end(self) -> None:
        """Sequences whose last token is made leave."""
        while self.ending and self.ending[0][0] <= self.clock:
            ends, _, sequence = heapq.heappop(self.ending)
            if sequence.ends == ends:
                self._leave(sequence, sequence.done + self.clock)
                self._done(sequence)

    def _leave(self, sequence: _Sequence, tokens: int) -> None:
        self.cache.stop(tokens)
        self.decodes -= 1
        self.offsets -= sequence.done

    def _done(self, sequence: _Sequence) -> float:
        sequence.ends = -1
        self.placed.remove(sequence)
        self.record.end(sequence.index, self.env.now)
        return self.finished(sequence.index)

    def _free(self, blocks: int, wait: float) -> None:
        """Free blocks of the cache, after a wait where another worker is still to get them."""
        if not wait:
            self.cache.used -= blocks
            return

        def sent(event: simpy.Event) -> None:
            self.cache.used -= blocks
            self._wake()

        self.env.after(wait, sent)


def _span(first: float, slope: float, steps: int) -> float:
    """Seconds of steps whose times grow evenly."""
    return steps * first + slope * steps * (steps - 1) / 2


def _steps_by(first: float, slope: float, steps: int, elapsed: float) -> int:
    """How many steps are begun after so many seconds."""
    low, high = 1, steps
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _span(first, slope, middle) >= elapsed else (middle + 1, high)
    return low
