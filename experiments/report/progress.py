"""A progress bar with rate and remaining time on the terminal; silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from slipstick.common.formatting import count_shown


@contextmanager
def progress_bar(name: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A callback for (done, total); draws on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Points a second."""

        def render(self, task: Task) -> Text:
            return Text(f"{count_shown(task.speed)}/s" if task.speed else "")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        job = bar.add_task(name, total=total)
        yield lambda done, total: bar.update(job, completed=done, total=total)
