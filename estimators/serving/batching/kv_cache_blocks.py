"""A paged cache of keys and values: blocks of tokens, counted for sequences that grow together."""

from __future__ import annotations

from dataclasses import dataclass, field

from slipstick.common.errors import InputError


@dataclass
class CacheBlocks:
    """Blocks in use by sequences that each gain a token a step, and by prompts being read.

    A sequence of T tokens holds ceil(T / size) blocks. Growing sequences are counted by what remains of their
    length, so that n steps of all of them cost as much as one.
    """

    capacity: int
    size: int
    used: int = 0
    peak: int = 0
    taken: int = 0
    _clock: int = 0
    _growing: int = 0
    _ends: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.size < 1:
            raise InputError(f"cache of {self.capacity} blocks of {self.size} tokens: want at least 1 of each")
        self._ends = [0] * self.size

    @property
    def free(self) -> int:
        """Blocks that nobody holds."""
        return self.capacity - self.used

    def blocks(self, tokens: int) -> int:
        """Blocks that a sequence of so many tokens holds."""
        return -(-tokens // self.size)

    def take(self, blocks: int) -> None:
        """Blocks for a prompt; `taken` counts all that were ever given."""
        self.used = used = self.used + blocks
        self.taken += blocks
        if used > self.peak:
            self.peak = used

    def start(self, tokens: int) -> None:
        """A sequence whose blocks are taken begins to grow."""
        self._ends[(tokens - 1 - self._clock) % self.size] += 1
        self._growing += 1

    def stop(self, tokens: int) -> None:
        """A growing sequence of now `tokens` tokens ends and gives its blocks back."""
        self._ends[(tokens - 1 - self._clock) % self.size] -= 1
        self._growing -= 1
        self.used -= self.blocks(tokens)

    def needed(self, steps: int) -> int:
        """New blocks that `steps` steps of all growing sequences take."""
        size, ends = self.size, self._ends
        if steps == 1:  # asked before every step
            return ends[-self._clock % size - 1]
        whole, rest = divmod(steps, size)
        # Those with fewer than `rest` tokens left in their last block: the places before the clock's, around the ring.
        high = -self._clock % size
        low = high - rest
        taking = sum(ends[low:high]) if low >= 0 else sum(ends[:high]) + sum(ends[low:])
        return self._growing * whole + taking

    def grow(self, steps: int) -> None:
        """All growing sequences gain `steps` tokens."""
        self.take(self.needed(steps))
        self._clock += steps

    def steps_left(self, wanted: int) -> int:
        """How many of `wanted` steps the free blocks allow."""
        most = self._growing * (wanted // self.size + 1)
        if most <= self.free or self.needed(wanted) <= self.free:
            return wanted
        low, high = 0, wanted
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.needed(middle) <= self.free else (low, middle)
        return low
