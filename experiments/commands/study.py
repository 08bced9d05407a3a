"""slipstick study run|resume|report STUDY.toml"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pathlib import Path


File = Annotated[str, typer.Argument(help="a study's .toml file, or a preset (slipstick study list)")]
Folder = Annotated[str | None, typer.Option(help="folder of the results; slipstick-out/NAME if left out")]
Kind = Annotated[str, typer.Option(help="serial | threads | processes | dask")]
Workers = Annotated[int, typer.Option(help="workers of threads, processes, or a local dask cluster", min=1)]
Scheduler = Annotated[str | None, typer.Option(help="address of a dask scheduler")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    study = typer.Typer(no_args_is_help=True, help="What-if studies as files: run, resume, report.")
    app.add_typer(study, name="study")

    @study.command("list")
    def list_presets(format: Annotated[str, typer.Option(help="table | json | csv")] = "table") -> None:  # noqa: A002
        """The studies that ship."""
        from experiments.output import emit
        from experiments.studies import load_study, preset_paths

        shipped = {name: load_study(path) for name, path in preset_paths().items()}
        emit([{"study": name, "description": one.description} for name, one in shipped.items()], format)

    @study.command()
    def run(
        file: File,
        folder: Folder = None,
        executor: Kind = "serial",
        workers: Workers = 2,
        scheduler: Scheduler = None,
    ) -> None:
        """Answer every point of a study; what is finished is kept whatever happens."""
        _run(file, folder, executor, workers, scheduler, "new")

    @study.command()
    def resume(
        file: File,
        folder: Folder = None,
        executor: Kind = "serial",
        workers: Workers = 2,
        scheduler: Scheduler = None,
    ) -> None:
        """Go on with a study that was interrupted."""
        _run(file, folder, executor, workers, scheduler, "there")

    @study.command()
    def report(file: File, folder: Folder = None) -> None:
        """Write report.html and report.png of a study's results."""
        from experiments.runner import plan
        from experiments.store import load
        from experiments.studies import load_study, study_path
        from experiments.study_report import write

        asked = load_study(study_path(file))
        made = plan(asked)
        place = _folder(asked.name, folder)
        store = load(place, made.fingerprint)
        missing = len(made.chunks) - len(store.parts())
        page, picture = write(asked, made, store.frame(), place / "report.html")
        if missing:
            print(f"note: {missing} of {len(made.chunks)} chunks are not answered yet (slipstick study resume {file})")
        print(f"report: {page.resolve()}\npicture: {picture.resolve()}")


def _run(file: str, folder: str | None, kind: str, workers: int, scheduler: str | None, state: str) -> None:
    from experiments.progress import shown
    from experiments.runner import executor, plan, run
    from experiments.store import load
    from experiments.studies import load_study, study_path
    from hwmodels.files import InputError

    asked = load_study(study_path(file))
    made = plan(asked)
    place = _folder(asked.name, folder)
    if state == "there":
        load(place, made.fingerprint)
    elif (place / "study.json").exists() and load(place).parts():
        raise InputError(f"{place}: has results already; go on with: slipstick study resume {file}, or choose --folder")
    with executor(kind, workers, scheduler) as pool, shown(asked.name, made.points) as progress:
        store = run(made, place, pool, progress)
    print(f"{asked.name}: {made.points} points in {len(made.chunks)} chunks: {store.results.resolve()}")
    print(f"report: slipstick study report {file}" + (f" --folder {folder}" if folder else ""))


def _folder(name: str, folder: str | None) -> Path:
    from pathlib import Path

    return Path(folder) if folder else Path("slipstick-out") / name.replace(" ", "-")
