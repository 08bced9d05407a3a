"""Cases in forked workers, each under a clock, its memory and what it executes watched; a lost worker is one case."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import sysconfig
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import hypothesis
import psutil
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tests.attack.edits import FIRED, MARK

SECONDS = 10.0
"""Of processor time: how busy the machine is otherwise is no mistake of a reader."""
WAITING = 180.0
"""Seconds on the clock: a case that sleeps for ever."""
MEGABYTES = 1_000
ADDRESS_SPACE = 12 << 30
Try = Callable[[Any, Path], str | None]
"""Runs one case in an empty folder; says what went wrong, None where all is well."""


@dataclass
class Report:
    """What an attack found."""

    cases: int = 0
    failures: dict[str, Any] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    most_megabytes: float = 0.0
    longest_s: float = 0.0
    seconds: float = 0.0

    def add(self, what: str, case: Any) -> None:
        """Count a failure; of each kind the first case is kept."""
        self.counts[what] += 1
        self.failures.setdefault(what, case)

    def __str__(self) -> str:
        lines = [
            f"{self.cases} cases in {self.seconds:.0f} s, {self.counts.total()} failures of {len(self.counts)} kinds; "
            f"longest case {self.longest_s:.1f} s, most memory {self.most_megabytes:.0f} MB"
        ]
        lines += [
            f"  {count} x {what}\n      first: {self.failures[what]}" for what, count in self.counts.most_common()
        ]
        return "\n".join(lines)


def attack(cases: SearchStrategy[Any], one: Try, count: int, start: int = 0, workers: int = 2) -> Report:
    """Run `count` cases over forked workers; `start` seeds what hypothesis draws."""
    report, began = Report(), time.monotonic()
    slots = [
        _Slot(cases, one, count // workers + (number < count % workers), start * 1000 + number)
        for number in range(workers)
    ]
    busy = [slot for slot in slots if slot.start_worker()]
    while busy:
        for ready in wait([slot.pipe for slot in busy], timeout=0.5):
            next(slot for slot in busy if slot.pipe is ready).hear(report)
        for slot in busy:
            slot.check_clock(report)
        busy = [slot for slot in busy if not slot.over or slot.start_worker()]
    report.seconds = time.monotonic() - began
    return report


@dataclass
class _Slot:
    """A place for workers: one that hangs or dies is followed by another, until the cases are done."""

    cases: SearchStrategy[Any]
    one: Try
    left: int
    start: int
    over: bool = True
    case: Any = None
    since: float = 0.0
    busy: float = 0.0

    def start_worker(self) -> bool:
        """Start the next worker; False where no case is left."""
        if self.left <= 0:
            return False
        fork = multiprocessing.get_context("fork")
        self.pipe, theirs = fork.Pipe()
        self.worker = fork.Process(
            target=_work, args=(self.cases, self.one, self.left, self.start, theirs), daemon=True
        )
        self.worker.start()
        theirs.close()
        self.start += 7919
        self.over, self.case, self.since, self.busy = False, None, time.monotonic(), 0.0
        return True

    def hear(self, report: Report) -> None:
        """Take one message of the worker."""
        try:
            kind, *said = self.pipe.recv()
        except EOFError:
            if self.case is None:
                self.end()
                self.left -= 1  # or a worker that cannot start would be started for ever
            else:
                self.lost("the worker died", report)
            return
        if kind == "begin":
            self.case, self.busy = said
            self.since = time.monotonic()
        elif kind == "end":
            what, megabytes, seconds = said
            report.cases += 1
            self.left -= 1
            report.most_megabytes = max(report.most_megabytes, megabytes)
            report.longest_s = max(report.longest_s, seconds)
            if what:
                report.add(what, self.case)
            self.case = None
        else:
            self.left = max(0, self.left) if said else 0
            self.end()

    def check_clock(self, report: Report) -> None:
        """End a worker whose case takes too long."""
        if self.over or self.case is None:
            return
        if _processor_time(self.worker.pid) - self.busy > SECONDS or time.monotonic() - self.since > WAITING:
            self.lost(f"hangs: more than {SECONDS:g} s", report)

    def lost(self, what: str, report: Report) -> None:
        """The worker is given up, and its case is the finding."""
        report.add(what, self.case)
        report.cases += 1
        self.left -= 1
        self.end()

    def end(self) -> None:
        """Let the worker go."""
        self.over = True
        self.worker.kill()
        self.worker.join()
        self.pipe.close()


def _processor_time(pid: int | None) -> float:
    """Seconds of processor time of a process; 0 where it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _work(cases: SearchStrategy[Any], one: Try, count: int, start: int, pipe: Connection) -> None:
    os.setsid()
    home = Path(tempfile.mkdtemp(prefix="attack-"))
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    tempfile.tempdir = os.environ["TMPDIR"] = str(home)
    os.environ |= {"SLIPSTICK_CACHE": "off", "MPLCONFIGDIR": str(home), "NUMBA_CACHE_DIR": str(home)}
    watched = _Watch(home)
    sys.addaudithook(watched.hear)
    quiet = open(os.devnull, "w")  # noqa: SIM115 - as long as the worker
    sys.stdin = open(os.devnull)  # noqa: SIM115
    random.seed(start)

    @seed(start)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases)
    def run(case: Any) -> None:
        began = time.process_time()
        pipe.send(("begin", repr(case), began))
        signal.alarm(int(WAITING) + 5)  # should the parent be gone
        folder = home / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        os.chdir(folder)
        watched.heard = ""
        watched.on = True
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            try:
                what = one(case, folder)
            except BaseException as error:
                what = _where(error)
        watched.on = False
        watched.heard = watched.heard or watched.imported()
        if watched.heard or (folder / FIRED).exists():
            what = f"CODE RUN: {watched.heard or 'canary'}"
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if megabytes > MEGABYTES and not what:
            what = f"memory above {MEGABYTES} MB"
        pipe.send(("end", what, megabytes, time.process_time() - began))
        if megabytes > MEGABYTES:
            pipe.send(("over", "the next worker starts small"))
            os._exit(0)

    try:
        run()
        pipe.send(("over",))
    finally:
        os.chdir("/")
        shutil.rmtree(home, ignore_errors=True)
        gc.disable()
        os._exit(0)


def _where(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/slipstick/" in frame.filename]
    last = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    text = str(error).partition("\n")[0][:80]
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno} ({last.name}): {_general(text)}"


def _general(text: str) -> str:
    """The message without its numbers and quoted texts, so that one mistake counts as one kind."""
    import re

    return re.sub(r"'[^']*'|\"[^\"]*\"|-?\d[\d.e+-]*", "_", text)


INSTALLED = tuple(
    os.path.realpath(place)
    for place in (
        *(sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib")),
        *(Path(module.__file__ or "").parents[1] for module in (psutil, hypothesis)),
        Path(__file__).parents[2],
    )
)
"""Where code may come from: Python, what is installed beside it, and this project."""


class _Watch:
    """An audit hook: processes, sockets, unpickling, foreign code executed or imported, files written elsewhere."""

    def __init__(self, home: Path) -> None:
        self.home = os.path.realpath(home)
        self.on = False
        self.heard = ""
        self.modules = set(sys.modules)

    def imported(self) -> str:
        """A module that was imported from outside the installation."""
        new = set(sys.modules) - self.modules
        self.modules |= new
        for name in new:
            place = getattr(sys.modules[name], "__file__", None)
            if place and not os.path.realpath(place).startswith(INSTALLED):
                return f"imports {place}"
        return ""

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "pickle.find_class" and _while_importing():
            return  # libraries copy their own objects by pickle
        if event in (
            "os.system",
            "os.exec",
            "os.posix_spawn",
            "os.spawn",
            "pickle.find_class",
            "socket.connect",
            "os.remove",
        ):
            if event == "os.remove" and os.path.abspath(os.fsdecode(args[0])).startswith(self.home):  # noqa: PTH100
                return
            self.heard = f"{event} {str(args)[:80]}"
        elif event == "subprocess.Popen" and not _harmless(args):
            self.heard = f"{event} {str(args[:2])[:80]}"
        elif event == "exec" and getattr(args[0], "co_filename", "").startswith(self.home):
            self.heard = f"exec of {args[0].co_filename}"
        elif event == "exec" and MARK in str(getattr(args[0], "co_names", "")) + str(getattr(args[0], "co_consts", "")):
            self.heard = "exec of a marked text"
        elif event == "open" and isinstance(args[0], str) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            path = os.path.realpath(args[0])
            if not path.startswith((self.home, "/dev/")) and "__pycache__" not in path:
                self.heard = f"writes {path}"


def _while_importing() -> bool:
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _harmless(args: tuple[Any, ...]) -> bool:
    """Processes that the project or its libraries start: git for the version, lscpu, training, a compiler, fonts."""
    words = " ".join(map(str, args[1])) if isinstance(args[1], (list, tuple)) else str(args[1])
    if " -m slipstick." in words:
        return True
    return words.split(" ")[0].rpartition("/")[2] in (
        "git",
        "lscpu",
        "nvidia-smi",
        "uname",
        "ldconfig",
        "gcc",
        "fc-list",
    )
