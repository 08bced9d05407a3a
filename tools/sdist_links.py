"""Links of the folder `slipstick/` in the source distribution: an unpacked one is then what a checkout is.

The builder follows links to folders and would pack every file under its second name. It is given the folders under
their first name, and this hook of hatchling adds the links as links.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ("hwmodels", "workloads", "estimators", "experiments")


class LinksHook(BuildHookInterface):  # type: ignore[misc]
    """Called by hatchling when an archive is written."""

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Add the links to the archive."""
        path = Path(artifact_path)
        unpacked = io.BytesIO(gzip.decompress(path.read_bytes()))
        with tarfile.open(fileobj=unpacked, mode="a") as archive:
            first = archive.getmembers()[0]
            top = first.name.partition("/")[0]
            for folder in FOLDERS:
                link = tarfile.TarInfo(f"{top}/slipstick/{folder}")
                link.type, link.linkname, link.mtime = tarfile.SYMTYPE, f"../{folder}", first.mtime
                archive.addfile(link)
        path.write_bytes(gzip.compress(unpacked.getvalue(), mtime=int(first.mtime)))
