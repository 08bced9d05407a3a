"""The time to the first token in a closed loop: what steps and settings explain of it, and the law that is fitted.

A prompt is read by kernels that the host launches one by one, where a decode step is a recorded graph: it takes as long
as the slower of host and device. It waits for prompts of others (one server whose services are alike: busy / (2 (1 -
busy)) of them, by Pollaczek and Khinchine, and in a closed loop no more than its users), for the decode step in
progress, and for as many steps as an engine is set to hold requests back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import starmap
from typing import Annotated, Any, TypeAlias

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.engine_steps.smooth_max import overlapped
from slipstick.estimators.fitting.fitted_model import Columns, FormulaLaw, Grouping, ParameterPrior
from slipstick.estimators.symbolic.formula import Parameter, parameters

_Numbers: TypeAlias = Any
"""A float, or an array of one for each of many first tokens."""


@dataclass(frozen=True)
class FirstParts:
    """What a time to the first token is made of, by the law of steps: floats, or arrays of one length.

    Parameters
    ----------
    shared, experts, fixed
        Seconds of a prompt by itself: in weights that all tokens use, attention and messages; in routed experts; in
        times that no bytes explain.
    kernels
        Seconds that its kernels of no bytes take in a recorded graph, before what machine and engine change of them.
    together
        Seconds of all users' prompts, one after the other in full steps.
    tpot
        Seconds of a further token.
    users
        Requests at a time.
    decoding
        Seconds of all further tokens of a request.
    held
        Steps for which the engine is set to hold a new request back at the mean; 0 as engines come.
    burst
        Of all users' prompts, the share that a mean over requests waits for because all users begin at once: half of
        the share of requests that are the first of their user. 0 of a median.
    """

    shared: _Numbers
    experts: _Numbers
    fixed: _Numbers
    kernels: _Numbers
    together: _Numbers
    tpot: _Numbers
    users: _Numbers
    decoding: _Numbers = 1.0
    held: _Numbers = 0.0
    burst: _Numbers = 0.0

    @property
    def alone(self) -> _Numbers:
        """Seconds of the prompt by itself."""
        return self.shared + self.experts + self.fixed


@dataclass(frozen=True)
class FirstToken:
    """Time to the first token, from what steps take; the defaults are expected of any server.

    A user who is alone waits for neither steps nor prompts: both count by the share of others, 1 - 1/users.
    """

    constant: Annotated[float, Parameter("s", "of a request, whatever it is", 1e-4, 10.0)] = 10e-3
    prompt: Annotated[float, Parameter("1", "a prompt, over what steps say of it", 0.1, 100.0)] = 1.2
    sparse: Annotated[float, Parameter("1", "the same in routed experts", 0.1, 100.0)] = 1.5
    launches: Annotated[float, Parameter("1", "launching kernels, over a recorded graph", 0.1, 100.0)] = 5.0
    steps: Annotated[float, Parameter("1", "decode steps that it waits for", 0.01, 100.0)] = 1.0
    user: Annotated[float, Parameter("s", "for each user", 1e-6, 1.0)] = 0.3e-3
    factor: Annotated[float, Parameter("1", "of all of it", 0.05, 20.0)] = 1.0

    def seconds(self, parts: FirstParts) -> _Numbers:
        """Seconds to the first token."""
        p, others = parts, 1 - 1 / parts.users
        read = self.prompt * p.shared + self.sparse * p.experts
        alone = overlapped(read + p.fixed, self.launches * p.kernels)
        prompts = p.burst + p.together / (p.together + 2 * p.users * p.decoding)
        queue = read / (p.shared + p.experts) * p.together * prompts
        waited = others * (queue + (self.steps + p.held) * p.tpot)
        return self.factor * (self.constant + alone + waited + self.user * p.users)

    def front(self, parts: FirstParts, stepped: float) -> float:
        """What a simulation leaves out that reads the prompt in `stepped` seconds; below 0 where it leaves none."""
        return float(self.seconds(replace(parts, together=0.0, decoding=1.0)) - stepped)


SITE, ANOTHER_SITE = "site", "another site"
"""Where a first token is timed: front end, client and network of a deployment. No question is of a measured one."""
FIRST_WIDTH, FIRST_KINDS = 0.7, {"constant": "time", "user": "time", "factor": ""}
FIRST_VARY = {
    "prompt": ("generation", "weights", "engine", "model"),
    "sparse": ("generation", "weights"),
    "launches": ("engine",),
    "factor": (SITE,),
}
"""Engines differ in how much of a prompt they record, and else by settings that are counted (`FirstParts.held`)."""


def _first_priors() -> tuple[ParameterPrior, ...]:
    return tuple(
        ParameterPrior(
            name, note.unit, note.meaning, value, 0.0 if name == "factor" else FIRST_WIDTH, note.low, note.high,
            FIRST_KINDS.get(name, "share"), FIRST_VARY.get(name, ()),
        )
        for name, (value, note) in parameters(FirstToken()).items()
    )  # fmt: skip


def _first_seconds(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of each row."""
    parts = FirstParts(**{name: columns[name] for name in FIRST_COLUMNS})
    made: Any = FirstToken(**dict(parameters))  # type: ignore[arg-type]  # arrays, one number for each row
    return np.asarray(made.seconds(parts), dtype=float)


FIRST_LEVELS = {"generation": 0.3, "weights": 0.3, "engine": 0.3, SITE: 0.4, "model": 0.2}
"""Widths that are expected of each level."""
FIRST_TOKEN_LAW = FormulaLaw(
    "serving-first-token", _first_priors(), _first_seconds, tuple(starmap(Grouping, FIRST_LEVELS.items())), at_once=True
)
"""Seconds to the first token in a closed loop, from columns named as the fields of `FirstParts`."""


FIRST_COLUMNS = tuple(field.name for field in fields(FirstParts))


def first_columns(parts: Sequence[FirstParts]) -> dict[str, FloatArray]:
    """What the law reads of first tokens, arrays of shape (rows,)."""
    return {name: np.array([getattr(one, name) for one in parts], dtype=float) for name in FIRST_COLUMNS}


def first_groups(groups: Mapping[str, str]) -> dict[str, list[str]]:
    """Of a first token: where no site is named, it is none that was measured."""
    return {name: [groups.get(name, ANOTHER_SITE)] for name in FIRST_LEVELS}
