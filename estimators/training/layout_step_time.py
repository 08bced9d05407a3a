"""The time of one training step of a language model under a layout: its amounts of work, and their closed form.

Seconds of transfers between groups of devices, as numbers: alpha-beta over the links of a machine.

The symbolic model of single collectives is `estimators.operation.collectives`; a search over thousands of layouts
needs the same traffic in floats. Sources: Hockney 1994 (alpha-beta); Patarasuk and Yuan 2009 (rings).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.estimators.training.time_breakdown import PARTS, StepAmounts, TrainingTerms, step_parts
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.training_layout import TrainingLayout, attention_numbers, training_flop
from slipstick.workloads.language.training_memory import layer_numbers, parameters_of

HOST = ("infeed", "host")
"""Links that do not join devices with each other."""


@dataclass(frozen=True)
class TrainingLinks:
    """The nearest link, and the one that joins its groups.

    Parameters
    ----------
    near, far
        Bytes a second of one device, one direction.
    near_latency, far_latency
        Seconds of a step.
    domain
        Devices that the nearest link joins.
    devices
        Devices that all links join, as the machine's file says.
    """

    near: float
    near_latency: float
    domain: int
    far: float
    far_latency: float
    devices: int

    @classmethod
    def of(cls, machine: Machine, devices: int) -> TrainingLinks:
        """The links of a machine.

        Raises
        ------
        InputError
            Where there is no link beyond the nearest and it joins fewer devices. Beyond the last of several its rate is
            kept: ask `devices`.
        """
        links = [(name, link) for name, link in machine.links.items() if name not in HOST]
        if devices < 1:
            raise InputError(f"devices = {devices}: want at least 1")
        if not links:
            if devices > 1:
                raise InputError(f"machine {machine.name!r} has no links between devices: want links to join {devices}")
            return cls(1.0, 0.0, 1, 1.0, 0.0, 1)
        nearest, last = links[0][1], links[-1][1]
        if len(links) == 1 and devices > nearest.width:
            raise InputError(
                f"machine {machine.name!r}: link {links[0][0]} joins {nearest.width} devices, not {devices}; "
                "want a further link (links: ...) or a machine that has one (h100-dgx, gb200)"
            )
        return cls(
            nearest.bandwidth,
            nearest.latency,
            nearest.width,
            last.bandwidth / last.shared_by,
            last.latency,
            last.width,
        )

    def inside(self, ranks: int, stride: int) -> int:
        """Ranks of a group, every `stride`-th device, that the nearest link joins."""
        return max(1, min(ranks, self.domain // stride))

    def ring(self, data: float, ranks: int, stride: int) -> float:
        """Seconds of one pass of a ring: an all-gather of, or a reduce-scatter of, `data` bytes in all.

        Ranks of one domain pass the data of a ring to the next domain in parts, each by its own port.
        """
        if ranks == 1:
            return 0.0
        inside = self.inside(ranks, stride)
        moved = data * (ranks - 1) / ranks
        if inside == ranks:
            return moved / self.near + (ranks - 1) * self.near_latency
        domains = -(-ranks // inside)
        # a two-level ring: steps within a domain, and one over the domains
        wait = (inside - 1) * self.near_latency + (domains - 1) * self.far_latency
        return moved / min(self.near, self.far * inside) + wait

    def dispatch(self, data: float, ranks: int, copies: int) -> float:
        """Seconds in which each rank sends its tokens (`data` bytes) to `copies` experts each, spread over `ranks`.

        Every copy is sent by itself, as the default dispatcher of Megatron Core does (`moe_token_dispatcher_type` =
        "alltoall"); one that sends a token once to each domain (DeepSeek-AI, "DeepSeek-V3", arXiv 2412.19437, section
        3.2.2) is faster across domains.
        """
        if ranks == 1:
            return 0.0
        inside = self.inside(ranks, 1)
        domains = -(-ranks // inside)
        near = data * copies * (inside - 1) / inside / self.near + self.near_latency
        if domains == 1:
            return near
        return max(near, data * copies * (domains - 1) / domains / self.far + self.far_latency)

    def neighbour(self, data: float, stride: int) -> float:
        """Seconds to hand `data` bytes to the device `stride` further."""
        if stride < self.domain:
            return data / self.near + self.near_latency
        return data / self.far + self.far_latency


PRECISIONS = {"bf16": "bfloat16", "fp8": "float8", "mxfp8": "float8", "nvfp4": "float4"}
"""Types of the matrix products of layers; the attention's core and the head stay in bfloat16."""
EASY_PEAK = 0.78e12
"""bfloat16 flop/s for each watt of the cap of an A100, whose products the cap hardly holds back."""
OPTIMIZER_TRAFFIC = 30.0
"""Bytes that Adam moves a parameter: gradient, weight and two moments read; these and a half weight written."""


@dataclass(frozen=True)
class TrainingStepTime:
    """Seconds of a step by part; they add up to it."""

    parts: FrozenDict[float]

    @property
    def seconds(self) -> float:
        """Seconds of the step, all parts together."""
        return sum(self.parts.values())

    def with_loading(self, loading: float) -> TrainingStepTime:
        """A step whose input takes so many seconds to load, while the step before it runs: it waits for the rest."""
        return TrainingStepTime(FrozenDict({**self.parts, "input": max(0.0, loading - self.seconds)}))

    @property
    def bound(self) -> str:
        """The largest part; the input, where a step waits for it."""
        if self.parts.get("input", 0.0) > 0:
            return "input"
        return max(self.parts, key=lambda name: self.parts[name])


@dataclass(frozen=True)
class TrainingStep:
    """Step times of one model, sequence length and precision on one machine.

    Parameters
    ----------
    sequence
        Tokens of a sequence.
    precision
        Of the layers' products: bf16, fp8, mxfp8 or nvfp4.
    devices
        Most devices that a layout may use; the machine's links must join them.

    Raises
    ------
    InputError
        Where the precision is unknown, or the machine has no matrix engine for it.
    """

    model: LanguageModel
    machine: Machine
    sequence: int
    precision: str = "bf16"
    devices: int = 1
    terms: TrainingTerms = TrainingTerms()

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise unknown_name("precision of training", self.precision, list(PRECISIONS))
        self.machine.peak("matrix", PRECISIONS[self.precision])
        self.machine.peak("matrix", "bfloat16")
        if self.sequence < 1:
            raise InputError(f"sequence of {self.sequence} tokens: want at least 1")

    @cached_property
    def network(self) -> TrainingLinks:
        """Links between devices."""
        return TrainingLinks.of(self.machine, self.devices)

    @cached_property
    def _amounts(self) -> tuple[float, float, float, float, float]:
        """A token in a mean layer: flop of products, the experts' and of the core, kept numbers, rows.

        Rows are the numbers of one copy of a token that goes to an expert.
        """
        m = self.model
        core = 2.0 * attention_numbers(m, self.sequence) / m.layers
        part = m.expert_layers / m.layers
        routed = m.experts.per_token * m.expert_weights * part if m.experts else 0.0
        products = m.token_weights / m.layers - routed
        return 2.0 * products, 2.0 * routed, core, layer_numbers(m), m.width * part

    def bound(self, devices: int, batch: int) -> float:
        """Seconds below which no layout comes: the model's flop at the peak of the precision."""
        flop = training_flop(self.model, self.sequence) * self.sequence * batch
        peak = max(self.machine.peak("matrix", PRECISIONS[self.precision]), self.machine.peak("matrix", "bfloat16"))
        return flop / (devices * peak)

    @cached_property
    def _rates(self) -> dict[str, float]:
        """Peaks, and the power that they ask for over the cap (of the board: `power_cap` holds lower caps)."""
        dtype, half = PRECISIONS[self.precision], self.machine.peak("matrix", "bfloat16")
        dense = half / (self.machine.stated.power.cap or half / EASY_PEAK)
        return {
            "peak": self.machine.peak("matrix", dtype), "half": half, "pressed": max(1.0, dense / EASY_PEAK),
            "bf16": float(dtype == "bfloat16"), "fp8": float(dtype == "float8"), "fp4": float(dtype == "float4"),
        }  # fmt: skip

    def step(self, layout: TrainingLayout, batch: int) -> TrainingStepTime:
        """Seconds of a step of `batch` sequences by part.

        Raises
        ------
        InputError
            Where model, batch or sequence do not divide so, or the layout has more devices than were named.
        """
        parts = step_parts(self.amounts(layout, batch), self.terms)
        return TrainingStepTime(FrozenDict({name: parts.get(name, 0.0) for name in PARTS}))

    def amounts(self, layout: TrainingLayout, batch: int) -> StepAmounts:
        """What the closed form reads of a step of `batch` sequences.

        Raises
        ------
        InputError
            As `step`.
        """
        layout.check(self.model, batch, self.sequence)
        if layout.devices > self.devices:
            raise InputError(f"layout of {layout.devices} devices ({layout.text()}): want at most {self.devices}")
        m, t, net = self.model, layout.tensor, self.network
        products, routed, core, kept, rows = self._amounts
        tokens = self.sequence * layout.micro / layout.context
        share = tokens / t
        full = layout.recompute == "full"
        passes = 4 if full else 3
        # flash attention computes the scores again in its backward pass: 2.5 forward passes, not 2
        cores = 3.0 + (0.5 if layout.recompute != "none" else 0.0) + full
        gathers = (6 if full else 4) * 2 * (m.attention_layers + m.plain_layers) / (2 * m.layers)
        if m.linear:
            gathers += 4 * m.linear.layers / m.layers
        keys = 2.0 * m.cache_numbers * tokens / (1 if m.latent else t)
        visits, expert_thin, copies, mine = 1.0, 0.0, 1, 0.0
        if m.experts:
            copies, mine = m.experts.per_token, m.experts.count / layout.expert
            visits, expert_thin = share * copies * layout.expert / m.experts.count, 1 / m.experts.feed_forward
        rounds, p, v = layout.microbatches(batch), layout.pipeline, layout.chunks
        _, middle, last = layout.stage_layers(m.layers)
        memory = self.machine.bandwidth(self.machine.main_memory)
        middle_data, middle_update = self._update(layout, middle, memory)
        last_data, last_update = (middle_data, middle_update) if last == middle else self._update(layout, last, memory)
        return StepAmounts(
            **self._rates,
            products=passes * products * share, routed=passes * routed * share, scores=cores * core * share,
            thin=math.sqrt(t) / m.width, expert_thin=expert_thin, visits=visits,
            crossing=passes / 3 * 2.0 * kept * share / memory, repeats=passes / 3,
            with_experts=m.expert_layers / m.layers, held=mine,
            tensor=gathers * net.ring(2.0 * m.width * tokens, t, 1),
            context=3 * net.ring(keys * layout.context, layout.context, t),
            expert=(6 if full else 4) * net.dispatch(2.0 * rows * share, layout.expert, copies),
            head=6.0 * m.head_weights * share, layers=m.layers, stages=p, chunks=v, rounds=rounds, middle=middle,
            last=last, handed=2 * v * net.neighbour(2.0 * m.width * share, layout.stage) if p > 1 else 0.0,
            middle_data=middle_data, last_data=last_data, middle_update=middle_update, last_update=last_update,
            gathered=rounds if layout.shard == 3 else 1, doublings=math.log2(layout.devices),
        )  # fmt: skip

    def _update(self, layout: TrainingLayout, layers: float, memory: float) -> tuple[float, float]:
        """Seconds of the data ranks' traffic (of a microbatch under ZeRO 3, of a step else), and of the optimizer."""
        ends = 1.0 if layout.pipeline > 1 else (1.0 if self.model.tied else 2.0)
        plain, routed = parameters_of(self.model, layers, ends)
        plain, routed = plain / layout.tensor, routed / layout.expert
        replicas, copies = layout.data * layout.context, layout.stage // layout.expert
        update = OPTIMIZER_TRAFFIC * (plain / replicas + routed / copies if layout.shard else plain + routed) / memory

        def passed(size: float) -> float:
            rings = (size * plain, replicas, layout.tensor), (size * routed, copies, layout.expert)
            return sum(self.network.ring(*ring) for ring in rings)

        # ZeRO 3: weights gathered for forward and backward, gradients scattered, every microbatch; else gradients in
        # single precision and weights in half
        return 3 * passed(2.0) if layout.shard == 3 else passed(4.0) + passed(2.0), update
