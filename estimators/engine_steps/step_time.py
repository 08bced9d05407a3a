"""Seconds of one step of a server: bytes over bandwidth or flop over peak, group by group, and a time for each layer.

A step is the sum of three groups (weights that all tokens use, routed experts, attention over the cache), each the
larger of its memory and its arithmetic (smoothly), of what ranks send each other, and of times that no bytes explain:
each layer's chain of small kernels, more for experts, for weights that a machine must widen or quantise on the way, for
each all-reduce, for the host's part of a step and of a sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeAlias

from slipstick.estimators.engine_steps.smooth_max import largest, overlapped, smallest
from slipstick.estimators.engine_steps.step_amounts import Amounts, Batch, Shares
from slipstick.estimators.engine_steps.step_device import Device
from slipstick.estimators.symbolic.formula import Parameter
from slipstick.hwmodels.machine import Machine

VISITS = 8
"""Experts visited by a token for which `expert_layer` stands."""
MOST_KNOWN = 4096
"""Numbers of sequences of which a step is kept."""
_Numbers: TypeAlias = Any
"""A float, or an array of one for each of many steps: the formula is the same."""


@dataclass(frozen=True)
class StepParameters:
    """What a step is beyond its bytes and flop; the defaults are expected of any server before a row was measured.

    Round numbers: memory is read at 0.65 to 0.85 of the data sheet's rate; products run at 0.5 to 0.6 of the peak, in
    narrow types at five sixths of that; a layer is about ten small kernels of 3 to 4 us in a recorded graph, experts
    bring eight more (routing, sorting, gathering); an all-reduce of no bytes is one kernel and one trip.
    `step_law` says how sure that is, and what varies by machine and engine.
    """

    weights: Annotated[float, Parameter("1", "time of reading weights over bytes / bandwidth", 1.0, 5.0)] = 1.2
    experts: Annotated[float, Parameter("1", "the same for routed experts", 1.0, 10.0)] = 1.5
    cache: Annotated[float, Parameter("1", "the same for the cache of keys and values", 1.0, 10.0)] = 1.5
    products: Annotated[float, Parameter("1", "time of products with weights over flop / peak", 1.0, 10.0)] = 1.6
    narrow: Annotated[float, Parameter("1", "more of that for numbers narrower than 16 bits", 0.5, 10.0)] = 1.2
    expert_products: Annotated[float, Parameter("1", "products with routed experts, as `products`", 1.0, 20.0)] = 2.0
    scores: Annotated[float, Parameter("1", "the same for attention, at the bfloat16 peak", 0.5, 20.0)] = 2.5
    layer: Annotated[float, Parameter("s", "kernels of a layer that no bytes explain", 1e-7, 1e-2)] = 40e-6
    expert_layer: Annotated[float, Parameter("s", "more of a layer, for 8 experts visited", 1e-7, 1e-2)] = 30e-6
    widened_layer: Annotated[float, Parameter("s", "more where 4-bit weights are widened", 1e-7, 1e-2)] = 30e-6
    fp8_layer: Annotated[float, Parameter("s", "more where 8-bit floats have scales by blocks", 1e-7, 1e-2)] = 10e-6
    fp4_layer: Annotated[float, Parameter("s", "more where activations become 4-bit floats", 1e-7, 1e-2)] = 10e-6
    all_reduce: Annotated[float, Parameter("s", "an all-reduce of no bytes", 1e-7, 1e-2)] = 10e-6
    exchange: Annotated[float, Parameter("s", "an exchange of tokens between experts' ranks", 1e-7, 1e-2)] = 20e-6
    link: Annotated[float, Parameter("1", "time of messages over bytes / link bandwidth", 1.0, 20.0)] = 1.5
    step: Annotated[float, Parameter("s", "the host's part of a step", 1e-7, 1.0)] = 0.5e-3
    sequence: Annotated[float, Parameter("s", "the host's part of a sequence in a step", 1e-8, 1.0)] = 8e-6
    reading: Annotated[float, Parameter("1", "of all that is read", 0.05, 20.0)] = 1.0
    computing: Annotated[float, Parameter("1", "of all products and scores", 0.05, 20.0)] = 1.0
    routed: Annotated[float, Parameter("1", "of all kernels of routed experts", 0.05, 20.0)] = 1.0
    fixed: Annotated[float, Parameter("1", "of all times that no bytes explain", 0.05, 20.0)] = 1.0
    factor: Annotated[float, Parameter("1", "of the whole step", 0.05, 20.0)] = 1.0


class StepParts(NamedTuple):
    """Seconds of a step by what they go to; `fixed` are the times that no bytes or flop explain."""

    weights: float
    experts: float
    attention: float
    links: float
    fixed: float

    @property
    def seconds(self) -> float:
        """All together."""
        return self.weights + self.experts + self.attention + self.links + self.fixed


@dataclass(frozen=True)
class LayerCounts:
    """Layers that a step passes, by what their fixed times depend on.

    Those with experts count by how many a token visits, over 8: sorting, gathering and adding up grow with the visits.
    Rows leave the power of the visits open (fitted 1.07 to 0.30, expected 1 to 0.30); no outer figure changes by it.
    """

    layers: float
    expert: float
    widened: float
    fp8: float
    fp4: float

    @classmethod
    def of(cls, shares: Shares, device: Device) -> LayerCounts:
        """Of a model stored in one way, on one machine."""
        m, name = shares.model, shares.kind.name
        return cls(
            m.layers,
            m.expert_layers * m.experts.per_token / VISITS if m.experts else 0,
            device.widened * (m.expert_layers or m.layers),
            m.layers if name == "fp8_block" else 0,
            m.layers if name.startswith("nvfp4") else 0,
        )


def step_parts(
    amounts: Amounts,
    sequences: _Numbers,
    device: Device,
    layers: LayerCounts,
    q: StepParameters,
    stages: _Numbers = 1,
) -> StepParts:
    """Seconds of a step by what they go to: the formula, on floats or on arrays of many steps.

    `amounts` are one stage's; stages of a pipeline follow each other. No group is faster than the data sheet's rates
    allow, whatever the parameters.
    """
    return StepRates.of(device, layers, q, stages).parts(amounts, sequences)


class StepRates(NamedTuple):
    """All of a step's formula that no batch changes.

    `read`, `computed`, `narrow`: times of reading, of products and of narrow ones over what the parameters of each
        group say. `links`: the same of messages. `layers`: seconds of all layers before `q.fixed`.
    """

    device: Device
    q: StepParameters
    stages: _Numbers
    read: _Numbers
    computed: _Numbers
    narrow: _Numbers
    links: _Numbers
    layers: _Numbers

    @classmethod
    def of(cls, device: Device, layers: LayerCounts, q: StepParameters, stages: _Numbers) -> StepRates:
        """Of a machine and a model under some parameters."""
        read, computed = (
            q.reading * device.reading * q.factor * stages,
            q.computing * device.computing * q.factor * stages,
        )
        fixed = q.layer * layers.layers + q.routed * q.expert_layer * layers.expert + q.widened_layer * layers.widened
        fixed = fixed + q.fp8_layer * layers.fp8 + q.fp4_layer * layers.fp4
        narrow = computed * q.narrow ** (1.0 * device.narrower)
        return cls(device, q, stages, read, computed, narrow, largest(q.link * q.factor, 1.0), fixed)

    def parts(self, a: Amounts, sequences: _Numbers) -> StepParts:
        """Seconds of a step by what they go to."""
        device, q, stages, _, computed, narrow, of_links, of_layers = self
        products, head = a.linear_flop / device.narrow_peak, a.head_flop / device.peak
        made = q.products * (products * narrow + head * computed)
        weights = self._group(a.weight_bytes, q.weights, products + head, made)
        products = a.expert_flop / device.narrow_peak
        made = q.routed * q.expert_products * products * narrow
        experts = self._group(a.expert_bytes, q.routed * q.experts, products, made)
        attention = self.attention(a.cache_bytes, a.score_flop)
        links = (a.message_bytes + a.exchange_bytes) / device.link * stages * of_links
        passed = a.messages * q.all_reduce * device.rank_latency + a.exchanges * q.exchange
        fixed = of_layers + passed * stages + q.step
        fixed = (fixed + q.sequence * sequences) * q.fixed * device.fixed * q.factor
        return StepParts(weights, experts, attention, links, fixed)

    def attention(self, cache_bytes: _Numbers, score_flop: _Numbers) -> _Numbers:
        """Seconds of attention over the cache."""
        scores = score_flop / self.device.peak
        return self._group(cache_bytes, self.q.cache, scores, self.q.scores * scores * self.computed)

    def _group(self, moved_bytes: _Numbers, slower: _Numbers, least: _Numbers, made: _Numbers) -> _Numbers:
        """Seconds of what moves so many bytes while products take `made`, of them `least` at the data sheet's rate."""
        moved = moved_bytes / self.device.bandwidth
        taken = overlapped(moved * slower * self.read, made)
        if taken.__class__ is not float:
            return largest(taken, largest(moved, least) * self.stages)
        least = (moved + least + abs(moved - least)) / 2 * self.stages  # a simulated step asks three times
        return (taken + least + abs(taken - least)) / 2


def demands(amounts: Amounts, device: Device, attention: tuple[float, float] | None = None) -> tuple[float, float]:
    """Seconds of a stage's bytes and of its flop at the data sheet's rates; with `attention` of another context."""
    a = amounts
    cache, scores = attention or (a.cache_bytes, a.score_flop)
    memory = (a.weight_bytes + a.expert_bytes + cache) / device.bandwidth
    narrow = (a.linear_flop + a.expert_flop) / device.narrow_peak + (scores + a.head_flop) / device.peak
    return memory, narrow


@dataclass(frozen=True)
class StepTime:
    """The time of steps of one model in one layout on one machine; a batch of arrays is many steps at once."""

    shares: Shares
    device: Device
    parameters: StepParameters = StepParameters()
    pace: float = 1.0
    """Of every step: below one at the fast edge of a band."""

    @classmethod
    def for_machine(cls, machine: Machine, shares: Shares, parameters: StepParameters) -> StepTime:
        """For a machine of the catalogue.

        Raises
        ------
        InputError
            Where the machine lacks a rate that is needed, or the model cannot be laid out so.
        """
        shares.layout.check(shares.model)
        return cls(shares, Device.of(machine, shares.kind.compute, shares.layout), parameters)

    @cached_property
    def layers(self) -> LayerCounts:
        """Layers by what their fixed times depend on."""
        return LayerCounts.of(self.shares, self.device)

    def floor(self, batch: Batch) -> float:
        """The least that bytes and flop of a step allow at the machine's data-sheet rates, seconds."""
        least: float = largest(*self.demands(batch))
        return least

    def demands(self, batch: Batch) -> tuple[float, float]:
        """Seconds of a step's bytes and of its flop at the machine's data-sheet rates."""
        return self._demands(self.shares.amounts(self._of_stage(batch)))

    def _demands(self, amounts: Amounts, attention: tuple[float, float] | None = None) -> tuple[float, float]:
        memory, flop = demands(amounts, self.device, attention)
        stages = self._rates.stages
        return memory * stages, flop * stages

    def parts(self, batch: Batch) -> StepParts:
        """Seconds of a step by what they go to."""
        return self._parts(batch, self.shares.amounts(self._of_stage(batch)))

    def _parts(self, batch: Batch, amounts: Amounts) -> StepParts:
        return self._rates.parts(amounts, batch.decodes)

    @cached_property
    def _rates(self) -> StepRates:
        return StepRates.of(self.device, self.layers, self.parameters, self.shares.layout.pipeline)

    def seconds(self, batch: Batch) -> float:
        """Seconds of a step; never below what the data sheet allows."""
        if batch.decodes.__class__ is not float or batch.prompt.__class__ is not float or batch.prompt:
            amounts = self.shares.amounts(self._of_stage(batch))
            moved = amounts.cache_bytes, amounts.score_flop
            return self._at_pace(self._parts(batch, amounts).seconds, amounts, moved)
        # Decodes alone: of as many sequences only attention changes with their context.
        key, staged = (batch.decodes, batch.finished), self._of_stage(batch)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            amounts = self.shares.amounts(staged)
            known = self._known[key] = amounts, self._parts(batch, amounts)
        amounts, (weights, experts, _, links, fixed) = known
        moved = self.shares.attention(staged)
        seconds = weights + experts + self._rates.attention(*moved) + links + fixed
        return seconds if self.pace == 1 else self._at_pace(seconds, amounts, moved)

    def _at_pace(self, seconds: float, amounts: Amounts, attention: tuple[float, float]) -> float:
        if self.pace == 1:
            return seconds
        slower: float = largest(largest(*self._demands(amounts, attention)), self.pace * seconds)
        return slower

    @cached_property
    def _known(self) -> dict[tuple[float, float], tuple[Amounts, StepParts]]:
        return {}

    def _of_stage(self, batch: Batch) -> Batch:
        """Stages of a pipeline work on as many parts of the batch, one after the other."""
        stages = self._rates.stages
        if stages == 1:
            return batch
        decodes = smallest(batch.decodes, largest(1.0, batch.decodes / stages))
        return batch._replace(decodes=decodes, prompt=batch.prompt / stages, finished=batch.finished / stages)

    def scaled(self, factor: float) -> StepTime:
        """The same with every step `factor` times as long (the edges of a band), as far as the data sheet allows."""
        return replace(self, pace=self.pace * factor)
