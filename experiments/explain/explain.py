"""The verb `explain` as a function: the tables of an explanation, made when they are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slipstick.common.answer import Answer, AnswerTable, Provenance
from slipstick.common.columns import Column
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.protocols import Estimator, Fitted
from slipstick.estimators.base.shipped_estimator import ShippedEstimator
from slipstick.experiments.explain import explanation
from slipstick.experiments.explain.cheapest import Together, cheapest_together
from slipstick.experiments.explain.evaluator import Evaluator
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.question.settings import Value, with_numbers
from slipstick.experiments.question.user_code import own_workload
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

if TYPE_CHECKING:
    from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration

Rows = list[dict[str, Any]]


@dataclass(frozen=True, repr=False)
class Explanation(Answer):
    """What a time hangs on.

    Parameters
    ----------
    question
        Whose time it is; `question.answer()` is the estimate.
    work
        "train", "forward", "prefill" or "decode", where the workload is a model's name.
    vary
        The quantities that are looked at; all that are read where there are none.
    target
        Ratio to today's time that a change should reach.
    cost
        What doubling each quantity costs, in any unit.
    """

    question: Question
    vary: tuple[str, ...]
    target: float
    cost: Mapping[str, float]

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator.of(self.question, self.vary)

    @cached_property
    def bottlenecks(self) -> Rows:
        """What bounds the time, with its share."""
        return explanation.bottleneck_rows(self.question.answer())

    @cached_property
    def elasticities(self) -> Rows:
        """d log time / d log quantity, largest first."""
        return explanation.elasticity_rows(self.question, self._evaluator)

    @cached_property
    def changes(self) -> Rows:
        """The smallest change of each quantity alone that reaches the target."""
        return explanation.cheapest_changes(self.question, self.target, cost=self.cost, dials=self._evaluator)

    @cached_property
    def together(self) -> Together | None:
        """The change of least cost of all quantities that have one; None without costs."""
        return cheapest_together(self.question, self.target, self.cost) if self.cost else None

    @property
    def declared(self) -> tuple[Column, ...]:
        """Values of the quantity that each row names."""
        return explanation.COLUMNS

    @property
    def provenance(self) -> Provenance:
        """On what today's time rests."""
        return self.question.answer().provenance

    @property
    def heads(self) -> tuple[str, ...]:
        """Today's time."""
        return self.question.answer().heads

    @property
    def notes(self) -> tuple[str, ...]:
        """What today's time takes for granted."""
        return self.question.answer().notes

    def tables(self) -> tuple[AnswerTable, ...]:
        """What bounds the time, and what it hangs on."""
        return (
            AnswerTable(self.bottlenecks, self.declared, "what bounds the time"),
            AnswerTable(self.elasticities, self.declared, explanation.ELASTICITY),
        )

    def rows(self) -> Rows:
        """The elasticities, a row a quantity."""
        return self.elasticities


@checked
def explain(
    workload: str | Workload,
    machine: str | Machine,
    vary: Sequence[str] = (),
    *,
    target: float | str = 0.8,
    cost: Mapping[str, float] | None = None,
    estimator: str | ShippedEstimator | Estimator | None = None,
    settings: Mapping[str, Value] | Sequence[str] = (),
    dtype: str | None = None,
    calibration: Fitted | DeviceCalibration | None = None,
    quantity: str | None = None,
    input: Sequence[str] = (),  # noqa: A002
    train: str | None = None,
    allow_code: Sequence[str] = (),
    work: str | None = None,
    attention: str | None = None,
    **numbers: Value,
) -> Explanation:
    """What the time hangs on, and the smallest changes that shorten it.

    Parameters
    ----------
    workload, machine, estimator, settings, dtype, calibration, quantity, input, train, allow_code, attention, numbers
        As `estimate` takes them.
    vary
        Quantities to look at ("machine.clock"); all that are read where there are none.
    target
        Ratio to today's time that a change should reach, between 0 and 1, or a time ("10 ms").
    cost
        What doubling a quantity costs, in any unit: adds the cheapest change of all together.

    Raises
    ------
    InputError
        Where a name or a number cannot be used.

    Examples
    --------
    >>> import slipstick as ss
    >>> why = ss.explain("phi-cnn-small", "xeon-phi-7120p", settings={"run.threads": 240})
    >>> {row["quantity"]: row["elasticity"] < 0 for row in why.elasticities}["machine.clock"]
    True
    """
    subject = own_workload(workload, machine, input, train, allow_code, work)
    settings = with_numbers(explain, settings, numbers, subject)
    query = question(
        subject, machine, estimator, settings, dtype, calibration=calibration, quantity=quantity, attention=attention
    )
    query = explanation.of_time(query, quantity)
    ratio = explanation.target_ratio(target, query.answer().time)
    return Explanation(query, tuple(vary), ratio, dict(cost or {}))
