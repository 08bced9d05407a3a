"""The time of one training step of a language model under a layout, in closed form.

A step is (m + (p - 1) / v) microbatches of the slowest stage under 1F1B with m microbatches, p stages and v chunks a
stage (Narayanan et al., SC 2021, arXiv 2104.04473, section 2.2), and what follows them: the gradients' reduction that
no computation hides, and the optimizer. A microbatch is its matrix products at a share of the peak, the attention's
core, element-wise passes over the activations at memory bandwidth, and the exposed part of its traffic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from slipstick.estimators.core.parameters import Parameter, check_parameters
from slipstick.estimators.schedule.pipelines.training_network import TrainingLinks
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.files.records import Table
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.training_layout import TrainingLayout, attention_numbers, training_flop
from slipstick.workloads.language.training_memory import layer_numbers, parameters_of

PRECISIONS = {"bf16": "bfloat16", "fp8": "float8", "mxfp8": "float8", "nvfp4": "float4"}
"""Types of the matrix products of layers; the attention's core and the head stay in bfloat16."""
PARTS = (
    "products", "attention", "elementwise", "overhead", "tensor", "context", "expert", "pipeline", "bubble", "data",
    "optimizer", "stragglers", "input",
)  # fmt: skip
EASY_PEAK = 0.78e12
"""bfloat16 flop/s for each watt of the cap of an A100, whose products the cap hardly holds back."""
OPTIMIZER_TRAFFIC = 30.0
"""Bytes that Adam moves a parameter: gradient, weight and two moments read; these and a half weight written."""


@dataclass(frozen=True)
class TrainingTerms:
    """What the closed form does not know: starting values that physics suggests (see `MEGATRON_TERMS`)."""

    bf16: Annotated[float, Parameter("1", "share of the bfloat16 peak that products reach", 0.2, 1.0)] = 0.75
    fp8: Annotated[float, Parameter("1", "share of the float8 peak that products reach", 0.1, 1.0)] = 0.55
    fp4: Annotated[float, Parameter("1", "share of the float4 peak that products reach", 0.05, 1.0)] = 0.45
    routed: Annotated[float, Parameter("1", "rate of the experts' products over that of dense ones", 0.05, 1.0)] = 0.5
    attention: Annotated[float, Parameter("1", "share of the bfloat16 peak in the attention's core", 0.1, 1.0)] = 0.35
    passes: Annotated[float, Parameter("1", "times that kept activations cross main memory", 0.5, 30.0)] = 6.0
    overhead: Annotated[float, Parameter("s", "a layer of a microbatch takes beyond its work", 0.0, 0.1)] = 1e-4
    routing: Annotated[float, Parameter("s", "the same of a layer with experts, further", 0.0, 0.1)] = 5e-4
    tensor: Annotated[float, Parameter("1", "exposed share of tensor-parallel traffic", 0.01, 3.0)] = 0.7
    handed: Annotated[float, Parameter("1", "exposed share of hand-overs (stages, context)", 0.01, 3.0)] = 0.3
    expert: Annotated[float, Parameter("1", "exposed share of the experts' all-to-all", 0.01, 3.0)] = 0.7
    data: Annotated[float, Parameter("1", "exposed share of the data ranks' traffic", 0.01, 3.0)] = 0.2
    stragglers: Annotated[float, Parameter("1", "longer with each doubling of the devices", 0.0, 0.1)] = 0.005
    narrow: Annotated[float, Parameter("1", "width of products that reach half of that rate", 1.0, 4000.0)] = 300.0
    few: Annotated[float, Parameter("1", "tokens of an expert whose products reach half", 1.0, 8000.0)] = 100.0
    throttle: Annotated[float, Parameter("1", "power of peak over cap with which shares fall", 0.001, 1.0)] = 0.3

    def __post_init__(self) -> None:
        check_parameters(self)

    def share(self, dtype: str) -> float:
        """Share of the peak that products of a data type reach."""
        return {"bfloat16": self.bf16, "float16": self.bf16, "float8": self.fp8}.get(dtype, self.fp4)


MEGATRON_TERMS = TrainingTerms(
    bf16=0.614, fp8=0.712, fp4=0.52, routed=0.578, attention=0.46, passes=5.12, overhead=1.16e-4, routing=2.22e-3,
    tensor=0.57, handed=0.388, expert=0.843, data=0.213, stragglers=5.08e-3, narrow=245.0, few=140.0, throttle=0.286,
)  # fmt: skip
"""Fitted to 107 public runs: MLPerf training v5.0, v5.1 (Llama 3.1 405B) and Megatron-Bridge 26.02 to 26.08."""
FSDP_TERMS = TrainingTerms(
    bf16=0.975, fp8=0.706, fp4=0.45, routed=0.5, attention=0.302, passes=7.25, overhead=1.03e-4, routing=5e-4,
    tensor=0.7, handed=0.3, expert=0.7, data=1.16, stragglers=4.58e-3, narrow=716.0, few=100.0, throttle=0.585,
)  # fmt: skip
"""Fitted to 216 public runs of llm-foundry (eager PyTorch FSDP, dense models); terms of other traffic as started."""


@dataclass(frozen=True)
class TrainingStepTime:
    """Seconds of a step by part; they add up to it."""

    parts: Table[float]

    @property
    def seconds(self) -> float:
        """Seconds of the step, all parts together."""
        return sum(self.parts.values())

    def scaled(self, factor: float) -> TrainingStepTime:
        """Every part so many times as long."""
        return TrainingStepTime(Table({name: seconds * factor for name, seconds in self.parts.items()}))

    def fed(self, loading: float) -> TrainingStepTime:
        """A step whose input takes so many seconds to load, while the step before it runs: it waits for the rest."""
        return TrainingStepTime(Table({**self.parts, "input": max(0.0, loading - self.seconds)}))

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
    terms: TrainingTerms = MEGATRON_TERMS

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
    def _rates(self) -> tuple[float, float, float, float]:
        """Flop/s of layers' products, of the head's, of the attention's core; bytes/s of main memory."""
        dtype = PRECISIONS[self.precision]
        half = self.machine.peak("matrix", "bfloat16")
        dense = half / (self.machine.stated.power.cap or half / EASY_PEAK)  # of the board: `power_cap` holds lower caps
        held = min(1.0, (EASY_PEAK / dense) ** self.terms.throttle)
        half *= held
        wide = self.machine.peak("matrix", dtype) * self.terms.share(dtype) * held
        memory = self.machine.bandwidth(self.machine.main_memory)
        return wide, half * self.terms.bf16, half * self.terms.attention, memory

    @cached_property
    def _amounts(self) -> tuple[float, float, float, float, float]:
        """A token in a mean layer: flop of products (the experts' at their rate) and of the core, kept numbers, rows.

        Rows are the numbers of one copy of a token that goes to an expert.
        """
        m = self.model
        core = 2.0 * attention_numbers(m, self.sequence) / m.layers
        part = m.expert_layers / m.layers
        routed = m.experts.per_token * m.expert_weights * part if m.experts else 0.0
        products = m.token_weights / m.layers - routed
        return 2.0 * products, 2.0 * routed / self.terms.routed, core, layer_numbers(m), m.width * part

    def bound(self, devices: int, batch: int) -> float:
        """Seconds below which no layout comes: the model's flop at the peak of the precision."""
        flop = training_flop(self.model, self.sequence) * self.sequence * batch
        peak = max(self.machine.peak("matrix", PRECISIONS[self.precision]), self.machine.peak("matrix", "bfloat16"))
        return flop / (devices * peak)

    def layer(self, layout: TrainingLayout) -> dict[str, float]:
        """Seconds by part of one layer for one microbatch, forward and backward."""
        wide, _, core_rate, memory = self._rates
        products, routed, core, kept, rows = self._amounts
        m, t, net, terms = self.model, layout.tensor, self.network, self.terms
        tokens = self.sequence * layout.micro / layout.context
        share = tokens / t
        full = layout.recompute == "full"
        products *= 1 + terms.narrow * math.sqrt(t) / m.width
        if m.experts:
            visits = share * m.experts.per_token * layout.expert / m.experts.count
            routed *= (1 + terms.few / visits) * (1 + terms.narrow / m.experts.feed_forward)
            products += routed
        # flash attention computes the scores again in its backward pass: 2.5 forward passes, not 2
        cores = 3.0 + (0.5 if layout.recompute != "none" else 0.0) + full
        tensor = 2.0 * m.width * tokens
        gathers = (6 if full else 4) * 2 * (m.attention_layers + m.plain_layers) / (2 * m.layers)
        if m.linear:
            gathers += 4 * m.linear.layers / m.layers
        keys = 2.0 * m.cache_numbers * tokens / (1 if m.latent else t)
        passes = (4 if full else 3) / 3 * terms.passes
        return {
            "products": (4 if full else 3) * products * share / wide,
            "attention": cores * core * share / core_rate,
            "elementwise": passes * 2.0 * kept * share / memory,
            "overhead": (terms.overhead + terms.routing * m.expert_layers / m.layers) * (4 if full else 3) / 3,
            "tensor": terms.tensor * gathers * net.ring(tensor, t, 1),
            "context": terms.handed * 3 * net.ring(keys * layout.context, layout.context, t),
            "expert": terms.expert
            * (6 if full else 4)
            * net.dispatch(2.0 * rows * share, layout.expert, m.experts.per_token if m.experts else 1),
        }

    def step(self, layout: TrainingLayout, batch: int) -> TrainingStepTime:
        """Seconds of a step of `batch` sequences by part.

        Raises
        ------
        InputError
            Where model, batch or sequence do not divide so, or the layout has more devices than were named.
        """
        layout.check(self.model, batch, self.sequence)
        if layout.devices > self.devices:
            raise InputError(f"layout of {layout.devices} devices ({layout.text()}): want at most {self.devices}")
        m, p, v, net, terms = self.model, layout.pipeline, layout.chunks, self.network, self.terms
        rounds = layout.microbatches(batch)
        one = self.layer(layout)
        _, middle, last = layout.stage_layers(m.layers)
        tokens = self.sequence * layout.micro / (layout.context * layout.tensor)
        head = 6.0 * m.head_weights * tokens / self._rates[1]
        ends = last * sum(one.values()) + head
        slowest = max(middle * sum(one.values()), ends)
        layers, scores = (last, head) if slowest == ends else (middle, 0.0)
        micro = {name: seconds * layers for name, seconds in one.items()}
        micro["products"] += scores
        handed = 2.0 * m.width * tokens
        micro["pipeline"] = terms.handed * 2 * v * net.neighbour(handed, layout.stage) if p > 1 else 0.0
        parts = {name: rounds * seconds for name, seconds in micro.items()}
        busy = sum(micro.values())
        # the mean stage fills and drains the pipeline, the slowest one sets the pace
        mean = (m.layers * sum(one.values()) + head) / p + micro["pipeline"]
        parts["bubble"] = (p - 1) / v * min(mean, busy)
        parts["data"], parts["optimizer"] = self._update(layout, layers, rounds, busy)
        doublings = math.log2(layout.devices)
        parts["stragglers"] = terms.stragglers * doublings * sum(parts.values())
        return TrainingStepTime(Table({name: parts.get(name, 0.0) for name in PARTS}))

    def _update(self, layout: TrainingLayout, layers: float, rounds: int, busy: float) -> tuple[float, float]:
        """Seconds of the data ranks' traffic that computation does not hide, and of the optimizer."""
        ends = 1.0 if layout.pipeline > 1 else (1.0 if self.model.tied else 2.0)
        plain, routed = parameters_of(self.model, layers, ends)
        plain, routed = plain / layout.tensor, routed / layout.expert
        replicas, stride = layout.data * layout.context, layout.tensor
        copies = layout.stage // layout.expert
        share = replicas if layout.shard else 1
        update = OPTIMIZER_TRAFFIC * (plain / share + routed / (copies if layout.shard else 1)) / self._rates[3]

        def passed(size: float) -> float:
            return self.network.ring(size * plain, replicas, stride) + self.network.ring(
                size * routed, copies, layout.expert
            )

        if layout.shard == 3:  # weights gathered for forward and backward, gradients scattered, every microbatch
            traffic = 3 * passed(2.0)
            hidden = max(0.0, traffic - busy)
            return rounds * (hidden + self.terms.data * min(traffic, busy)), update
        traffic = passed(4.0) + passed(2.0)  # gradients in single precision, weights in half
        return max(0.0, traffic - busy) + self.terms.data * min(traffic, busy), update
