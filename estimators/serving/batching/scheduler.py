"""Settings of a server's scheduler: its budget of tokens, how many sequences, how prompts and decodes share steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from slipstick.common.errors import InputError


@dataclass(frozen=True)
class Scheduler:
    """Rules of continuous batching.

    `token_budget`: tokens of one step, decodes and chunks of prompts together, of a rank with a cache of its own (vLLM
        gives each data-parallel rank its own limits).
    `max_num_seqs`: sequences that hold a place at a time, of such a rank.
    `block`: tokens of one block of the cache.
    `cache_tokens`: tokens that the cache holds, all ranks with a cache of their own together.
    `chunked_prefill`: chunks of prompts and decodes share steps; else prompts go first, alone.
    `preemption`: what becomes of a sequence that loses its place when the cache is full: recompute reads its tokens
        again; cached does so but for the blocks that nobody took since (prefix caching, vLLM's default); swap brings
        them back from the host.
    `swap_token_seconds`: of moving one token's cache to the host or back.
    """

    token_budget: int = 8192
    max_num_seqs: int = 256
    block: int = 16
    cache_tokens: int = 1_000_000
    chunked_prefill: bool = True
    preemption: Literal["cached", "recompute", "swap"] = "cached"
    swap_token_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("token_budget", "max_num_seqs", "block", "cache_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"scheduler: {name} = {getattr(self, name)}: want at least 1")
        if self.cache_tokens < self.block:
            raise InputError(f"scheduler: cache of {self.cache_tokens} tokens: want at least a block of {self.block}")

    def of_ranks(self, groups: int) -> Scheduler:
        """The limits of all ranks of a replica together; the cache is that of all of them already."""
        return replace(self, token_budget=groups * self.token_budget, max_num_seqs=groups * self.max_num_seqs)
