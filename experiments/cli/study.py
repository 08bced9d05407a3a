"""slipstick study run|resume|report STUDY.toml"""

from __future__ import annotations

import sys
from collections.abc import Sized
from typing import TYPE_CHECKING, Annotated

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.vocabulary import Format, Objective, Trusted, option, verb_of
from slipstick.experiments.report.output import emit
from slipstick.experiments.studies.shipped_studies import preset_paths, study_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from slipstick.experiments.studies.runner import PreparedStudy


File = Annotated[str, typer.Argument(help="a study's .toml file, or a preset (slipstick study list)")]
Folder = Annotated[str | None, option("folder", "slipstick-out/NAME if left out")]
Kind = Annotated[
    TrustedName,
    option("executor", "serial | threads | processes | dask | MODULE:FACTORY: your own code, run", parser=TrustedName),
]
Share = Annotated[str | None, option("share", "study merge joins them")]
Workers = Annotated[int, option("workers", "of threads, processes, or a local dask cluster", min=1)]
Scheduler = Annotated[str | None, option("scheduler")]

SERIAL = TrustedName("serial")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    study = verb_of(app, "study", "What-if studies as files: run, resume, report.")

    @study.command("list")
    def list_presets(format: Format = "table") -> None:
        """The studies that ship."""
        from slipstick.experiments.studies.study import load_study

        shipped = {name: load_study(path) for name, path in preset_paths().items()}
        emit([{"study": name, "description": one.description} for name, one in shipped.items()], format)

    _add(study, "run", "Answer every point of a study; what is finished is kept whatever happens.", _refuse_finished)
    _add(study, "resume", "Go on with a study that was interrupted, or begin where nothing is kept.", _require_same)

    @study.command()
    def merge(
        file: File,
        folders: Annotated[list[str], typer.Argument(help="of shares, as study run --share leaves them")],
        folder: Folder = None,
        allow_code: Trusted = None,
    ) -> int:
        """Join what `study run --share I/N` left, the same bytes as one run; exit code 1 where some lack."""
        from pathlib import Path

        from slipstick.experiments.report.progress import progress_bar
        from slipstick.experiments.studies.merge_results import merge as join
        from slipstick.experiments.studies.runner import plan
        from slipstick.experiments.studies.study import load_study

        chosen = load_study(study_path(file), allow_code or ())
        made = plan(chosen)
        place = _folder(chosen.name, folder)
        with progress_bar(chosen.name, len(folders)) as progress:
            store = join(made, [Path(each) for each in folders], place, progress)
        missing = len(made.chunks) - len(store.parts())
        print(f"{chosen.name}: {len(store.parts())} of {len(made.chunks)} chunks: {place.resolve()}")
        if missing:
            print(f"{missing} chunks are not there yet: slipstick study resume {file} --folder {place}")
        print(f"report: slipstick study report {file} --folder {place}")
        return 1 if missing else 0

    @study.command()
    def report(
        file: File,
        folder: Folder = None,
        objective: Objective = None,
        allow_code: Trusted = None,
        rows: Annotated[int, option("rows", "fastest first", min=1)] = 40,
        format: Annotated[str, option("format", "table | json | csv: of the front")] = "table",
    ) -> None:
        """Write report.html and report.png of a study's results; the front of --objective to front.parquet."""
        from slipstick.common.formatting import visible
        from slipstick.estimators.base.conditions import conditions_lines, depends_on
        from slipstick.experiments.question.objectives import FRONT, known_only
        from slipstick.experiments.report.page import marked
        from slipstick.experiments.report.study_page import write
        from slipstick.experiments.studies.runner import examined_settings, plan
        from slipstick.experiments.studies.store import load
        from slipstick.experiments.studies.study import load_study
        from slipstick.experiments.studies.whatif import frame_rows

        chosen = load_study(study_path(file), allow_code or ())
        made = plan(chosen)
        place = _folder(chosen.name, folder)
        store = load(place, made.fingerprint)
        missing, (given, unused) = len(made.chunks) - len(store.parts()), examined_settings(chosen)
        frame, names = marked(store.frame(), chosen.wanted(objective or ()), chosen.query_of, chosen.level)
        page, picture = write(chosen, made, frame, names, place / "report.html")
        if names:
            front = frame[frame[FRONT]].sort_values(["workload", "time_ratio"])
            note = f"{len(front)} of {len(frame)} points are beaten by no other in {', '.join(names)}"
            note += f" ({store.front.resolve()})"
            store.write_front(front)
        else:
            front = frame.nsmallest(rows, "time_ratio")
            note = f"the {len(front)} fastest of {len(frame)} points (--objective, twice or more: the Pareto front)"
        if format != "table":
            known = depends_on(given, unused)
            emit(frame_rows(front, made.notes), format, remarks=_unknown(made), depends=known)
            return
        for text in dict.fromkeys(
            [*(one.text() for one in unused), *conditions_lines(given), *made.notes, *_unknown(made)]
        ):
            print(visible(text))
        if missing:
            print(f"note: {missing} of {len(made.chunks)} chunks are not answered yet (slipstick study resume {file})")
        emit(known_only(frame_rows(front.head(rows))), notes=[note])
        print(f"report: {page.resolve()}\npicture: {picture.resolve()}")


def _add(study: typer.Typer, name: str, text: str, check: Callable[[Path, str, str], None]) -> None:
    """A verb that answers what is not answered yet; `check` refuses a folder in the wrong state."""

    @study.command(name, help=text)
    def run(
        file: File,
        folder: Folder = None,
        executor: Kind = SERIAL,
        workers: Workers = 2,
        scheduler: Scheduler = None,
        share: Share = None,
        allow_code: Trusted = None,
    ) -> None:
        from slipstick.common.formatting import visible
        from slipstick.common.optional_packages import require_packages
        from slipstick.experiments.report.progress import progress_bar
        from slipstick.experiments.studies.array_share import share_of
        from slipstick.experiments.studies.executors import engine, run_on
        from slipstick.experiments.studies.runner import plan
        from slipstick.experiments.studies.study import load_study

        require_packages(["pyarrow"])  # before a part is answered that could not be kept
        chosen = load_study(study_path(file), allow_code or ())
        made, mine_of, workers_of = plan(chosen), share_of(share), engine(executor, workers, scheduler)
        place = _folder(chosen.name if share is None else f"{chosen.name}-part-{mine_of}", folder)
        check(place, made.fingerprint, file)
        counts = f"{made.points:,} points{_in_several(made.chunks, 'chunks')}{_in_several(made.cases, 'cases')}"
        print(
            *(visible(f"{chosen.name}: {text}") for text in (counts, *made.notes)),
            sep="\n",
            file=sys.stderr,
            flush=True,
        )
        mine = mine_of.of(len(made.chunks))
        points = sum(made.chunks[number][2] - made.chunks[number][1] for number in mine)
        with progress_bar(chosen.name, points) as progress:
            run_on(made, place, workers_of, progress, mine_of)
        print(f"{chosen.name}: {points} points{_in_several(mine, 'chunks')}: {place.resolve()}")
        if share is not None:
            print(f"merge: slipstick study merge {file} FOLDER ... (those of all {mine_of.parts} shares)")
            return
        more = "".join(f" --allow-code {name}" for name in allow_code or ()) + (f" --folder {folder}" if folder else "")
        print(f"report: slipstick study report {file}{more}")


def _unknown(made: PreparedStudy) -> list[str]:
    """What the study's workloads do not count, each once."""
    return list(dict.fromkeys(text for case in made.cases for text in case.work.unknown))


def _require_same(place: Path, fingerprint: str, file: str) -> None:
    """A job that a scheduler starts again may have been stopped before it kept anything."""
    from slipstick.experiments.studies.store import load

    if (place / "study.json").exists():
        load(place, fingerprint)


def _refuse_finished(place: Path, fingerprint: str, file: str) -> None:
    from slipstick.common.errors import InputError
    from slipstick.experiments.studies.store import load

    if (place / "study.json").exists() and load(place).parts():
        raise InputError(f"{place}: has results already; go on with: slipstick study resume {file}, or choose --folder")


def _folder(name: str, folder: str | None) -> Path:
    from pathlib import Path

    return Path(folder) if folder else Path("slipstick-out") / name.replace(" ", "-")


def _in_several(things: Sized, what: str) -> str:
    """`` in 12 chunks``; "" for a single one."""
    return f" in {len(things):,} {what}" if len(things) > 1 else ""
