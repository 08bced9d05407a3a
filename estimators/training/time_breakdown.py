"""The closed form of one training step: seconds by part, from amounts of work and the terms that are fitted.

A step is (m + (p - 1) / v) microbatches of the slowest stage under 1F1B with m microbatches, p stages and v chunks a
stage (Narayanan et al., SC 2021, arXiv 2104.04473, section 2.2), and what follows them: the gradients' reduction that
no computation hides, and the optimizer. A microbatch is its matrix products at a share of the peak, the attention's
core, element-wise passes over the activations at memory bandwidth, and the exposed part of its traffic; no layer takes
less than its host needs to launch it, which is what small microbatches of experts wait for: the six products of each
expert that a device holds, and the casts of their operands, are launched one by one (some twelve launches of 10-20 us).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from slipstick.common.errors import InputError
from slipstick.estimators.symbolic.formula import Parameter, check_parameters

Numbers: TypeAlias = Any
"""A number, or an array of one number a step."""
PARTS = (
    "products", "attention", "elementwise", "overhead", "tensor", "context", "expert", "pipeline", "bubble", "data",
    "optimizer", "stragglers", "input",
)  # fmt: skip

SHARPNESS = 4.0
"""Of the passage from layers that wait for their device to layers that wait for their host: where both take as long,
a layer takes a fifth longer, since kernels are of unequal length."""


@dataclass(frozen=True)
class TrainingTerms:
    """What the closed form does not know: starting values that physics suggests (how sure: `TRAINING_LAW`)."""

    bf16: Annotated[float, Parameter("1", "share of the bfloat16 peak that products reach", 0.2, 1.0)] = 0.75
    fp8: Annotated[float, Parameter("1", "share of the float8 peak that products reach", 0.1, 1.0)] = 0.55
    fp4: Annotated[float, Parameter("1", "share of the float4 peak that products reach", 0.05, 1.0)] = 0.45
    routed: Annotated[float, Parameter("1", "rate of the experts' products over that of dense ones", 0.05, 1.0)] = 0.5
    attention: Annotated[float, Parameter("1", "share of the bfloat16 peak in the attention's core", 0.1, 1.0)] = 0.35
    passes: Annotated[float, Parameter("1", "times that kept activations cross main memory", 0.5, 30.0)] = 6.0
    overhead: Annotated[float, Parameter("s", "a layer of a microbatch keeps its host busy", 0.0, 0.1)] = 1e-3
    routing: Annotated[float, Parameter("s", "the same of a layer with experts, further", 0.0, 0.1)] = 3e-3
    held: Annotated[float, Parameter("s", "the same of each expert that a device holds", 0.0, 0.1)] = 150e-6
    tensor: Annotated[float, Parameter("1", "exposed share of tensor-parallel traffic", 0.01, 3.0)] = 0.7
    handed: Annotated[float, Parameter("1", "exposed share of hand-overs (stages, context)", 0.01, 3.0)] = 0.3
    expert: Annotated[float, Parameter("1", "exposed share of the experts' all-to-all", 0.01, 3.0)] = 0.7
    data: Annotated[float, Parameter("1", "exposed share of the data ranks' traffic", 0.01, 3.0)] = 0.2
    stragglers: Annotated[float, Parameter("1", "longer with each doubling of the devices", 0.0, 0.1)] = 0.005
    narrow: Annotated[float, Parameter("1", "width of products that reach half of that rate", 1.0, 4000.0)] = 300.0
    few: Annotated[float, Parameter("1", "tokens of an expert whose products reach half", 1.0, 8000.0)] = 100.0
    throttle: Annotated[float, Parameter("1", "power of peak over cap with which shares fall", 0.001, 1.0)] = 0.3
    factor: Annotated[float, Parameter("1", "on the work of the devices themselves", 0.05, 20.0)] = 1.0

    def __post_init__(self) -> None:
        check_parameters(self)


@dataclass(frozen=True)
class StepAmounts:
    """What a layout asks of one device in a step, for terms of one. Arrays hold one number a step.

    Parameters
    ----------
    peak, half
        Flop/s of the layers' products in their precision, and in bfloat16.
    bf16, fp8, fp4
        1 for the precision of the layers' products, 0 for the two others.
    pressed
        Power of the peak over the cap, at least 1.
    products, routed, scores
        Flop of a layer for one microbatch, forward and backward: of dense products, the experts' and attention's core.
    thin, expert_thin
        1 / width of dense products (of one tensor rank, in the root) and of the experts'.
    visits
        Tokens of an expert.
    crossing
        Seconds in which kept activations of a layer cross main memory once.
    repeats
        Passes over a layer, over forward and backward ones: 4 / 3 where it is computed again.
    with_experts, held
        Share of layers that have experts; experts of such a layer on a device.
    tensor, context, expert
        Seconds of traffic of a layer for one microbatch.
    head
        Flop of the head for one microbatch.
    layers, stages, chunks, rounds
        Of the model; of the pipeline; microbatches.
    middle, last
        Layers of a middle stage and of the last.
    handed
        Seconds of hand-overs between stages for one microbatch.
    middle_data, last_data, middle_update, last_update
        Seconds of the data ranks' traffic and of the optimizer, by the stage that is slowest.
    gathered
        Times in a step that this traffic meets the work of a microbatch: 1, or every one under ZeRO 3.
    doublings
        log2 of the devices.
    """

    peak: Numbers
    half: Numbers
    bf16: Numbers
    fp8: Numbers
    fp4: Numbers
    pressed: Numbers
    products: Numbers
    routed: Numbers
    scores: Numbers
    thin: Numbers
    expert_thin: Numbers
    visits: Numbers
    crossing: Numbers
    repeats: Numbers
    with_experts: Numbers
    held: Numbers
    tensor: Numbers
    context: Numbers
    expert: Numbers
    head: Numbers
    layers: Numbers
    stages: Numbers
    chunks: Numbers
    rounds: Numbers
    middle: Numbers
    last: Numbers
    handed: Numbers
    middle_data: Numbers
    last_data: Numbers
    middle_update: Numbers
    last_update: Numbers
    gathered: Numbers
    doublings: Numbers


def layer_parts(a: StepAmounts, q: TrainingTerms) -> dict[str, Numbers]:
    """Seconds by part of one layer for one microbatch, forward and backward: of its device, or longer, of its host.

    Raises
    ------
    InputError
        Where they are too long for numbers.
    """
    slower = q.factor * a.pressed**q.throttle
    share = a.bf16 * q.bf16 + a.fp8 * q.fp8 + a.fp4 * q.fp4
    routed = a.routed / q.routed * (1 + q.few / a.visits) * (1 + q.narrow * a.expert_thin)
    parts = {
        "products": (a.products * (1 + q.narrow * a.thin) + routed) / (a.peak * share) * slower,
        "attention": a.scores / (a.half * q.attention) * slower,
        "elementwise": q.passes * a.crossing * q.factor,
        "tensor": q.tensor * a.tensor,
        "context": q.handed * a.context,
        "expert": q.expert * a.expert,
    }
    host = (q.overhead + (q.routing + q.held * a.held) * a.with_experts) * a.repeats
    busy = sum(parts.values())
    try:
        return {**parts, "overhead": (busy**SHARPNESS + host**SHARPNESS) ** (1 / SHARPNESS) - busy}
    except OverflowError:
        raise InputError(f"a layer of {max(busy, host):.3g} s: no machine is so slow; check its rates") from None


def step_parts(a: StepAmounts, q: TrainingTerms) -> dict[str, Numbers]:
    """Seconds of a step by part; they add up to it."""
    one = layer_parts(a, q)
    layer = sum(one.values())
    head = a.head / (a.half * q.bf16) * a.pressed**q.throttle * q.factor
    at_end = 1.0 * (a.last * layer + head >= a.middle * layer)
    held = a.middle + at_end * (a.last - a.middle)
    parts = {name: a.rounds * held * seconds for name, seconds in one.items()}
    parts["products"] = parts["products"] + a.rounds * at_end * head
    pipeline = q.handed * a.handed
    parts["pipeline"] = a.rounds * pipeline
    busy = held * layer + at_end * head + pipeline
    # the mean stage fills and drains the pipeline, the slowest one sets the pace
    mean = (a.layers * layer + head) / a.stages + pipeline
    parts["bubble"] = (a.stages - 1) / a.chunks * least(mean, busy)
    traffic = a.middle_data + at_end * (a.last_data - a.middle_data)
    hidden = least(traffic, busy)
    parts["data"] = a.gathered * (traffic - hidden + q.data * hidden)
    parts["optimizer"] = a.middle_update + at_end * (a.last_update - a.middle_update)
    parts["stragglers"] = q.stragglers * a.doublings * sum(parts.values())
    return parts


def least(one: Numbers, other: Numbers) -> Numbers:
    """The smaller of two, of numbers or arrays."""
    return one + (other < one) * (other - one)
