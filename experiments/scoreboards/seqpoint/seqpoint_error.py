"""How well representative iterations predict the time of runs they were not chosen on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from slipstick.estimators.sampling.iteration_choice import Selection
from slipstick.estimators.sampling.seqpoint import select
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.workloads.runs.iterations import FloatArray, Iterations

LEVEL = 0.9


SEEDS = 20


Chooser = Callable[[Iterations, int], Selection]


@dataclass
class SelectionScore:
    """Errors of projected epoch times, relative, with their intervals where there are any."""

    errors: list[float] = field(default_factory=list)
    inside: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    savings: list[float] = field(default_factory=list)

    def add(self, chosen: Selection, values: FloatArray, truth: float) -> None:
        """Project from the representatives' values (seconds, shape (n,)) and compare with the true total."""
        projected = chosen.project(values)
        self.errors.append(projected.total / truth - 1)
        self.sizes.append(len(chosen))
        self.savings.append(chosen.saving_serial)
        band = projected.interval(LEVEL)
        if band is not None:
            self.inside.append(band[0] <= truth <= band[1])
            self.widths.append(band[1] / max(band[0], 1e-9 * band[1]))

    def measure(self, metric: str) -> float:
        """mean, p95 or max of |error|, in per cent."""
        off = 100 * np.abs(self.errors)
        return float({"mean": np.mean(off), "p95": np.quantile(off, 0.95), "max": np.max(off)}[metric])

    def row(
        self,
        dataset: str,
        case: str,
        held_out: str,
        metric: str,
        goal: float | None,
        rivals: Mapping[str, SelectionScore],
        floor: float | None,
        reason: str,
    ) -> ValidationRow:
        """A row of the scoreboard; the baselines are the rivals by the same metric."""
        ours = self.measure(metric)
        return ValidationRow(
            dataset=dataset,
            case=case,
            held_out=held_out,
            n=len(self.errors),
            metric=f"|error of epoch time|, {metric}",
            unit="%",
            ours=ours,
            baselines={name: rival.measure(metric) for name, rival in rivals.items()},
            goal=goal,
            ok=None if goal is None else ours <= goal,
            interval_level=LEVEL if self.inside else None,
            interval_coverage=float(np.mean(self.inside)) if self.inside else None,
            interval_width=float(np.mean(self.widths)) if self.widths else None,
            noise_floor=floor,
            reason=f"{np.mean(self.sizes):.0f} iterations, saving {np.mean(self.savings):.1f}x; {reason}",
        )


def choosers(size: int) -> dict[str, Chooser]:
    """The methods that choose representatives, by name, each with `size` of them where it takes a size."""
    return {
        "stratified": lambda run, seed: select("stratified", run, size=size, seed=seed),
        "k-means": lambda run, seed: select("k-means", run, size=size, seed=seed),
        "seqpoint": lambda run, seed: select("seqpoint", run, error=1e-6, most=size),
        "equal-width": lambda run, seed: select("seqpoint", run, error=0.99, bins=size, most=size),
        "uniform": lambda run, seed: select("uniform", run, size=size, seed=seed),
    }
