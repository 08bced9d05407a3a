"""A machine as a notebook shows it: each number with its unit, each source once."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from slipstick.common.formatting import typed_shown
from slipstick.common.html_tables import html_table
from slipstick.common.records import unit_at

if TYPE_CHECKING:
    from slipstick.hwmodels.machine import Machine


def machine_html(machine: Machine) -> str:
    """Fields in their units with the number of their source, and the sources below."""
    cited = dict.fromkeys(filter(None, map(machine.source_of, machine.numbers)))
    numbers = {source: f"[{index}]" for index, source in enumerate(cited, 1)}
    rows = [
        (path, typed_shown(value, unit_at(type(machine), path.split("."))), numbers.get(machine.source_of(path), ""))
        for path, value in machine.numbers.items()
    ]
    sources = "".join(f"<br>{number} {escape(source)}" for source, number in numbers.items())
    return html_table(("field", "value", "source"), rows, machine.name) + f"<p>{sources.removeprefix('<br>')}</p>"
