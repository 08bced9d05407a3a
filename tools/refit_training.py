"""python tools/refit_training.py [--save]: the terms of a training step, and what the runs behind them were, anew.

Fits `MEGATRON_TERMS` and `FSDP_TERMS` to all public rows (SLIPSTICK_DATA) and prints them; with --save `FITTED` is
written into experiments/subjects/training_plan/fitted_runs.py. ``slipstick validate training`` scores what is held out.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.evidence.boards.training import FSDP, MEGATRON
from slipstick.experiments.evidence.validation.parallel.training.training_coverage import facts_of
from slipstick.experiments.evidence.validation.parallel.training.training_fit import fitted_terms
from slipstick.experiments.evidence.validation.parallel.training.training_rows import FILES, training_runs
from slipstick.experiments.subjects.training_plan import fitted_runs
from slipstick.experiments.subjects.training_plan.fitted_runs import FittedRuns

BEGIN, END = "# begin: written by tools/refit_training.py\n", "# end\n"


def main() -> None:
    """Print a line a stack, and the file's literal."""
    known = {}
    for source, file in FILES.items():
        path = training_file(file)
        if path is None:
            sys.exit(f"{file}: not there; set SLIPSTICK_DATA")
        known[source] = training_runs(source, path)[0]
    facts = {}
    for name, sources in (("megatron", MEGATRON), ("fsdp", FSDP)):
        runs = [run for source in sources for run in known[source]]
        facts[name] = facts_of(runs)
        terms = ", ".join(f"{field}={value:.3g}" for field, value in asdict(fitted_terms(runs)).items())
        print(f"{name}, {len(runs)} runs: {terms}")
    text = literal(facts)
    print(text, end="")
    if "--save" in sys.argv[1:]:
        file = Path(fitted_runs.__file__)
        before, rest = file.read_text().split(BEGIN)
        file.write_text(before + BEGIN + text + END + rest.split(END)[1])
        print(f"written: {file.name}")


def literal(facts: dict[str, FittedRuns]) -> str:
    """`FITTED` as Python."""
    lines = ["FITTED: Mapping[str, FittedRuns] = {"]
    for name, one in facts.items():
        lines += [f'    "{name}": FittedRuns(', "        {"]
        for machine, precisions in one.precisions.items():
            listed = ", ".join(f'"{precision}"' for precision in sorted(precisions))
            lines.append(f'            "{machine}": frozenset({{{listed}}}),')
        lines += ["        },", f"        experts={one.experts},", f"        devices={one.devices},"]
        lines += [f"        sequences={one.sequences},", f"        runs={one.runs},", "    ),"]
    return "\n".join([*lines, "}", ""])


if __name__ == "__main__":
    main()
