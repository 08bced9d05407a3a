"""What a program reads, says and does while it is recorded: its files, folders and modules, each with its state.

PyTorch programs as they were recorded before, without torch, while all that their code read is as it was.

Kept is the workload, never code, and beside it what the code was made of and what it read: its own files and the files
that it opened by their content, the modules of libraries by length and time, folders that it listed, files that it
looked at, and which modules could be imported. Environment, folder, Python and the options are part of the name. A
program that wrote a file, said something, drew at random, started another program, asked the network, or read the
words of the command or what is typed is not kept, nor one that names a clock or what reads files past Python
(`UNSEEN`); and nothing is where torch or the file was imported before, since somebody may have changed them in memory.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import random
import stat
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from importlib.util import find_spec, source_from_cache
from pathlib import Path
from typing import Any, TextIO

from slipstick.common.cached_parts import cached_list, cached_table, cached_text, cached_texts
from slipstick.common.disk_cache import LAYERS, ROOT, cache_path, read_cached, write_cached
from slipstick.common.opener import MEGABYTE, read_bytes
from slipstick.common.trusted_code import TrustedName
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_cache import UNREADABLE, cached_data, restored_workload
from slipstick.workloads.importers.torch.arguments import Inputs

BY_VERSION = frozenset({"torch", "numpy", "sympy", "mpmath"})
"""Packages of many files, of which the first stands for all."""
OUTSIDE = frozenset({
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "socket.connect",
    "socket.sendto", "socket.getaddrinfo", "sqlite3.connect", "builtins.input", "os.rename", "os.remove", "os.link",
    "os.symlink", "os.truncate",
})  # fmt: skip
"""What Python reports of code that acts on something, or asks somebody."""
UNSEEN = frozenset({
    "ctypes", "cffi", "from_file", "safetensors", "safe_open", "h5py", "cv2", "pyarrow", "polars", "urandom",
    "getrandom", "secrets", "uuid", "uuid4", "SystemRandom", "default_rng", "time", "perf_counter", "monotonic",
    "datetime", "cpu_count",
})  # fmt: skip
"""Names in a program's own code of clocks, of chance that nobody seeds, and of what reads files unseen by Python."""
LOOKS = ("stat", "lstat", "access", "readlink", "open")
"""Functions of `os` that tell of a file, of which Python reports the last alone, and that without its folder."""
OF_THE_SYSTEM = ("/proc/", "/sys/", "/dev/")
TYPED = ("/dev/stdin", "/dev/fd/", "/dev/tty", "/proc/self/fd/")
MODULE = (".py", ".pyc", ".so", ".pyd")
IMPORT = ("importlib.", "pkgutil", "_frozen_importlib")
"""Modules of Python that list folders in search of modules, and write those that they have compiled."""
LARGEST = 16 * MEGABYTE


def state_of(path: str, kind: str) -> str | None:
    """A file's or folder's state as text; None where it has none that counts.

    `kind`: content of a file, its length and time, all that os.stat says that lasts ("status"), the modules and
    packages that lie in a folder, or all that lies in it ("names").
    """
    try:
        if kind == "modules":
            there = sorted(one for one in os.listdir(path) if one.endswith(MODULE) or _is_package(path, one))  # noqa: PTH208
            return f"modules:{hashlib.sha256(json.dumps(there).encode()).hexdigest()}"
        if kind == "names":
            inside = sorted(os.listdir(path))  # noqa: PTH208
            states = [[one, _status(os.path.join(path, one))] for one in inside if one != "__pycache__"]  # noqa: PTH118
            return f"names:{hashlib.sha256(json.dumps(states).encode()).hexdigest()}"
        if kind == "status":
            return f"status:{_status(path)}"
        status = os.stat(path)  # noqa: PTH116
        if kind == "time":
            return f"time:{status.st_size} {status.st_mtime_ns}"
        if status.st_size > LARGEST or not stat.S_ISREG(status.st_mode):
            return None
        return f"content:{hashlib.sha256(read_bytes(path, LARGEST)).hexdigest()}"
    except (OSError, ValueError):
        return None if os.path.lexists(path) else f"{kind}:none"


def _is_package(folder: str, name: str) -> bool:
    """Whether a folder there has modules, whether or not it says that it is a package."""
    if not name.isidentifier() or name == "__pycache__":
        return False
    try:
        return any(one.endswith(MODULE) for one in os.listdir(os.path.join(folder, name)))  # noqa: PTH118, PTH208
    except OSError:
        return False


def _status(path: str) -> str:
    """Where a link leads, and type, length and time of what is there; of a folder its type alone."""
    link = os.readlink(path) if os.path.islink(path) else ""  # noqa: PTH114, PTH115
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError) as error:
        return f"{link} {type(error).__name__}"
    rest = f"{status.st_size} {status.st_mtime_ns}" if stat.S_ISREG(status.st_mode) else ""
    return f"{link} {status.st_mode} {rest}"


def drawn() -> Callable[[], bool]:
    """Answers whether numbers have been drawn since from the generators that all share, which begin without a seed."""
    import numpy.random

    state, legacy = random.getstate(), str(numpy.random.get_state())
    return lambda: (random.getstate(), str(numpy.random.get_state())) != (state, legacy)


class _Noted(list[str]):
    """The words of the command: reading them is an act."""

    def __init__(self, words: Sequence[str], note: Callable[[], None]) -> None:
        super().__init__(words)
        self._note = note

    def __getitem__(self, place: Any) -> Any:
        self._note()
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[str]:
        self._note()
        return super().__iter__()

    def __len__(self) -> int:
        self._note()
        return super().__len__()

    def __contains__(self, word: object) -> bool:
        self._note()
        return super().__contains__(word)


class _Typed:
    """What is typed or piped in: reading it is an act."""

    def __init__(self, stream: TextIO, note: Callable[[], None]) -> None:
        self._stream, self._note = stream, note

    def __getattr__(self, name: str) -> Any:
        self._note()
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        self._note()
        return iter(self._stream)


class Watch:
    """Notices what code does beside computing: what it reads, and whether it acts on anything. It is a stream, too."""

    def __init__(self, stream: TextIO) -> None:
        tempfile.gettempdir()  # which tries to write a file, the first time
        self.on = True
        self.acted = False
        self._stream = stream
        self._read: dict[str, str] = {}
        self._began = time.time_ns()
        sys.addaudithook(self._hook)

    def write(self, text: str) -> int:
        """What the code says goes to the stream, and is an act."""
        self._act()
        return self._stream.write(text)

    def flush(self) -> None:
        """As a stream does."""
        self._stream.flush()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within, looks at files are noted, and the words of the command and what is typed are not to be read."""
        known = {name: getattr(os, name) for name in LOOKS}
        words, typed = sys.argv, sys.stdin
        for name, function in known.items():
            setattr(os, name, self._noting(function))
        sys.argv = _Noted(words, self._act)
        sys.stdin = typed and _Typed(typed, self._act)
        try:
            yield
        finally:
            self.on = False
            sys.argv, sys.stdin = words, typed
            for name, function in known.items():
                setattr(os, name, function)

    def _act(self) -> None:
        self.acted = self.acted or self.on

    def _noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def noting(path: Any, *others: Any, **named: Any) -> Any:
            if named.get("dir_fd") is not None:
                self._act()
            self._note(path, "status")
            return function(path, *others, **named)

        return noting

    def _note(self, path: Any, kind: str) -> None:
        """A path is read in such a way; the content of a file, or what lies in a folder, says more than the others."""
        if not self.on or self.acted or not isinstance(path, (str, bytes, os.PathLike)):
            return
        place = os.path.join(os.getcwd(), os.fsdecode(path))  # noqa: PTH109, PTH118 - ".." after a link counts
        if "__pycache__" in place:
            try:
                place, kind = source_from_cache(place), "content"
            except ValueError:
                return
        if kind != "status" or place not in self._read:
            self._read[place] = "names" if "names" in (kind, self._read.get(place)) else kind

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on or self.acted:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR) or {*(mode or "")} & {*"wax+"})
            self.acted = path == 0 or (writes and not _by_import())
            if isinstance(path, (str, bytes, os.PathLike)):
                text = os.fsdecode(path)
                if "__pycache__" in text or text.startswith(OF_THE_SYSTEM):
                    self.acted = text.startswith(TYPED)
                self._note(text, "content")
        elif event in ("os.listdir", "os.scandir"):
            self._note("." if arguments[0] is None else arguments[0], "modules" if _by_import() else "names")
            self.acted = isinstance(arguments[0], int)
        else:
            self.acted = event in OUTSIDE and not _by_import()

    def seen(self, name: str) -> list[list[str]] | None:
        """[path, state] of each file that the code was made of or read; None where one has no state that counts."""
        folders = [str(Path(name.rpartition(":")[0]).resolve().parent), *(one or os.curdir for one in sys.path)]
        paths = {one: "modules" for one in folders if os.path.isdir(one)}  # noqa: PTH112
        for module, made in list(sys.modules.items()):
            package, dot, _ = module.partition(".")
            origin = getattr(made, "__dict__", {}).get("__file__")
            if isinstance(origin, str) and not (package in BY_VERSION and dot and module != "torch.version"):
                if not os.path.isfile(origin):  # noqa: PTH113 - in an archive
                    return None
                paths[origin] = "content"
        for path, noted in self._read.items():
            kind = "modules" if noted == "content" and os.path.isdir(path) else noted  # noqa: PTH112
            if kind == "names" or path not in paths:
                paths[path] = kind
        spec = find_spec("torch")
        if spec is None or spec.origin not in paths:
            return None
        states: list[list[str]] = []
        for path, kind in paths.items():
            where = _where(path)
            inside = where == "library" and (kind == "status" or (kind == "modules" and path not in folders))
            if where != "system" and not inside:  # times tell of modules of a library
                state = state_of(path, "time" if where == "library" and kind == "content" else kind)
                if state is None or (where == "own" and kind == "content" and self._is_unseen(path)):
                    return None
                states.append([path, state])
        return states

    def _is_unseen(self, path: str) -> bool:
        """Whether one's own file was changed since it was read, or its code reads what nobody notices."""
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            return False
        if max(status.st_mtime_ns, status.st_ctime_ns) >= self._began:
            return True
        if not path.endswith(".py"):
            return False
        names = _names(ast.parse(read_bytes(path, LARGEST)))
        return bool(names & UNSEEN) or {"jit", "load"} <= names


def _by_import() -> bool:
    """Whether what is being reported is done by Python itself, to find a module or to keep one that it compiled."""
    return bool(sys._getframe(2).f_globals.get("__name__", "").startswith(IMPORT))


def _names(code: ast.AST) -> set[str]:
    """The names of modules, functions and attributes in a file."""
    spelled: set[str] = set()
    for node in ast.walk(code):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                spelled.add(name)
            case ast.Import(names=names):
                spelled |= {part for one in names for part in one.name.split(".")}
            case ast.ImportFrom(module=module, names=names):
                spelled |= {part for one in names for part in one.name.split(".")} | {*(module or "").split(".")}
    return spelled


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
