"""Slipstick, a slide rule for machines: how long elsewhere, and how sure?

>>> import slipstick as ss
>>> there, here = ss.estimate("gpt2", "h100"), ss.estimate("gpt2", "t4")
>>> there.time < here.time
True

A function a verb, with the words of the command line (slipstick VERB --help):

    estimate(workload, machine)          time, band, energy, what bounds it
    whatif(workload, machine, vary)      how much faster when numbers change
    explain(workload, machine)           what the time hangs on
    extrapolate(series, to)              times beyond those that were measured
    serve, plan_serving, plan_training   servers and training runs, laid out
    read(file), replay(trace, machine)   what a file holds; a step elsewhere
    calibrate(estimator, measured, fit)  an estimator fitted to measurements
    measure(), study(file)               this host; thousands of what-ifs
    seqpoint, phases, bricks, tune       the papers' methods on your own runs

Workloads, machines and estimators are names (workload_names(), machine_names(),
estimator_names(), language_model_names()), files, or records made by
machine(name) and its kind. A number has one name everywhere, machine.clock,
workload.batch, run.threads, and is SI or text with its unit:
settings={"machine.clock": "1.2 GHz"}. Answers have rows() and to_frame(), and
show themselves in notebooks; page(answer, "page.html") writes one. Bad input
raises InputError.

More, by subject: models, operations, laws, analysis, runs, charts, records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import lazy_loader

if TYPE_CHECKING:
    from collections.abc import Sequence

_from_stub, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
SUBJECTS = ("models", "operations", "laws", "analysis", "runs", "charts", "records")
"""What they hold is found there."""


def __getattr__(name: str) -> object:
    if name == "__version__":
        from slipstick.experiments.studies.versions import installed_version

        return installed_version("slipstick")
    try:
        return _from_stub(name)
    except AttributeError:
        raise AttributeError(f"module 'slipstick' has no attribute {name!r}{_nearest(name)}") from None


def _nearest(name: str) -> str:
    """Names of the face and of its subjects that are close to one that is not there, as the end of a sentence."""
    if name.startswith("_"):  # what programs look for in any object
        return ""
    from difflib import get_close_matches
    from importlib import import_module

    held = {each: subject for subject in SUBJECTS for each in import_module(f"slipstick.{subject}").__all__}
    if name in held:
        return f"; it is ss.{held[name]}.{name}"
    close = get_close_matches(name, [*__all__, *(f"{subject}.{each}" for each, subject in held.items())], 3)
    return f"; close names: {', '.join(close)}" if close else ""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and leave.

    Parameters
    ----------
    arguments
        The words after ``slipstick``; those of the process where none are given.

    Raises
    ------
    SystemExit
        Always: code 0 done, 1 a check failed, 2 bad input, 3 a defect of ours, 130 interrupted.
    """
    from slipstick.common.lazy_methods import compile_methods_late

    compile_methods_late()
    import gc

    gc.set_threshold(300_000, 20, 10)  # most of what a command makes lives to its end: few searches for the rest

    from slipstick.experiments.cli.cli import run

    code = run(None if arguments is None else [*arguments])
    gc.freeze()  # nothing is searched once more at the end of the process
    raise SystemExit(code)
