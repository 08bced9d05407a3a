"""Papers and scoreboards, found by their files."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.readers import unknown_name
from slipstick.common.renamed_arguments import checked
from slipstick.experiments.scoring.score_rows import ReproductionRow

if TYPE_CHECKING:
    from slipstick.experiments.scoring.score import Board

ROOM = Path(__file__).parents[1]


def papers() -> tuple[str, ...]:
    """Names of the papers: a folder each, with a module of the folder's name and `_rows`."""
    return tuple(sorted(path.parent.name.replace("_", "-") for path in ROOM.glob("papers/*/*_rows.py")))


def scoreboards() -> tuple[str, ...]:
    """Names of the scoreboards: a module NAME_board each, in the folder of its subject."""
    return tuple(sorted(_boards()))


def _boards() -> dict[str, str]:
    """The module of each scoreboard."""
    files = ROOM.glob("scoreboards/*/*_board.py")
    return {
        path.stem.removesuffix("_board").replace(
            "_", "-"
        ): f"slipstick.experiments.scoreboards.{path.parent.name}.{path.stem}"
        for path in files
    }


def paper(name: str) -> Any:
    """The module that reproduces a paper.

    Raises InputError where no paper has this name.
    """
    if name not in papers():
        raise unknown_name("paper", name, papers())
    stem = name.replace("-", "_")
    return import_module(f"slipstick.experiments.papers.{stem}.{stem}_rows")


def scoreboard(name: str) -> Board:
    """A scoreboard's declaration.

    Raises InputError where no scoreboard has this name.
    """
    known = _boards()
    if name not in known:
        raise unknown_name("scoreboard", name, sorted(known))
    module = import_module(known[name])
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
