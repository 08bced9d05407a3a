"""What an installation may lack: packages of an extra, and files that only a checkout has."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from slipstick.common.errors import InputError

EXTRAS = {
    "PIL": "measure",
    "dask": "dask",
    "matplotlib": "pages",
    "mcp": "agents",
    "numba": "measure",
    "onnx": "onnx",
    "psutil": "measure",
    "pyarrow": "parquet",
    "torch": "torch",
    "xarray": "xarray",
}
"""Packages that the light install leaves out, by the name that is imported, and the extra that brings each."""
_SOURCE = "they stand in a checkout and in the source distribution (pip download --no-deps --no-binary :all: slipstick)"


def require_packages(names: Iterable[str]) -> None:
    """Refuse where a package of an extra is not installed.

    `names`: packages of `EXTRAS`; nothing is imported.
    Raises InputError, which names the package and the extra that brings it.
    """
    for name in names:
        if find_spec(name) is None:
            raise package_error(name)


def package_error(name: str) -> InputError:
    """The error for a package of `EXTRAS` that is not installed."""
    return InputError(f"this needs {name}, which is not installed: pip install 'slipstick[{EXTRAS[name]}]'")


def source_only(what: str) -> InputError:
    """The error for files that no wheel holds, such as the measurements behind a scoreboard."""
    return InputError(f"{what} are not part of the installed package: {_SOURCE}")
