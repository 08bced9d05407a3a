"""The verb `study` as a function: a study's file in, its answers out, kept in a folder."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Executor
from pathlib import Path

from slipstick.common.renamed_arguments import checked
from slipstick.experiments.studies.runner import run_study
from slipstick.experiments.studies.shipped_studies import study_path
from slipstick.experiments.studies.store import Store
from slipstick.experiments.studies.study import Study, load_study


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
