"""Factories of real engines on one machine, as users write them (see docs/clusters.md)."""

from concurrent.futures import Executor
from typing import Any


def mpi() -> Executor:
    from mpi4py.futures import MPIPoolExecutor

    return MPIPoolExecutor()


def parsl() -> Any:
    import parsl as library
    from parsl.concurrent import ParslPoolExecutor

    return ParslPoolExecutor(library.Config(executors=[library.HighThroughputExecutor(max_workers_per_node=2)]))


def executorlib() -> Any:
    from executorlib import SingleNodeExecutor

    return SingleNodeExecutor(max_workers=2)
