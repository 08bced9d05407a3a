"""The law of a training step: terms with what is expected of them, and by what they vary from machine to release.

Megatron and FSDP are one law: what trains is a level of grouping like the chip, the release and the recipe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.conditions import by_release, numbers_of_release, release_note
from slipstick.estimators.fitting.fitted_file import FittedFile
from slipstick.estimators.fitting.fitted_model import (
    SOURCE,
    UNGROUPED,
    Columns,
    FormulaLaw,
    Grouping,
    LawFit,
    ParameterPrior,
    mean_of_levels,
)
from slipstick.estimators.symbolic.formula import parameters
from slipstick.estimators.training.time_breakdown import StepAmounts, TrainingTerms, step_parts
from slipstick.hwmodels.machine import Machine

LEVELS = tuple(
    Grouping(name, width)
    for name, width in {"vendor": 0.3, "chip": 0.3, "software": 0.6, "release": 0.2, "recipe": 0.1}.items()
)
"""Stacks of software differ by almost a term's own width, hosts of chips and releases less, and one model in one
precision on one chip by a tenth from what its parts say."""
OF_A_STACK = ("bf16", "fp8", "attention", "passes", "overhead", "data", "stragglers", "narrow", "throttle")
VARY = {
    **dict.fromkeys(OF_A_STACK, ("software",)),
    "routed": ("release",),
    "routing": ("chip", "release"),
    "factor": ("vendor", "release", "recipe"),
}
USUAL = 0.7
"""Log standard deviation that is expected of a term about its start."""
SURER = {"bf16": 0.2, "fp8": 0.25, "fp4": 0.3, "attention": 0.35, "passes": 0.4, "factor": 0.3}
"""Terms that physics knows better: shares of a peak, and how often activations cross memory; the factor as widely as a
vendor's, so that what one vendor's machines show is half of it expected of another's."""
RELEASED = {"megatron": "megatron-bridge"}
"""Whose releases a stack's plans follow."""
UNNAMED = ""
"""The software of a question that names none: an unseen level of the law, by what is known of those that were seen."""


def _priors() -> tuple[ParameterPrior, ...]:
    return tuple(
        ParameterPrior(
            name, note.unit, note.meaning, value, SURER.get(name, USUAL), max(note.low, 1e-6), note.high,
            "share" if name in SURER else "term", VARY.get(name, ()),
        )
        for name, (value, note) in parameters(TrainingTerms()).items()
    )  # fmt: skip


def _seconds(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of each row; shares of a peak are at most one, so that no row is below its flop at the peak."""
    terms: Any = SimpleNamespace(**parameters)
    amounts = StepAmounts(**{field.name: columns[field.name] for field in fields(StepAmounts)})
    return np.asarray(sum(step_parts(amounts, terms).values()), dtype=float)


TRAINING_LAW = FormulaLaw("training-step", _priors(), _seconds, LEVELS, at_once=True)
"""Seconds of steps of training."""


def columns_of(steps: Sequence[StepAmounts]) -> dict[str, FloatArray]:
    """What the law reads of steps, arrays of shape (steps,)."""
    return {f.name: np.array([getattr(one, f.name) for one in steps], dtype=float) for f in fields(StepAmounts)}


def vendor_of(machine: Machine) -> str:
    """The maker of a machine, as groups of the law name it."""
    return machine.family.split("-")[0]


def training_groups(
    machine: Machine, chip: str, software: str, release: str, model: str, precision: str
) -> dict[str, str]:
    """The groups of a step; `release` names who released what ("megatron-bridge 26.04"), or is empty.

    Steps scatter as those of whoever released the software, or of the software.
    """
    return {
        SOURCE: release.partition(" ")[0] or software,
        "vendor": vendor_of(machine), "chip": chip, "software": software, "release": release,
        "recipe": f"{software} {chip} {model} {precision}",
    }  # fmt: skip


@dataclass(frozen=True, eq=False)
class TrainingFit:
    """The law as fitted: terms and bands for a machine, a stack of software, its release, a model and a precision.

    `stacks`: software by the vendor of the machines on which runs of it were fitted; of a vendor not in it, any.
    """

    fit: LawFit
    stacks: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, document: FittedFile) -> TrainingFit:
        """From a file of fitted numbers.

        Raises InputError where it holds no fit of the law.
        """
        vendors = {name: facts.get("vendors", ()) for name, facts in document.facts.items()}
        return cls(document.fit(TRAINING_LAW.name), stacks_of(vendors))

    def known(self, groups: Mapping[str, str]) -> dict[str, str]:
        """The groups with a release that was measured: software keeps what earlier releases gained.

        A release that was not measured stands for the newest before it, no release for the newest of its stack. On
        machines of a vendor of whom nothing was measured another stack runs, whatever it is called.
        """
        if self._elsewhere(groups):
            other = f"of {groups['vendor']}"
            return {**groups, SOURCE: other, "software": other, "release": other}
        who, _, version = self._released(groups).partition(" ")
        seen = self.releases(who)
        earlier = [one for one in seen if not version or numbers_of_release(one) <= numbers_of_release(version)]
        if not seen:
            return {**groups, "release": UNGROUPED}
        return {**groups, SOURCE: who, "release": f"{who} {(earlier[-1:] or seen[:1])[0]}"}

    def _elsewhere(self, groups: Mapping[str, str]) -> bool:
        return groups["vendor"] not in self.stacks  # a step of one's own makes no vendor known

    def _released(self, groups: Mapping[str, str]) -> str:
        """Who released what a question's software follows, with the version where one was named."""
        return groups["release"] or RELEASED.get(groups["software"], UNGROUPED)

    def releases(self, who: str) -> list[str]:
        """Versions of a publisher that were measured, oldest first."""
        named = (name.partition(" ") for name in self.fit.seen("release"))
        return by_release(version for name, _, version in named if name == who)

    def release_note(self, groups: Mapping[str, str]) -> str:
        """Where a release that was named lies beside those measured, and which answers for it; "" where it is one."""
        release = self._released(groups)
        who, _, version = release.partition(" ")
        if self._elsewhere(groups) or not version or release in self.fit.seen("release"):
            return ""
        return release_note(
            version, self.releases(who), self.known(groups)["release"].partition(" ")[2] or "their mean"
        )

    def candidates(self, groups: Mapping[str, str]) -> tuple[dict[str, str], ...]:
        """The groups themselves; where no software is named, those of each measured on the vendor's machines."""
        if groups["software"] != UNNAMED or self._elsewhere(groups):
            return (dict(groups),)
        return tuple(
            {**groups, SOURCE: name, "software": name, "recipe": f"{name}{groups['recipe']}"}
            for name in sorted(self.stacks.get(groups["vendor"], self.fit.seen("software")))
        )

    def terms(self, groups: Mapping[str, str]) -> TrainingTerms:
        """The terms that hold for groups (`training_groups`): of software that nobody named the geometric mean."""
        rows = [self.known(one) for one in self.candidates(groups)]
        values = self.fit.values(TRAINING_LAW, {name: [row[name] for row in rows] for name in rows[0]}, len(rows))
        return TrainingTerms(**mean_of_levels(values))

    def seconds(self, columns: Columns, groups: Sequence[Mapping[str, str]]) -> FloatArray:
        """Of steps, shape (steps,)."""
        return self.fit.seconds(TRAINING_LAW, columns, self.levels(groups))

    def half_width(
        self, columns: Columns, groups: Sequence[Mapping[str, str]], without: Collection[str] = ()
    ) -> FloatArray:
        """Half of the 80 % band of log time of steps, shape (steps,): wider the less of their groups was measured.

        A release that was not measured adds the law's own effect of releases, whichever answers for it.

        `without`: levels that add nothing where the groups there were not measured.
        """
        levels = self.levels(groups)
        levels["release"] = [
            self._released(one) if self.release_note(one) else known
            for one, known in zip(groups, levels["release"], strict=True)
        ]
        for name in without:
            seen = self.fit.seen(name)
            levels[name] = [group if group in seen else UNGROUPED for group in levels[name]]
        return self.fit.half_width(TRAINING_LAW, columns, levels)

    def unnamed(
        self, columns: Columns, groups: Mapping[str, str], without: Collection[str] = ()
    ) -> tuple[float, dict[str, float]]:
        """Of a step whose software nobody named: half of the 80 % band of its log time, and its seconds by software.

        The band is that of a stack that was not seen, and no narrower than under any that was.

        `without`: as `half_width` has it; with "software" in it, the band under the least sure one.
        """
        candidates = self.candidates(groups)
        other = f"another of {groups['vendor']}"
        unseen = {**groups, SOURCE: other, "software": other}
        rows = candidates if "software" in without else (*candidates, unseen)
        table = {name: np.repeat(column, len(rows)) for name, column in columns.items()}
        half = float(self.half_width(table, rows, without).max())
        seconds = self.seconds(table, rows)
        return half, {one["software"]: float(time) for one, time in zip(candidates, seconds, strict=False)}

    def levels(self, groups: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
        """By level the group of each step, as the fit knows it (`known`)."""
        known = [self.known(one) for one in groups]
        return {name: [one[name] for one in known] for name in (SOURCE, *(level.name for level in LEVELS))}


def stacks_of(vendors: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Software by vendor, of vendors by software."""
    names = {name for each in vendors.values() for name in each}
    return {name: frozenset(one for one, each in vendors.items() if name in each) for name in sorted(names)}
