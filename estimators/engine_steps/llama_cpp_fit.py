"""What was fitted to runs of llama.cpp on machines of one backend, with what a run of one's own adds to it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from slipstick.estimators.base.conditions import UNMEASURED, Condition, omitted_conditions, widening
from slipstick.estimators.engine_steps.llama_cpp_step import (
    CONFIGURATION,
    GENERATING,
    LAWS,
    PROMPTING,
    UNKNOWN,
    LocalParameters,
    LocalWork,
    PromptWork,
)
from slipstick.estimators.fitting.fitted_model import UNGROUPED, FormulaLaw, LawFit, LawRows
from slipstick.estimators.fitting.updated_model import with_known

OF_MACHINE = ("backend", "memory", "generation", "chip")
"""Levels of the laws, the widest first, that say which machines were measured."""


@dataclass(frozen=True, eq=False)
class PhaseFit:
    """A law as fitted to one phase: to rows of one backend, or of all GPUs for machines whose backend has none.

    `release_known`: whether a run of the user's own moved it, whose release is that of the question.
    """

    law: FormulaLaw
    made: LawFit
    of_backend: bool
    release_known: bool = False

    def measured(self, backend: str) -> bool:
        """Whether a row of the backend was fitted."""
        return self.of_backend or backend in self.made.seen("backend")

    def named(self, groups: Mapping[str, str]) -> dict[str, list[str]]:
        """Groups as the fit knows them: rows of one backend differ by no backend."""
        return {name: [UNGROUPED if self.of_backend and name == "backend" else group] for name, group in groups.items()}

    def values(self, groups: Mapping[str, str]) -> dict[str, float]:
        """Parameters of these groups; what was not fitted has no effect."""
        made = self.made.values(self.law, self.named(self.today(groups)))
        return {name: float(value[0]) for name, value in made.items()}

    def seconds(self, work: LocalWork | PromptWork, groups: Mapping[str, str]) -> float:
        """Seconds of a token."""
        return float(self.made.seconds(self.law, work.columns(), self.named(self.today(groups)))[0])

    def today(self, groups: Mapping[str, str]) -> Mapping[str, str]:
        """Groups with the newest release whose prompts were timed, where a question names none: no surer for it.

        Prompts gain a quarter from year to year, new tokens hardly.
        """
        head = f"{groups['program']} 2"  # of the year 2000 and later; with a library's name there is a bracket first
        known = [name for name in self.made.seen("release") if name.startswith(head) and self.law.name == PROMPTING]
        return {**groups, "release": max(known)} if known and groups["release"] == UNKNOWN else groups

    def half_width(self, work: LocalWork | PromptWork, groups: Mapping[str, str]) -> float:
        """Half of the 80 % band of log time."""
        groups = self.today(groups) if self.release_known else groups
        return float(self.made.half_width(self.law, work.columns(), self.named(groups))[0])

    def widened(
        self, work: LocalWork | PromptWork, groups: Mapping[str, str], left_out: Iterable[tuple[str, float]]
    ) -> tuple[float, tuple[Condition, ...]]:
        """Half of the 80 % band of log time with what a file omits, and what makes it wider.

        `left_out`: in words, with the factor by which the time may be off for each.
        """
        omitted = omitted_conditions(left_out)
        known, named = {name: self.made.seen(name) for name in OF_MACHINE}, self.named(groups)
        unseen = [name for name, seen in known.items() if seen and named[name][0] not in (UNGROUPED, *seen)]
        words = f"no measured row is of this {unseen[0]}" if unseen else ""
        machine = [Condition("machine", words, UNMEASURED)] if unseen else []

        def width(without: Collection[Condition]) -> float:
            gone = unseen if set(machine) & set(without) else []
            half = self.half_width(work, {**groups, **dict.fromkeys(gone, UNGROUPED)})
            return math.hypot(half, *(math.log(off) for one, off in omitted.items() if one not in without))

        return width(()), widening([*machine, *omitted], width)

    def with_known(self, work: LocalWork | PromptWork, groups: Mapping[str, str], seconds: float) -> PhaseFit:
        """The same after one token of some model was timed on the machine: what it says of the machine's others."""
        row = LawRows(work.columns(), self.named(self.today(groups)), ["measured"], np.array([seconds]), ["measured"])
        made = with_known(self.made, self.law, row, CONFIGURATION[self.law.name]).fit
        return replace(self, made=made, release_known=True)


@dataclass(frozen=True, eq=False)
class LocalFit:
    """What was fitted for machines of one backend."""

    generating: PhaseFit
    prompting: PhaseFit
    backend: str

    @classmethod
    def of(cls, fits: Mapping[str, LawFit], backend: str) -> LocalFit:
        """From the fits of a file, by `fit_name`."""

        def phase(name: str) -> PhaseFit:
            measured = fits.get(fit_name(name, backend))
            return PhaseFit(LAWS[name], fits[name] if measured is None else measured, measured is not None)

        return cls(phase(GENERATING), phase(PROMPTING), backend)

    def parameters(self, groups: Mapping[str, str]) -> LocalParameters:
        """Of these groups (`local_groups`)."""
        return LocalParameters(**self.generating.values(groups), **self.prompting.values(groups))

    def phase(self, name: str) -> PhaseFit:
        """Of new tokens or of prompts, by its name."""
        return self.prompting if name == PROMPTING else self.generating


def fit_name(phase: str, backend: str) -> str:
    """The name of the fit to rows of one backend in a file; that to all GPUs bears the phase alone."""
    return f"{phase} on {backend}"
