"""The verbs in groups, as ``slipstick --help`` lists them: by what one has and wants."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from typer.core import TyperGroup

GROUPS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Questions": {
            "estimate": "time, memory and power of a workload on machines",
            "whatif": "how much faster when numbers change",
            "explain": "what bounds the time, and what can be done about it",
            "extrapolate": "times beyond those that were measured",
            "serve": "latency and tokens/s of a language-model server",
            "plan": "which machine, how many, laid out how",
            "read": "what a file of a profiler or benchmark holds",
            "mcp": "these questions as tools of an agent or planner",
        },
        "Your measurements": {
            "calibrate": "fit an estimator to measurements",
            "measure": "clocks, kernels and programs on this host",
            "probe": "a minute here: a machine file and a calibration",
            "replay": "a recorded step on another machine or runtime",
        },
        "Studies": {"study": "thousands of what-ifs from a file, resumable"},
        "Catalogue": {
            "machines": "machines that ship, and your own files",
            "workloads": "workloads that ship, your own files, imports",
            "estimators": "what answers, for what, and how far it errs",
            "data": "public measurements: sources, licences, digests",
        },
        "Papers and proof": {
            "reproduce": "every number of a paper beside ours",
            "validate": "accuracy on measurements that were left out",
            "seqpoint": "few iterations that stand for a training run",
            "phases": "phases of a run and their operations",
            "bricks": "models from layer sequences that were measured once",
            "spmv": "time and energy of sparse products",
            "tune": "the fastest settings of an input pipeline",
            "demo": "training on a Xeon Phi at 3,840 threads",
        },
    }
)
"""Of each group its verbs in order, with what each answers."""


class VerbGroups(TyperGroup):
    """The application's verbs, listed in `GROUPS`; a verb that is in none of them stands last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """See `typer.core.TyperGroup`: one section of the help for each group."""
        del ctx
        grouped = {verb for verbs in GROUPS.values() for verb in verbs}
        rest = {verb: one.get_short_help_str() for verb, one in self.commands.items() if verb not in grouped}
        widest = max(map(len, self.commands))
        for title, verbs in {**GROUPS, "Other": rest}.items():
            rows = [(verb.ljust(widest), text) for verb, text in verbs.items() if verb in self.commands]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
