"""PyTorch programs as they were recorded before, without torch, while all that their code read is as it was.

Kept is the workload, never code, and beside it what the code was made of and what it read: its own files and the files
that it opened by their content, the modules of libraries by length and time. Environment, folder, Python and the
options are part of the name. A program that wrote a file, said something, drew at random, started another program or
asked the network is not kept, and nothing is where torch or the file was imported before, since somebody may have
changed them in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

from slipstick.hwmodels.files.kept_files import LAYERS, ROOT, kept_path, read_kept, write_kept
from slipstick.hwmodels.files.kept_parts import kept_list, kept_table, kept_text, kept_texts
from slipstick.hwmodels.files.opener import MEGABYTE, read_bytes
from slipstick.workloads.graph.kept import UNREADABLE, kept_data, restored_workload
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.importers.torch.arguments import Inputs

OF_THE_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "COLUMNS", "LINES"})
"""Variables of the environment that say nothing to a program."""
BY_VERSION = frozenset({"torch", "numpy", "sympy", "mpmath"})
"""Packages of many files, of which the first stands for all."""
OUTSIDE = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "sqlite3.connect")
OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/", "/etc/")
MODULE = (".py", ".so", ".pyd")
LARGEST = 16 * MEGABYTE


def kept_program(
    name: str, options: Sequence[str | None], sizes: Sequence[str], record: Callable[[], tuple[Workload, Inputs]]
) -> Workload:
    """The workload of FILE.py:FUNCTION, as it was kept or as `record` makes it; then it is kept for the next time.

    `options`: all that decides it beside the name.
    `sizes`: names of sizes of the inputs that are given; where what is kept has not all of them, it is recorded
        anew.
    """
    path = _place(name, options)
    known = _unchanged(read_kept(path), sizes)
    if known is not None:
        print(f"slipstick: {name} as recorded before: nothing that it reads has changed", file=sys.stderr)
        return known
    watch = _Watch(sys.stderr)
    drawn = _drawn()
    with redirect_stdout(watch):  # what the user's code prints is no part of the answer
        try:
            made, inputs = record()
        finally:
            watch.on = False
    if path is not None and not watch.acted and not drawn():
        seen, data = watch.seen(name), kept_data(made)
        if seen is not None and data is not None and restored_workload(json.loads(json.dumps(data))) == made:
            shapes = inputs.values() if isinstance(inputs, Mapping) else inputs
            named = sorted({size for one in shapes for size in one.shape if isinstance(size, str)})
            write_kept(path, {"seen": seen, "sizes": named, "workload": data})
    return made


def _place(name: str, options: Sequence[str | None]) -> Path | None:
    """Where such a program is kept; None where nothing is."""
    file = Path(name.rpartition(":")[0])
    if file.suffix != ".py" or "torch" in sys.modules or file.stem in sys.modules:
        return None
    environment = sorted((key, value) for key, value in os.environ.items() if key not in OF_THE_SHELL)
    identity = ["program", name, str(file.resolve()), *options, str(Path.cwd()), sys.version, sys.path, environment]
    return kept_path("workloads", json.dumps(identity))


def _unchanged(content: Any, sizes: Sequence[str]) -> Workload | None:
    """The workload that was kept, where all that its program read is as it was."""
    if content is None:
        return None
    try:
        if not {*sizes} <= {*kept_texts(kept_table(content, "program")["sizes"], "sizes")}:
            return None
        for entry in kept_list(content["seen"], "seen"):
            path, was = kept_list(entry, "seen")
            if _state(kept_text(path, "seen"), kept_text(was, "seen").partition(":")[0]) != was:
                return None
        return restored_workload(content["workload"])
    except UNREADABLE:
        return None  # as if it were not there


def _state(path: str, kind: str) -> str | None:
    """A file's or folder's state as text; None where it has none that counts.

    `kind`: content of a file, its length and time, or the modules that lie in a folder.
    """
    try:
        if kind == "modules":
            there = sorted(one for one in os.listdir(path) if one.endswith(MODULE))  # noqa: PTH208 - at every start
            return f"modules:{hashlib.sha256(json.dumps(there).encode()).hexdigest()}"
        status = os.stat(path)  # noqa: PTH116
        if kind == "time":
            return f"time:{status.st_size} {status.st_mtime_ns}"
        if status.st_size > LARGEST or not stat.S_ISREG(status.st_mode):
            return None
        return f"content:{hashlib.sha256(read_bytes(path, LARGEST)).hexdigest()}"
    except (OSError, ValueError):
        return None if os.path.lexists(path) else f"{kind}:none"


def _drawn() -> Callable[[], bool]:
    """Answers whether numbers have been drawn since from the generators that all share, which begin without a seed."""
    import numpy.random

    state, legacy = random.getstate(), str(numpy.random.get_state())
    return lambda: (random.getstate(), str(numpy.random.get_state())) != (state, legacy)


class _Watch:
    """Notices what code does beside computing: what it reads, and whether it acts on anything. It is a stream, too."""

    def __init__(self, stream: TextIO) -> None:
        tempfile.gettempdir()  # which tries to write a file, the first time
        self.on = True
        self.acted = False
        self._stream = stream
        self._read: set[str] = set()
        sys.addaudithook(self._hook)

    def write(self, text: str) -> int:
        """What the code says goes to the stream, and is an act."""
        self.acted = True
        return self._stream.write(text)

    def flush(self) -> None:
        """As a stream does."""
        self._stream.flush()

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or self.acted:
            return
        if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path, mode, flags = os.path.abspath(os.fsdecode(arguments[0])), *arguments[1:]  # noqa: PTH100
            if "__pycache__" in path or path.startswith(OF_THE_SYSTEM):
                return
            self.acted = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR) or {*(mode or "")} & {*"wax+"})
            self._read.add(path)
        elif event in ("os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes, os.PathLike)):
            self._read.add(os.path.abspath(os.fsdecode(arguments[0])))  # noqa: PTH100 - the folder may change
        else:
            self.acted = event in OUTSIDE

    def seen(self, name: str) -> list[list[str]] | None:
        """[path, state] of each file that the code was made of or read; None where one has no state that counts."""
        paths = {str(Path(name.rpartition(":")[0]).resolve().parent): "modules"}
        for module, made in list(sys.modules.items()):
            package, dot, _ = module.partition(".")
            origin = getattr(made, "__dict__", {}).get("__file__")
            if isinstance(origin, str) and not (package in BY_VERSION and dot and module != "torch.version"):
                paths[origin] = "content"
        for path in self._read:
            kind = "modules" if os.path.isdir(path) else "content"  # noqa: PTH112
            paths.setdefault(path, kind)
        spec = find_spec("torch")
        if spec is None or spec.origin not in paths:
            return None
        states: list[list[str]] = []
        for path, kind in paths.items():
            where = _where(path)
            if where != "system":
                state = _state(path, "time" if where == "library" and kind == "content" else kind)
                if state is None:
                    return None
                states.append([path, state])
        return states


def _where(path: str) -> str:
    """Whether a file is of the system (Python, this package), of a library, or one's own."""
    ours = (str(ROOT / layer) + os.sep for layer in (*LAYERS, "experiments", "slipstick"))
    parts = Path(path).parts
    if path.startswith((*OF_THE_SYSTEM, *ours)):
        return "system"
    if {"site-packages", "dist-packages"} & {*parts}:
        return "library"
    places = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return "system" if any(path.startswith(place) for place in places if place) else "own"
