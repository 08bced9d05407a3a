"""Estimators by name: every name is looked up here, in the records of `question/shipped_estimators.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.common.trusted_code import is_own
from slipstick.estimators.base.shipped_estimator import ShippedEstimator
from slipstick.experiments.question.estimator_builders import CALIBRATIONS as CALIBRATIONS
from slipstick.experiments.question.shipped_estimators import DEFAULT, SHIPPED

if TYPE_CHECKING:
    from slipstick.estimators.base.protocols import Estimator
    from slipstick.hwmodels.machine import Machine
    from slipstick.workloads.graph.workload import Workload


def estimator_names() -> list[str]:
    """Names of the built-in estimators, without their aliases.

    Examples
    --------
    >>> import slipstick as ss
    >>> {"roofline", "cpu"} <= set(ss.estimator_names())
    True
    """
    return sorted(record.name for record in SHIPPED)


def named_estimators() -> tuple[ShippedEstimator, ...]:
    """Their records: what answers by default first, then by name."""
    return (DEFAULT, *sorted(SHIPPED, key=lambda record: record.name))


def named_estimator(name: str) -> ShippedEstimator:
    """The record of a built-in estimator by name or alias, or of your own, a `TrustedName` (which is imported).

    Raises InputError where the name is unknown, or names code and is plain text, as everything from a file is.
    """
    if is_own(name):
        from slipstick.experiments.question.user_code import own_record

        return own_record(name)
    known = {word: record for record in named_estimators() for word in (record.name, *record.aliases)}
    if name not in known:
        raise unknown_name("estimator", name, sorted(known))
    return known[name]


@checked
def estimator(name: str | ShippedEstimator) -> Estimator:
    """An estimator by name or alias, or by your own record; text never names code, but what ships.

    Where it has calibrations of several domains, the one that holds answers each question.

    Raises
    ------
    InputError
        Where the name is unknown.

    Examples
    --------
    >>> import slipstick as ss
    >>> ss.estimator("roofline").operation
    Roofline(compute_efficiency=1.0, memory_efficiency=1.0, overhead=0.0)
    """
    return (named_estimator(name) if isinstance(name, str) else name).estimator()


def estimator_of(given: str | ShippedEstimator | Any, workload: Workload, machine: Machine) -> Estimator:
    """What answers for a workload on a machine, from a name, a record or an object (`adopted`)."""
    from slipstick.estimators.base.estimator_base import adopted

    made = estimator(given) if isinstance(given, (str, ShippedEstimator)) else adopted(given)
    return made.resolved(workload, machine)


def estimator_to_fit(workload: Workload) -> str:
    """The name of the estimator that is fitted to measurements of a workload where none is named."""
    of_networks = sorted(SHIPPED, key=lambda record: not any(domain.networks for domain in record.fitted_for))
    return next((record.name for record in of_networks if record.fits(workload)), "roofline")
