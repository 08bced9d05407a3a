"""What runs a study's chunks: executors by name, or your own by MODULE:FACTORY."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import cast

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.experiments.question.user_code import own_factory
from slipstick.experiments.studies.array_share import WHOLE, Share
from slipstick.experiments.studies.runner import PreparedStudy, run
from slipstick.experiments.studies.store import Store

EXECUTORS = ("serial", "threads", "processes", "dask")
ATTEMPTS = 3
"""How often a study goes on by itself after a worker died."""
Engine = Callable[[], AbstractContextManager[Executor | None]]


def engine(kind: str, workers: int = 2, scheduler: str | None = None) -> Engine:
    """What makes an executor anew each time it is called: a dead worker takes its pool with it.

    `kind`: serial, threads, processes, dask, or MODULE:FACTORY of your own: a function that returns a
        `concurrent.futures.Executor`, or an executor that is used as a context. Your module is imported and run.
    `workers`: of threads, processes and a local dask cluster.
    `scheduler`: address of a dask scheduler.
    Raises InputError where the name is unknown.
    """
    if ":" in kind:
        factory = own_factory(kind)
        return lambda: _own(kind, factory)
    if kind not in EXECUTORS:
        raise unknown_name("executor", kind, [*EXECUTORS, "MODULE:FACTORY"])
    return lambda: executor(kind, workers, scheduler)


@contextmanager
def _own(name: str, factory: Callable[[], object]) -> Iterator[Executor | None]:
    try:
        made = factory()
    except Exception as error:  # whatever the user's code raises is theirs to read
        raise InputError(f"executor {name!r}: {type(error).__name__}: {error}") from error
    if not callable(getattr(made, "submit", None)) and not hasattr(made, "__enter__"):
        raise InputError(f"executor {name!r}: a {type(made).__name__} has no submit(function, ...)")
    if isinstance(made, Executor) or not hasattr(made, "__enter__"):
        pool = cast(Executor, made)
        try:
            yield pool
        finally:
            pool.shutdown(wait=True)
    else:
        with cast(AbstractContextManager[Executor], made) as pool:
            yield pool


def run_on(
    made: PreparedStudy,
    folder: Path,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
    share: Share = WHOLE,
) -> Store:
    """Run a share of a study; where a worker dies, what it had not finished is run again on a new pool.

    Raises InputError as `run`, and where workers die `ATTEMPTS` times.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with engine() as pool:
                return run(made, folder, pool, progress, share)
        except Exception as error:
            if not _worker_died(error):
                raise
            print(f"slipstick: a worker died ({_first_line(error)}); run again {attempt}/{ATTEMPTS}", file=sys.stderr)
    raise InputError(f"{folder}: workers died {ATTEMPTS} times; what is finished is kept: slipstick study resume")


def _worker_died(error: Exception) -> bool:
    return isinstance(error, BrokenExecutor) or type(error).__name__ in ("KilledWorker", "WorkerLost", "ManagerLost")


def _first_line(error: Exception) -> str:
    return (str(error).partition("\n")[0] or type(error).__name__)[:100]


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C, from their first line on: the one that the user runs ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def executor(kind: str = "serial", workers: int = 2, scheduler: str | None = None) -> Iterator[Executor | None]:
    """An executor by name: serial (None), threads, processes, or dask (a scheduler's address, else a local cluster).

    Raises InputError where the name is unknown, or dask is not installed.
    """
    if kind not in EXECUTORS:
        raise unknown_name("executor", kind, EXECUTORS)
    if kind == "serial":
        yield None
    elif kind == "threads":
        with ThreadPoolExecutor(workers) as pool:
            yield pool
    elif kind == "processes":
        import multiprocessing

        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_ignore_interrupts) as pool:
            with _deaf_children():
                for _ in range(workers):
                    pool.submit(int)  # starts a worker
            yield pool
    else:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise InputError("executor 'dask' needs the extra: pip install 'slipstick[dask]'") from None
        if scheduler:
            with Client(scheduler) as client:
                yield client.get_executor()
        else:
            with _deaf_children():
                cluster = LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
                )
            with cluster, Client(cluster) as client:
                yield client.get_executor()
