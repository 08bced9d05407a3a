"""What a serving answer says below its rate: times with their bands, memory, what bounds it, energy, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstick.common.formatting import (
    count_shown,
    ends_shown,
    format_quantity,
    money_shown,
    share_shown,
    shares_shown,
    shown,
)
from slipstick.estimators.engine_steps.measured_steps import cached_measured
from slipstick.estimators.power.facility import price_text
from slipstick.estimators.power.power_cap import cap_watts
from slipstick.estimators.serving.serving_answer import Serving
from slipstick.experiments.serve.slo_limits import limits_text

LARGE_PRODUCT = 0.74
"""Share of the bfloat16 peak that a product of 8192^3 reaches on H100 by the calibration of kernels (H200 0.72)."""
GROWTH = 0.05
"""Share of all requests by which the queue grows over the second half of a stream's arrivals, from which it is named: a
server that keeps up with 90 % of them leaves so many waiting."""
MOSTLY = 0.5
"""Share of the time in steps with prompts beyond which their rate decides the answer."""


def lines(answer: Serving) -> list[str]:
    """One line each."""
    deployment, summary = answer.deployment, answer.summary()
    devices = int(summary["devices"])
    result = [f"beware: {text}" for text in warnings_of(answer)]
    for measure, name in (("ttft", "first token"), ("tpot", "further token")):
        if answer.served.quantiles(measure):
            result.append(_times(answer, measure, name))
    cache = f"{summary['cache_tokens']:,} tokens of cache, at most {share_shown(summary['cache_peak'])} in use"
    held = format_quantity(summary["weight_bytes_per_device"], "byte")
    capacity = format_quantity(deployment.step.device.capacity, "byte")
    lost = summary["preemptions"]
    fits = "fits" if not lost else f"the weights fit, the cache does not: {lost:,} times a request lost its place in it"
    result.append(f"memory: {fits}; {held} of weights a device of {capacity}; {cache}")
    busy = f"busy {share_shown(summary['busy'])}, {share_shown(summary['prompt_share'])} in steps with prompts"
    result.append(f"a decode step goes to: {shares_shown(answer.bounds)}; {busy}")
    if workers := answer.workers:
        over = count_shown(workers["kv_transfer_s"] * 1e3)
        shares = shares_shown({f"{name} workers busy": workers[f"{name}_busy"] for name in ("prefill", "decode")})
        result.append(f"{shares}; from a prompt read to its first token {over} ms (sending its cache, joining a step)")
    if answer.limits:
        share, least, most = (f"{share_shown(summary[f'meeting_limits{end}'])}" for end in ("", "_low", "_high"))
        result.append(f"{limits_text(answer.limits)}: kept by {share} of requests (80 %: {least} .. {most})")
    dollars, joules = summary["cost_usd_per_million_tokens"], summary["energy_J_per_million_tokens_at_most"]
    if dollars is not None:
        result.append(f"cost: {money_shown(dollars)} a million output tokens at {price_text(deployment.machine)}")
    if summary["power_W"] is not None:
        result.append(_energy(summary))
        if answer.facility.counted:
            result.append(answer.facility.text(summary["power_W"], devices))
    if joules is not None:
        joule = format_quantity(joules, "J")
        result.append(f"energy: at most {joule} a million output tokens (at the power cap, at the low end of tokens/s)")
    return result


def warnings_of(answer: Serving) -> list[str]:
    """What contradicts an answer, or what an engine would refuse: a line each."""
    deployment, summary = answer.deployment, answer.summary()
    model, machine = deployment.model, deployment.machine
    measured = cached_measured(deployment.known).disagreement if deployment.known else ""
    result = [*(text for text in (overload(answer), measured) if text), *deployment.contradictions]
    if answer.clock is not None and machine.clock < answer.clock:
        left, clock = (format_quantity(value, "Hz") for value in (machine.clock, answer.clock))
        result.append(
            f"the power cap of {cap_watts(machine):g} W holds the clock at {left} of {clock} (dynamic power as "
            "f V^2, reads and fixed times of kernels as long as before; no capped server was metered)"
        )
    peak = answer.peak_share_of_prompts
    if summary["prompt_share"] > MOSTLY and peak > LARGE_PRODUCT:
        result.append(
            f"prompts are read at {share_shown(peak)} of the peak, though a bfloat16 product of 8192^3 alone reaches "
            f"{share_shown(LARGE_PRODUCT)} of it on H100 (docs/notes/serving.md): they may take "
            f"{peak / LARGE_PRODUCT:.2f} x as long"
        )
    longest = max((one.input_tokens + one.output_tokens for one in answer.traffic.requests), default=0)
    if model.context and longest > model.context:
        result.append(
            f"the longest request has {longest:,} tokens, beyond the {model.context:,} that the model's file "
            "allows (max_position_embeddings): an engine refuses it as it stands"
        )
    return result


def overload(answer: Serving) -> str:
    """That a stream brings more requests than are served, so that its times depend on how many come; "" elsewhere."""
    came, rate = np.sort(answer.served.arrived), answer.traffic.rate
    before, left = (answer.served.waiting(float(at)) for at in (came[len(came) // 2], came[-1]))
    if rate is None or left - before <= max(GROWTH * len(came), 3 * math.sqrt(before + 1)):
        return ""
    return (
        f"{rate:g} requests/s are more than are served: {left:,} of {len(came):,} requests had no token yet when the "
        f"last one came, so times to the first token grow with --num-requests; want more --replicas or a lower --rate"
    )


def _energy(summary: Mapping[str, Any]) -> str:
    power, low, high = (summary[f"{name}power_W"] for name in ("", "low_", "high_"))
    each, least, most = (summary[f"{name}energy_J_per_token"] for name in ("", "low_", "high_"))
    return (
        f"power: {power:,.0f} W of all devices ({low:,.0f} .. {high:,.0f}), hosts and cooling apart; "
        f"{shown(each, 'J')} an output token ({ends_shown(least, most, 'J')})"
    )


def _times(answer: Serving, measure: str, name: str) -> str:
    words = []
    for quantile in ("mean", "p50", "p99"):
        value, low, high = answer.band(measure, quantile)
        words.append(f"{quantile} {shown(value, 's')} ({ends_shown(low, high)})")
    return f"{name}: " + ", ".join(words)
