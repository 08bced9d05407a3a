"""Papers and scoreboards, found by their files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.experiments.evidence.rows import ReproductionRow
from slipstick.hwmodels.files.old_names import checked
from slipstick.hwmodels.files.readers import unknown_name

if TYPE_CHECKING:
    from slipstick.experiments.evidence.score import Board

HERE = Path(__file__).parent


def papers() -> tuple[str, ...]:
    """Names of the papers: a folder each, with a module of the folder's name and `_rows`."""
    return tuple(sorted(path.parent.name.replace("_", "-") for path in HERE.glob("papers/*/*_rows.py")))


def scoreboards() -> tuple[str, ...]:
    """Names of the scoreboards: a module each."""
    return tuple(sorted(path.stem.replace("_", "-") for path in HERE.glob("boards/[a-z]*.py")))


def paper(name: str) -> Any:
    """The module that reproduces a paper.

    Raises InputError where no paper has this name.
    """
    if name not in papers():
        raise unknown_name("paper", name, papers())
    stem = name.replace("-", "_")
    return import_module(f"slipstick.experiments.evidence.papers.{stem}.{stem}_rows")


def scoreboard(name: str) -> Board:
    """A scoreboard's declaration.

    Raises InputError where no scoreboard has this name.
    """
    if name not in scoreboards():
        raise unknown_name("scoreboard", name, scoreboards())
    module = import_module(f"slipstick.experiments.evidence.boards.{name.replace('-', '_')}")
    board: Board = module.BOARD
    return board


@checked
def reproduce(name: str) -> list[ReproductionRow]:
    """Every number that a paper states, beside ours.

    Parameters
    ----------
    name
        xeon-phi, seqpoint, dlbricks, spmv-cnn or tpupoint.

    Returns
    -------
    list of ReproductionRow
        One row a number or claim, each in the unit that the row names; `ok` is None where it cannot be checked.

    Raises
    ------
    InputError
        Where no paper has this name.

    Examples
    --------
    >>> import slipstick as ss
    >>> rows = ss.reproduce("xeon-phi")
    >>> {row.table for row in rows} >= {"X", "XI"}
    True
    """
    rows: list[ReproductionRow] = paper(name).run()
    return rows
