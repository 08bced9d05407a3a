"""Requests to a language model as a workload: what one of them reads and computes, whatever serves it.

The operations are those of one request by itself: its prompt read at once, then a step for each further token, with as
many tokens in the cache as it has at the mean. That several requests share a step is the schedule's matter, as is how
many devices share a product. Symbols: `input_tokens`, `output_tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

from slipstick.common.expressions import symbol
from slipstick.common.records import FrozenDict, content_digest
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_kind import WORK
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.language_step import language_step, on_one_device
from slipstick.workloads.language.weight_types import stored_as
from slipstick.workloads.runs.requests import Request

TOKENS = FrozenDict(input_tokens=1024.0, output_tokens=256.0)
"""The lengths of a request where none are given."""


@dataclass(frozen=True, repr=False)
class Requests(Workload):
    """Requests to a language model.

    `model`: shapes of the language model.
    `given`: recorded requests; empty: lengths are those of the symbols, and come as the run says.
    `lengths`: tokens by symbol, of those that were bound.
    """

    model: LanguageModel = field(kw_only=True)
    given: tuple[Request, ...] = field(default=(), kw_only=True)
    lengths: FrozenDict[float] = field(default=FrozenDict(), kw_only=True)

    @property
    def stored(self) -> str:
        """How weights are stored (`weight_types.WEIGHT_TYPES`)."""
        return str(self.metadata["weights"])

    @cached_property
    def identity(self) -> str:
        """Digest of what is served: the operations of a request, the model, and the requests where they are given."""
        return content_digest([super().identity, self.model, self.given])

    def bind_known(self, values: Mapping[str, Amount]) -> Self:
        """As `Workload.bind_known`; the lengths are kept, since what serves requests draws theirs around them."""
        known = {name: float(value) for name, value in values.items() if name in TOKENS and name in self.symbols}
        return super().bind_known(values)._with(lengths=FrozenDict({**self.lengths, **known}))

    def stored_in(self, dtype: str) -> Requests:
        """The same with weights stored in another type, by the words of `stored_as` ("fp8", "nvfp4").

        Raises InputError where nothing stores weights in that type.
        """
        return replace(requests_to(self.model, stored_as(self.model, dtype), self.given), name=self.name)


def requests_to(model: LanguageModel, stored: str | None = None, given: Sequence[Request] = ()) -> Requests:
    """Requests to `model`, a workload whose operations are those of one of them.

    `stored`: how weights are stored (`weight_types.WEIGHT_TYPES`); None: as the model's file says.
    `given`: recorded requests.

    Examples
    --------
    >>> from slipstick.workloads.language_catalog import language_model
    >>> one = requests_to(language_model("llama-3.1-8b")).bind(input_tokens=1000, output_tokens=1)
    >>> round(one.cost.flop / 1e9)  # reads 1,000 tokens and makes the first: about two flop a weight and token
    14226
    """
    read, made = symbol("input_tokens"), symbol("output_tokens")
    prompt = on_one_device(language_step(model, stored, purpose="prompt")).bind_known({"prompt": read, "chunk": read})
    token = on_one_device(language_step(model, stored, purpose="decode"))
    token = token.bind_known({"decodes": 1, "context": read + made / 2})
    operations = (
        *(replace(op, name=f"prompt.{op.name}") for op in prompt),
        *(replace(op, name=f"token.{op.name}", times=op.times * (made - 1)) for op in token),
    )
    edges = tuple(pairwise(op.name for op in operations))
    facts = FrozenDict({**token.metadata, WORK: "requests", "network": model.name, "requests": len(given) or "drawn"})
    return Requests(model.name, operations, edges, TOKENS, facts, model=model, given=tuple(given))
