"""Formulas and tables of the documentation, made from the code that computes with them.

`formula: NAME` in an HTML comment on a page becomes the formula's MathML, which browsers draw without a script, the
full names of its symbols and its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from slipstick.estimators.symbolic.formula import Formula

_MARK = re.compile(r"<!-- formula: ([a-z-]+) -->")
_OBJECT = re.compile(r"^::: (\S+\.(\w+))$", re.M)
_SUBJECT = re.compile(r"^(?=## )", re.M)
_SESSION = re.compile(r"^```python\n(?=>>> )", re.M)


def formulas() -> dict[str, Callable[[], Formula]]:
    """The formulas that pages may name."""
    from slipstick.estimators.composition.energy_and_cost import dollars_formula
    from slipstick.estimators.cpu import xeon_phi_study as xeon_phi
    from slipstick.estimators.power.energy import PowerModel
    from slipstick.estimators.roofline.roofline import Roofline
    from slipstick.estimators.schedules.infeed import InfeedOverlap
    from slipstick.estimators.tpu.systolic_array import SystolicArray
    from slipstick.hwmodels.catalog import machine
    from slipstick.workloads.catalog import workload

    product, phi = workload("gemm").operations[0], workload("phi-cnn-small")
    threads = xeon_phi.calibrated("small", "a").estimator.schedule
    return {
        "roofline": lambda: Roofline().formula(product, machine("v100-sxm")),
        "systolic": lambda: SystolicArray().formula(product, machine("tpu-v3-8")),
        "threads": lambda: threads.formula(phi, machine("xeon-phi-7120p")),
        "infeed": lambda: InfeedOverlap().formula(workload("data-parallel-mlp"), machine("tpu-v3-8")),
        "power": lambda: PowerModel().formula(machine("v100-sxm")),
        "cost": dollars_formula,
    }


LEFT = {"power": "P", "cost": "C"}


def with_formulas(markdown: str) -> str:
    """A page with its marks replaced.

    Raises
    ------
    KeyError
        Where a mark names no formula.
    """
    from slipstick.experiments.report.page import formula_html

    known = formulas() if _MARK.search(markdown) else {}
    return _MARK.sub(lambda mark: "\n" + formula_html(known[mark[1]](), LEFT.get(mark[1], "T")) + "\n", markdown)


def under_typed_names(markdown: str) -> str:
    """The API page with each object under the name that users type (`ss.machine`), wherever its module stands."""
    return "".join(_under_subject(section) for section in _SUBJECT.split(markdown))


def _under_subject(section: str) -> str:
    """A section whose title is `ss.SUBJECT` holds names below that, every other one names of `ss` itself."""
    title = section.partition("\n")[0].removeprefix("## ")
    face = title if title.startswith("ss.") else "ss"
    return _OBJECT.sub(rf"::: \1\n    options:\n      heading: {face}.\2\n      toc_label: {face}.\2", section)


def as_sessions(markdown: str) -> str:
    """Interactive sessions as such, so that prompts and outputs are set apart and are not copied."""
    return _SESSION.sub("```pycon\n", markdown)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What mkdocs calls for every page."""
    return as_sessions(under_typed_names(with_formulas(markdown)))
