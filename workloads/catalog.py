"""The built-in workloads by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hwmodels.files import unknown_name
from workloads.workload import Workload, load_workload


def _builders() -> dict[str, Callable[[], Workload]]:
    from workloads.networks import phi_cnn

    return {f"phi-cnn-{size}": partial(phi_cnn.phi_cnn, size) for size in ("small", "medium", "large")}


def workload_names() -> list[str]:
    """Names of the built-in workloads."""
    return sorted(_builders())


def workload(name: str) -> Workload:
    """A built-in workload by name, or one of your own by the path of its .json or .json.gz file.

    Raises
    ------
    InputError
        Where the name is unknown, or the file is broken.
    """
    if name.endswith((".json", ".json.gz")) or "/" in name:
        return load_workload(name)
    builders = _builders()
    if name not in builders:
        raise unknown_name("workload", name, sorted(builders))
    return builders[name]()
