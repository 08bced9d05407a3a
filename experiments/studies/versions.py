"""Which versions of what decide an answer."""

from __future__ import annotations

from importlib import metadata


def installed_version(distribution: str) -> str:
    """The version of an installed distribution, or `not installed` where at most its source is on the path."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
