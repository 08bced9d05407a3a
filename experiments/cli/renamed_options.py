"""Older words of options, which answer with a hint until the next minor release (CHANGELOG.md, "Deprecated")."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

_ESTIMATOR = {"with": "estimator"}
_REQUESTS = {
    "gpus": "devices",
    "input": "input-tokens",
    "output": "output-tokens",
    "slo": "limit",
    "budget": "step-tokens",
}
_STUDY = {"with": "trusted", "part": "share"}
OLD: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "bricks advise": {"within": "limit"},
        "bricks score": {"free": "fit"},
        "calibrate": {"measured": "known", "with": "trusted", "save": "out"},
        "data get": {"folder": "data"},
        "data list": {"folder": "data"},
        "demo": {"folder": "out"},
        "estimate": {
            **_ESTIMATOR,
            "anchors": "known",
            "measured": "known",
            "trace": "timeline",
            "library": "engine",
        },
        "explain": {**_ESTIMATOR, "anchors": "known", "price": "cost", "library": "engine"},
        "extrapolate": {"machine": "on", "time": "column", "repeats": "statistic"},
        "machines detect": {"save": "out"},
        "machines import": {"save": "out"},
        "measure anchors": {"save": "out"},
        "measure contention": {"save": "out", "machine": "on"},
        "measure host": {"save": "out"},
        "measure pipeline": {"save": "out"},
        "measure scaling": {"save": "out"},
        "measure spmv": {"save": "out", "budget": "seconds"},
        "measure steps": {"save": "out"},
        "measure training": {"log": "out"},
        "phases": {"top": "parts", "save": "out"},
        "plan power-limit": {"loss": "slowdown"},
        "plan serving": {**_REQUESTS, "machines": "on", "all": "out"},
        "plan training": {
            "sequence": "seq-len",
            "precision": "dtype",
            "best": "rows",
            "software": "trainer",
            "engine": "trainer",
        },
        "read": {"gpus": "devices", "rows": "parts"},
        "replay": {"from": "recorded-on"},
        "seqpoint": {
            "size": "representatives",
            "length": "parameter",
            "statistic": "column",
            "picture": "plot",
            "emit-lengths": "out",
        },
        "serve": {**_REQUESTS, "decode-workers": "replicas", "anchor": "known", "save": "out", "trace": "timeline"},
        "spmv predict": {"model": "calibration", "anchors": "known"},
        "spmv train": {"labels": "known", "kind": "method", "start": "calibration"},
        "spmv validate": {"save": "folder"},
        "study merge": {"with": "trusted"},
        "study report": {"with": "trusted"},
        "study resume": _STUDY,
        "study run": _STUDY,
        "tune": {"rules": "policy"},
        "whatif": {
            **_ESTIMATOR,
            "anchors": "known",
            "measured": "known",
            "from": "recorded-on",
            "library": "engine",
        },
        "workloads draw": {"save": "out"},
        "workloads import": {"save": "out", "optimizer": "train", "purpose": "train"},
        "workloads show": {**_ESTIMATOR, "graph": "plot"},
    }
)
"""Of each command, its older options and today's."""
VALUES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "kind": {"reuse": "combined", "networks": "network"},
        "purpose": {"inference": "none", "training": "sgd"},
    }
)
"""Values of an older option that are said otherwise today."""


def todays_words(words: Sequence[str]) -> list[str]:
    """A command line with its older options as they are called today; a hint on stderr names each.

    Raises
    ------
    InputError
        Where two older options are one today, and both are given.

    Examples
    --------
    >>> todays_words(["read", "bench.json", "--gpus=8"])
    ['read', 'bench.json', '--devices=8']
    """
    named = [word for word in words[:2] if not word.startswith("-")]
    command = next((name for name in (" ".join(named), *named[:1]) if name in OLD), "")
    if not command:
        return list(words)
    old, made, given = OLD[command], list[str](), dict[str, str]()
    value_of = ""
    for place, word in enumerate(words):
        if word == "--":
            return [*made, *words[place:]]
        name, equals, value = word.removeprefix("--").partition("=")
        if value_of and not word.startswith("--"):
            made.append(VALUES[value_of].get(word, word))
            value_of = ""
            continue
        if not word.startswith("--") or name not in old:
            made.append(word)
            continue
        today = old[name]
        if given.setdefault(today, name) != name and command != "workloads import":
            from slipstick.common.errors import InputError

            raise InputError(f"--{given[today]} and --{name} are both --{today} today: give one")
        print(
            f"slipstick: {command} --{name} is called --{today} now; it is read until the next minor release",
            file=sys.stderr,
        )
        value_of = name if name in VALUES and not equals else ""
        made.append(f"--{today}{equals}{VALUES.get(name, {}).get(value, value)}")
    return made
