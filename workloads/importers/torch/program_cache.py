"""PyTorch programs as they were recorded before, without torch, while all that their code read is as it was.

Kept is the workload, never code, and beside it what the code was made of and what it read: its own files and the files
that it opened by their content, the modules of libraries by length and time, folders that it listed, files that it
looked at, and which modules could be imported. Environment, folder, Python and the options are part of the name. A
program that wrote a file, said something, drew at random, started another program, asked the network, or read the
words of the command or what is typed is not kept, nor one that names a clock or what reads files past Python
(`UNSEEN`); and nothing is where torch or the file was imported before, since somebody may have changed them in memory.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from slipstick.common.cached_parts import cached_list, cached_table, cached_text, cached_texts
from slipstick.common.disk_cache import cache_path, read_cached, write_cached
from slipstick.common.trusted_code import TrustedName
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_cache import UNREADABLE, cached_data, restored_workload
from slipstick.workloads.importers.torch.arguments import Inputs
from slipstick.workloads.importers.torch.program_watch import Watch, drawn, state_of

OF_THE_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
"""Variables of the environment that say nothing to a program."""


def cached_program(
    name: str, options: Sequence[str | None], sizes: Sequence[str], record: Callable[[], tuple[Workload, Inputs]]
) -> Workload:
    """The workload of FILE.py:FUNCTION, as it was kept or as `record` makes it; then it is kept for the next time.

    `options`: all that decides it beside the name.
    `sizes`: names of sizes of the inputs that are given; where what is kept has not all of them, it is recorded
        anew.
    """
    path = _place(name, options)
    known = _unchanged(read_cached(path), sizes)
    if known is not None:
        print(f"slipstick: {name} as recorded before: nothing that it reads has changed", file=sys.stderr)
        return known
    if path is None:
        with redirect_stdout(sys.stderr):  # what the user's code prints is no part of the answer
            return record()[0]
    watch = Watch(sys.stderr)
    chance = drawn()
    with redirect_stdout(watch), watch.watching():
        made, inputs = record()
    if not watch.acted and not chance():
        seen, data = watch.seen(name), cached_data(made)
        if seen is not None and data is not None and restored_workload(json.loads(json.dumps(data))) == made:
            shapes = inputs.values() if isinstance(inputs, Mapping) else inputs
            named = sorted({size for one in shapes for size in one.shape if isinstance(size, str)})
            write_cached(path, {"seen": seen, "sizes": named, "workload": data})
    return made


def _place(name: str, options: Sequence[str | None]) -> Path | None:
    """Where such a program is kept; None where nothing is."""
    file = Path(name.rpartition(":")[0])
    if not isinstance(name, TrustedName) or file.suffix != ".py" or "torch" in sys.modules or file.stem in sys.modules:
        return None
    environment = sorted((key, value) for key, value in os.environ.items() if key not in OF_THE_SHELL)
    python = [sys.version, *sys.flags, sorted(map(str, sys._xoptions.items())), sys.warnoptions, sys.path]
    try:
        here = [str(file.resolve()), str(Path.cwd())]
    except OSError:  # the folder was removed
        return None
    return cache_path("workloads", json.dumps(["program", name, *here, *options, python, environment]))


def _unchanged(content: Any, sizes: Sequence[str]) -> Workload | None:
    """The workload that was kept, where all that its program read is as it was."""
    if content is None:
        return None
    try:
        if not {*sizes} <= {*cached_texts(cached_table(content, "program")["sizes"], "sizes")}:
            return None
        for entry in cached_list(content["seen"], "seen"):
            path, was = cached_list(entry, "seen")
            if state_of(cached_text(path, "seen"), cached_text(was, "seen").partition(":")[0]) != was:
                return None
        return restored_workload(content["workload"])
    except UNREADABLE:
        return None  # as if it were not there
