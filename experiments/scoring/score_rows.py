"""The rows that machines may rely on: papers reproduced and scoreboards against measurements."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from slipstick.estimators.fitting.scores import LEVEL, grouped_coverage

Status = Literal["exact", "model", "qualitative", "not_reproducible"]
Evidence = Literal[
    "computed", "one-sided", "direction", "echo", "circular", "conflict of sources", "not reproducible"
]  # fmt: skip
"""What a row proves: a number computed from inputs that are named; that a bound is kept; a direction only; nothing, as
it gives back an input (echo), both sides come of the same data (circular) or published sources disagree on the number;
nothing, as it cannot be reproduced."""
ENOUGH_GROUPS = 5
"""Groups from which the coverage of a band is judged."""
JUDGED_WITHIN = 0.20
"""Relative tolerance of numbers of ours beside published ones for which no narrower one was set; fixed beforehand."""


@dataclass(frozen=True)
class ReproductionRow:
    """One number or claim of a paper beside ours.

    `status` is exact (a formula's cell), model (our machine model stands for theirs), qualitative (an ordering or a
    sign) or not_reproducible (with the reason). `ok` is null where nothing can be checked. A number of ours beside a
    published one is always judged, within `JUDGED_WITHIN` where no tolerance is given.

    Parameters
    ----------
    evidence
        What the row proves; None follows from status and values (`proves`).
    inputs
        What our number was computed from, in words.
    relabelled
        What the row counted as before its label was corrected ("held by wording"); "" where it was not.
    """

    table: str
    cell: str
    status: Status
    published: float | str | None = None
    ours: float | str | None = None
    unit: str = ""
    tolerance_abs: float | None = None
    tolerance_rel: float | None = None
    reason: str = ""
    holds: bool | None = None
    evidence: Evidence | None = None
    inputs: str = ""
    relabelled: str = ""

    @property
    def proves(self) -> Evidence:
        """What the row proves: as stated, or by its kind."""
        if self.evidence is not None:
            return self.evidence
        if self.ours is None:
            return "not reproducible"
        if self.status == "qualitative":
            return "direction"
        return "one-sided" if self.holds is not None and self._numbers else "computed"

    @property
    def _numbers(self) -> bool:
        """Whether a number of ours stands beside a published one."""
        return all(isinstance(value, (int, float)) for value in (self.ours, self.published))

    @property
    def _relabelled(self) -> str:
        return self.relabelled and f"relabelled, counted before as {self.relabelled}"

    @property
    def within(self) -> float | None:
        """The relative tolerance that the row is judged by."""
        default = self.tolerance_abs is None and self.tolerance_rel is None and self.holds is None and self._numbers
        return JUDGED_WITHIN if default else self.tolerance_rel

    @property
    def relative_error(self) -> float | None:
        """ours / published - 1, where both are numbers."""
        if isinstance(self.ours, str) or isinstance(self.published, str) or not self.published or self.ours is None:
            return None
        return self.ours / self.published - 1

    @property
    def ok(self) -> bool | None:
        """Within the larger of the two tolerances; for claims, whether they hold; None where nothing can be checked."""
        if self.holds is not None:
            return self.holds
        if self.evidence == "conflict of sources" or (self.tolerance_abs is None and self.within is None):
            return None
        if isinstance(self.ours, str) or isinstance(self.published, str):
            return self.ours == self.published
        if self.ours is None or self.published is None:
            return None
        allowed = max(self.tolerance_abs or 0.0, (self.within or 0.0) * abs(self.published))
        return abs(self.ours - self.published) <= allowed

    def to_dict(self) -> dict[str, Any]:
        """The row in its documented keys."""
        return {
            "table": self.table,
            "cell": self.cell,
            "status": self.status,
            "published": self.published,
            "ours": self.ours,
            "unit": self.unit,
            "relative_error": self.relative_error,
            "tolerance_abs": self.tolerance_abs,
            "tolerance_rel": self.within,
            "ok": self.ok,
            "reason": "; ".join(filter(None, (self.reason, self.inputs and f"from {self.inputs}", self._relabelled))),
            "evidence": self.proves,
        }


@dataclass(frozen=True)
class ValidationRow:
    """One score on data that the model was not fitted to, beside trivial baselines and the noise floor.

    `ok` is null where there is no goal or too few points; an interval's coverage never stands without its width.
    `groups`: how many independent groups were left out (devices, models, sources); None where that was not stated.
    `coverage_low`, `coverage_high`: between what the coverage lies in 90 of 100 draws where whole groups are drawn
        again; None for fewer than `ENOUGH_GROUPS`, which are shown and not judged.
    `interval_needed`: the factor on all half-widths (of a log) with which the band would have held its level: below 1
        the band is wider than it had to be.
    """

    dataset: str
    case: str
    held_out: str
    n: int
    metric: str
    unit: str
    ours: float | None
    baselines: dict[str, float] = dataclasses.field(default_factory=dict)
    goal: float | None = None
    ok: bool | None = None
    interval_level: float | None = None
    interval_coverage: float | None = None
    interval_width: float | None = None
    noise_floor: float | None = None
    reason: str = ""
    groups: int | None = None
    coverage_low: float | None = None
    coverage_high: float | None = None
    interval_needed: float | None = None

    def over(
        self, groups: Sequence[str], inside: npt.ArrayLike | None = None, away: npt.ArrayLike | None = None
    ) -> ValidationRow:
        """The row with the number of its groups, how far redrawing them moves its coverage, and what width it needed.

        Parameters
        ----------
        groups
            What was left out with each scored number, shape (n,).
        inside
            Whether each measurement lies in its band, shape (n,); None without a band.
        away
            How many half-widths of its band it lies from the answer (`scores.half_widths_away`), shape (n,); None where
            that is not known.
        """
        count = len(set(groups))
        needed = (
            None if away is None else float(np.quantile(np.asarray(away, dtype=float), self.interval_level or LEVEL))
        )
        row = dataclasses.replace(self, groups=count or None, interval_needed=needed)
        if inside is None or count < ENOUGH_GROUPS:
            return row
        low, high = grouped_coverage(groups, inside)
        return dataclasses.replace(row, coverage_low=low, coverage_high=high)

    def to_dict(self) -> dict[str, Any]:
        """The row in its documented keys, in their documented order."""
        keys = ("dataset", "case", "held_out", "n", "metric", "unit", "baselines", "ours", "goal", "ok")
        more = ("interval_level", "interval_coverage", "interval_width", "noise_floor", "reason")
        last = ("groups", "coverage_low", "coverage_high", "interval_needed")
        return {key: getattr(self, key) for key in (*keys, *more, *last)}


def skipped(dataset: str, reason: str) -> ValidationRow:
    """The row of a scoreboard that cannot run, with the reason (a missing file)."""
    return ValidationRow(dataset, "skipped", "", 0, "", "", None, reason=reason)
