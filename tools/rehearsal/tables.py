"""What a rehearsal is: tables, the groups of their rows, and the rows of a scoreboard that are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slipstick.hwmodels.catalog import machine_of_device


def itself(name: str) -> str:
    """A group is what the column says."""
    return name


def generation(name: str) -> str:
    """The generation of a device's chip (vendor and architecture); its own name where the catalogue lacks it."""
    machine = machine_of_device(name.replace("_", " "))
    return name if machine is None else "-".join(machine.family.split("-")[:2])


def code(series: str) -> str:
    """The code that a series of times is of: the first part of its name."""
    return series.partition("/")[0]


def chip(name: str) -> str:
    """A processor without the settings of its domains."""
    return "_".join(name.split("_")[:2])


@dataclass(frozen=True)
class Table:
    """Files below the folder of public measurements, and what a group of their rows is.

    Parameters
    ----------
    pattern
        Which files, as `Path.glob` takes it.
    by
        The column that names the group; or which part of the path below the folder does (the whole file is of one
        group); or None: the files are given whole, and stay among the public ones.
    group
        The group of such a name.
    counts
        A column and the word that rows have which the board scores; others are given too, but no group is chosen for
        them.
    """

    pattern: str
    by: str | int | None
    group: Callable[[str], str] = itself
    counts: tuple[str, str] | None = None


@dataclass(frozen=True)
class Line:
    """A line of the rehearsal's table: rows of the board on what was given, and its own held-out rows of that kind.

    `given`, `fold`: regular expressions over "dataset | case | held out", matched whole; one text where they are equal.
    """

    name: str
    given: str
    fold: str = ""


@dataclass(frozen=True)
class Take:
    """One rehearsal: a scoreboard, what is taken out, from which tables, and what is compared."""

    board: str
    what: str
    tables: tuple[Table, ...]
    lines: tuple[Line, ...] = ()

    @property
    def name(self) -> str:
        """Of its folder, and what the command line calls it."""
        return f"{self.board}-{self.what.replace(' ', '-')}"


ANY = r".*\| {} \| {}"
"""Of any data set: a case, and what was held out."""


def line(name: str, case: str, fold: str, given: str = "rows given") -> Line:
    """A case that has one name on both sides, and what the two call what they held out."""
    return Line(name, ANY.format(case, given), ANY.format(case, fold))
