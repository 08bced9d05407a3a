"""A fitted law after its user measured a few rows: the same law, its values and effects moved as far as these say.

Before the rows, values and effects of groups that were fitted are known with their posterior covariance, and effects of
groups that were not with their estimated width: a new chip, generation or engine may differ by so much. Rows of one
configuration err alike; what its rows show of that error holds for its other rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.formatting import ratio_shown
from slipstick.estimators.fitting.fitted_model import (
    SOURCE,
    UNGROUPED,
    Coordinate,
    Design,
    LawFit,
    LawRows,
    TimeLaw,
    slopes_of,
)
from slipstick.estimators.fitting.user_rows import FREEDOM, UserRows, left_out_errors

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Of the way to what the rows say."""
FALLS, FEW = 0.95, 3
"""What is left of the left-out error where rows are believed at all; fewer rows cannot be held against each other."""
CAPPED, MOST = 0.7, 0.5
"""Log errors beyond count as this, so that one odd row decides nothing; more than this share of rows must gain."""


@dataclass(frozen=True, eq=False)
class LawKnown(UserRows):
    """Measured rows as a function of coordinates z: log values are ``mean + roots z``."""

    law: TimeLaw
    rows: LawRows
    design: Design
    mean: FloatArray
    roots: FloatArray

    @classmethod
    def of(cls, fit: LawFit, law: TimeLaw, rows: LawRows) -> LawKnown:
        """From rows whose groups all have coordinates (`open_to`)."""
        noise = np.full(len(rows), max(fit.scatter[name] for name in _sources(fit, rows)))
        design = Design(law, fit.coordinates, rows.groups, len(rows))
        roots = np.asarray(np.linalg.cholesky(fit.covariance), dtype=float)
        return cls(np.log(rows.seconds), noise, law, rows, design, fit.logs, roots)

    @property
    def size(self) -> int:
        """See `UserRows.size`."""
        return len(self.mean)

    def at(self, coordinates: FloatArray) -> FloatArray:
        """See `UserRows.at`."""
        values = self.design.values(self.mean + self.roots @ coordinates)
        return np.asarray(np.log(self.law.predict(values, self.rows.columns)), dtype=float)

    def linear(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See `UserRows.linear`."""
        values = self.design.values(self.mean + self.roots @ coordinates)
        slopes = self.design.jacobian(slopes_of(self.law, self.rows.columns, values))
        return np.log(self.law.predict(values, self.rows.columns)), slopes @ self.roots


@dataclass(frozen=True)
class Known:
    """A law with a user's rows.

    `fit`: what holds with them.
    `share`: how far they moved it: 0 where they do not predict each other better than the law alone.
    `before`, `after`: mean absolute log error of each row, by the law alone and with the others' help; None below three
        rows.
    """

    fit: LawFit
    share: float
    before: float | None = None
    after: float | None = None

    def text(self, factors: Sequence[float], left: Sequence[float], half: float) -> str:
        """What the rows changed, in a line.

        `factors`, `left`: by how much each row took longer than the law said, alone and moved.
        `half`: half of the moved law's band of log time at the rows: what lies outside is said.
        """
        count, typical = len(factors), float(np.exp(np.median(np.log(factors))))
        words = f"{count} measured step{'s' if count > 1 else ''} (x{ratio_shown(typical)} of what others say)"
        if self.before is None or self.after is None:
            rest = float(np.exp(np.median(np.log(left))))
            apart = f", and still x{ratio_shown(rest)} of what this answer says (check its load and settings)"
            return f"{words}: used{apart if abs(np.log(rest)) > half else ''}"
        if not self.share:
            return f"{words}: not used, since they do not predict each other better than the law alone does"
        return f"{words}: used, each is {self.after:.0%} off by the others and {self.before:.0%} without"


def open_to(fit: LawFit, law: TimeLaw, rows: LawRows, shared_by: tuple[str, str]) -> LawFit:
    """The fit with a coordinate for each group of the rows that was not fitted, and for the error of a configuration.

    `shared_by`: parameter and level whose effects take the part of the scatter that rows of one configuration share.
    """
    sources = _sources(fit, rows)
    scatter = max(fit.scatter[name] for name in sources)
    common = max(fit.shared[name] * fit.scatter[name] ** 2 for name in sources)
    widths = {**fit.widths, shared_by: float(np.hypot(fit.widths[shared_by], np.sqrt(common)))}
    new = tuple(
        Coordinate(prior.name, level, group)
        for prior in law.parameters
        for level in prior.levels
        for group in sorted(set(rows.groups[level]) - {UNGROUPED})
        if Coordinate(prior.name, level, group) not in fit.coordinates
    )
    covariance = np.zeros((len(fit.logs) + len(new),) * 2)
    covariance[: len(fit.logs), : len(fit.logs)] = fit.covariance
    for at, one in enumerate(fit.coordinates):
        covariance[at, at] += common * ((one.parameter, one.level) == shared_by)
    for at, one in enumerate(new, len(fit.logs)):
        covariance[at, at] = widths[one.parameter, one.level] ** 2
    inside = float(np.sqrt(max(scatter**2 - common, 0.0)))
    opened = {one.level for one in new} & fit.stretches.keys()
    stretch = max([fit.stretches[level] for level in opened] or [fit.stretch])  # as wide as while it was unseen
    return replace(
        fit, coordinates=(*fit.coordinates, *new), logs=np.concatenate([fit.logs, np.zeros(len(new))]),
        covariance=covariance, widths=widths, scatter={**fit.scatter, **dict.fromkeys(sources, inside)},
        stretch=stretch,
    )  # fmt: skip


def with_known(fit: LawFit, law: TimeLaw, rows: LawRows, shared_by: tuple[str, str]) -> Known:
    """What a user's rows change: as far as each is predicted better by the others than by the law alone.

    `rows`: all of one machine under one engine, or of a few.
    `shared_by`: see `open_to`.
    """
    opened = open_to(fit, law, rows, shared_by)
    model = LawKnown.of(opened, law, rows)
    share, before, after = 1.0, None, None
    if len(rows) < FEW:  # none contradicts them: what is far off is the configuration, and no outlier of its rows
        opened = _as_far_as(opened, model, shared_by)
        model = replace(LawKnown.of(opened, law, rows), freedom=np.inf)
    best = model.likeliest(np.ones(len(rows), dtype=bool))
    if len(rows) >= FEW:
        errors = np.abs(left_out_errors(model, best, SHARES))
        mean, better = np.minimum(errors, CAPPED).mean(axis=1), (errors < errors[0]).mean(axis=1)
        place = int(np.argmin(mean))
        place = place if mean[place] < FALLS * mean[0] and better[place] > MOST else 0
        share, before, after = SHARES[place], float(mean[0]), float(mean[place])
    off = model.measured - model.at(share * best)
    scatter = float(np.sqrt((FREEDOM * model.noise[0] ** 2 + off @ off) / (FREEDOM + len(off))))
    sources = {}
    if scatter > model.noise[0]:  # what the law cannot follow is no smaller beside what was measured
        model = replace(model, noise=np.full(len(off), scatter))
        best, sources = (
            model.likeliest(np.ones(len(rows), dtype=bool), best),
            dict.fromkeys(_sources(fit, rows), scatter),
        )
    known = model.roots @ model.left(best) @ model.roots.T
    covariance = (1 - share) * opened.covariance + share * known
    moved = replace(
        opened, logs=opened.logs + share * (model.roots @ best), covariance=(covariance + covariance.T) / 2,
        scatter={**opened.scatter, **sources},
    )  # fmt: skip
    return Known(moved, share, before, after)


def _sources(fit: LawFit, rows: LawRows) -> frozenset[str]:
    """Whose scatter rows have: as their groups name it, else of all."""
    named = frozenset(rows.groups.get(SOURCE, (UNGROUPED,)))
    return named if named <= fit.scatter.keys() else frozenset(fit.scatter)


def _as_far_as(fit: LawFit, model: LawKnown, shared_by: tuple[str, str]) -> LawFit:
    """The fit whose error of a configuration is as wide as makes rows so far off most probable; never narrower."""
    here, slope = model.linear(np.zeros(model.size))
    expected = np.einsum("ij,ij->i", slope, slope) + model.noise**2
    missing = float(np.max((model.measured - here) ** 2 - expected))
    covariance = fit.covariance.copy()
    for at, one in enumerate(fit.coordinates):
        if (one.parameter, one.level) == shared_by and one.group in model.rows.groups[one.level]:
            covariance[at, at] += max(missing, 0.0)
    return replace(fit, covariance=covariance)
