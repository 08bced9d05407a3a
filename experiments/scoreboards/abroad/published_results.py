"""Published figures as questions to the documented commands, their sources, and what the commands answer."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from slipstick.common.errors import InputError
from slipstick.common.readers import read_yaml
from slipstick.common.records import Record, validated

FILE = Path(__file__).with_name("published_results.yaml")
BANDS = {
    "time_s": ("low_s", "high_s"),
    "step_s": ("low_s", "high_s"),
    "output_tokens_per_s": ("low_tokens_per_s", "high_tokens_per_s"),
    "prompt_tokens_per_s": ("prompt_low_tokens_per_s", "prompt_high_tokens_per_s"),
}
"""Key of an answer to the keys of its 80 % band."""


class PublishedSource(Record):
    """Who published a figure, and where."""

    name: str
    url: str


class PublishedFigure(Record):
    """One published figure, see the head of figures.yaml.

    `ask`: the documented command, without the program's name and `--format`.
    `answer`: the key of its JSON; `ttft.p50` is a measure of `serve` and its statistic.
    `value`: seconds, or tokens a second; a quotient (work over rate) as text.
    """

    id: str
    device_class: str
    kind: str
    ask: str
    answer: str
    value: float | str
    unit: str
    source: str
    note: str = ""

    @property
    def is_rate(self) -> bool:
        """Whether larger is faster."""
        return self.unit != "s"

    @property
    def published(self) -> float:
        """The figure in its unit.

        Raises InputError where a text is neither a number nor a quotient of numbers.
        """
        if isinstance(self.value, float):
            return self.value
        above, _, below = self.value.partition("/")
        try:
            return float(above) / float(below or 1)
        except (ValueError, ZeroDivisionError):
            raise InputError(f"figure {self.id}: value {self.value!r} is no quotient of two numbers") from None

    @property
    def arguments(self) -> list[str]:
        """The command's words."""
        return shlex.split(self.ask)


class PublishedFigures(Record):
    """All figures with their sources."""

    format: str = Field(alias="schema")
    sources: dict[str, PublishedSource]
    figures: list[PublishedFigure]


@dataclass(frozen=True)
class PublishedAnswer:
    """What the command answered in the figure's unit, with its 80 % band where it has one."""

    value: float
    low: float | None
    high: float | None
    remarks: tuple[str, ...]


@cache
def figures() -> PublishedFigures:
    """The published figures.

    Raises InputError where the file is not as its schema says.
    """
    return validated(PublishedFigures, read_yaml(FILE), str(FILE.name))


def answer_json(arguments: list[str]) -> Any:
    """The JSON of a command, run in this process.

    Raises InputError with the command's own line where it refuses.
    """
    from slipstick import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*arguments, "--format", "json"])
        except SystemExit as leave:
            code = leave.code
    if code != 0:
        lines = err.getvalue().strip().splitlines()
        raise InputError(lines[-1] if lines else f"exit code {code}")
    return json.loads(out.getvalue())


def answered(figure: PublishedFigure) -> PublishedAnswer:
    """The command's answer to a figure's question.

    Raises InputError where the command refuses, or its answer lacks the key.
    """
    reply = answer_json(figure.arguments)
    row = reply[0] if isinstance(reply, list) else reply
    remarks = tuple(row.get("remarks") or ())
    measure, _, statistic = figure.answer.partition(".")
    if statistic:
        wanted = [one for one in row["measures"] if (one["measure"], one["statistic"]) == (measure, statistic)]
        if not wanted:
            raise InputError(f"the answer has no {statistic} of {measure}")
        return PublishedAnswer(wanted[0]["value_s"], wanted[0]["low_s"], wanted[0]["high_s"], remarks)
    if row.get(figure.answer) is None:
        raise InputError(f"the answer has no {figure.answer}")
    low, high = BANDS[figure.answer]
    return PublishedAnswer(row[figure.answer], row.get(low), row.get(high), remarks)
