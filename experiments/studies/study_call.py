"""The verb `study` as a function: a study's file in, its answers out; and one point after the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstick.common.errors import InputError
from slipstick.common.renamed_arguments import checked
from slipstick.experiments.question.axes import quantity
from slipstick.experiments.question.objectives import CASE, with_front, with_objectives
from slipstick.experiments.question.settings import Value
from slipstick.experiments.studies.runner import plan, run_study
from slipstick.experiments.studies.shipped_studies import study_path
from slipstick.experiments.studies.store import Store
from slipstick.experiments.studies.study import Study, load_study

if TYPE_CHECKING:
    import pandas as pd


@checked
def study(
    file: str | Path | Study,
    folder: str | Path | None = None,
    *,
    allow_code: Collection[str] = (),
    executor: Executor | None = None,
) -> Store:
    """Answer every point of a study that its folder does not hold yet; what is finished is kept whatever happens.

    Parameters
    ----------
    file
        A study's .toml file, the name of one that ships, or the study.
    folder
        Of the results; None: slipstick-out/NAME.
    allow_code
        Your own code that the file names, MODULE:ATTRIBUTE: it is imported and run.
    executor
        Any `concurrent.futures.Executor`; None: one point after the other, here.

    Raises
    ------
    InputError
        Where the file is no study, or the folder holds the results of another one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> text = 'schema = "slipstick-study-1"\\nname = "clocks"\\nworkloads = ["gemm"]\\nmachines = ["t4"]\\n[vary]\\n'
    >>> with tempfile.TemporaryDirectory() as place:
    ...     path = pathlib.Path(place, "clocks.toml")
    ...     _ = path.write_text(text + '"machine.clock" = ["1 GHz", "1.5 GHz"]\\n')
    ...     len(study(path, pathlib.Path(place, "out")).frame())
    2
    """
    chosen = file if isinstance(file, Study) else load_study(study_path(str(file)), allow_code)
    return run_study(chosen, folder or Path("slipstick-out") / chosen.name.replace(" ", "-"), executor)


class AskTell:
    """A study as the function that an optimiser outside asks: a point in, its answer out.

    Parameters
    ----------
    file, allow_code
        As `study` takes them; what varies and what is sampled says which quantities a point has.

    Examples
    --------
    >>> import slipstick as ss
    >>> text = {"schema": "slipstick-study-1", "name": "clocks", "workloads": ["gemm"], "machines": ["t4"]}
    >>> clocks = ss.Study(**text, vary={"machine.clock": "0.8e9..1.6e9:9"}, objectives=["time", "clock=machine.clock"])
    >>> space = ss.AskTell(clocks)
    >>> slow, fast = space.ask({"machine.clock": "0.8 GHz"}), space.ask({"machine.clock": 1.6e9})
    >>> slow["time_s"] >= fast["time_s"], fast["clock"], 0 < fast["front_probability"] <= 1
    (True, 1600000000.0, True)
    """

    def __init__(self, file: str | Path | Study, *, allow_code: Collection[str] = ()) -> None:
        self.study = file if isinstance(file, Study) else load_study(study_path(str(file)), allow_code)
        self.cases, self.wanted = plan(self.study).cases, self.study.wanted()
        self.known: list[dict[str, Any]] = []

    def ask(self, point: Mapping[str, Value]) -> dict[str, Any]:
        """Time, energy, cost and objectives of a point, and how surely it is on the front of all that is known.

        Parameters
        ----------
        point
            Name of what varies -> number (SI) or text with a unit; workload, machine and dtype where there are several.

        Raises
        ------
        InputError
            Where a name is missing or unknown, or a value cannot be used.
        """
        return self._with(self._answer(point))

    def tell(self, point: Mapping[str, Value], **known: float) -> dict[str, Any]:
        """Put in what is known of a point from elsewhere, such as ``time_s`` of a simulation: it has no band."""
        row = self._answer(point)
        if "time_s" in known:
            row["time_ratio"] *= known["time_s"] / row["time_s"]
            row |= {name: row["time_ratio"] for name in ("low_ratio", "high_ratio") if name in row}
        return self._with({**row, **known})

    def front(self) -> pd.DataFrame:
        """All that was asked and told, with the columns `front` and `front_probability`."""
        import pandas as pd

        frame = pd.DataFrame(self.known)
        if len(self.wanted) < 2:
            return with_objectives(frame, self.wanted, self.study.query_of)[0]
        return with_front(frame, self.wanted, self.study.query_of, self.study.level)[0]

    def _answer(self, point: Mapping[str, Value]) -> dict[str, Any]:
        given = {name: str(value) for name, value in point.items() if name in CASE}
        cases = ({name: getattr(one, name) for name in CASE} for one in self.cases)
        whose = [(one, is_) for one, is_ in zip(self.cases, cases, strict=True) if given.items() <= is_.items()]
        if not whose:
            raise InputError(f"point: study {self.study.name!r} has no case of {given}")
        case, named = whose[0]
        machine = self.study.query_of({name: value for name, value in named.items() if value is not None}).machine
        values = {name: quantity(name, str(value), machine) for name, value in point.items() if name not in CASE}
        return {**{name: value for name, value in named.items() if value is not None}, **case.work.at(values)}

    def _with(self, row: dict[str, Any]) -> dict[str, Any]:
        self.known.append({**row, "point": len(self.known)})
        (answer,) = self.front().iloc[-1:].to_dict("records")  # as Python's numbers
        return {str(name): value for name, value in answer.items()}
