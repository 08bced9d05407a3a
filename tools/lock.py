"""python tools/lock.py: requirements.lock from pyproject.toml, with hashes and the reason for each package.

What pip would install for the core and the extras below (dry run, versions of constraints.txt) is followed from
pyproject.toml along the requirements of each package; what nothing asks for is left out. torch is not locked: its
builds (CPU, CUDA) are files of their own at indices of their own.

Install with it: pip install --require-hashes -r requirements.lock && pip install --no-deps -e .
(pip refuses an editable package among hashed ones.)
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
EXTRAS = ("pages", "parquet", "xarray", "measure", "onnx", "dask", "agents", "dev")


def wanted() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for, by where it says so."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"slipstick": project["dependencies"]}
    groups |= {f"slipstick[{extra}]": project["optional-dependencies"][extra] for extra in EXTRAS}
    return {where: [Requirement(text) for text in texts] for where, texts in groups.items()}


def reasons(packages: dict[str, Any]) -> dict[str, list[str]]:
    """Package -> who asks for it; only what is reached from pyproject.toml."""
    found: dict[str, list[str]] = {}
    waiting = [(where, one) for where, own in wanted().items() for one in own]
    while waiting:
        where, asked = waiting.pop()
        name = canonicalize_name(asked.name)
        if name not in packages:
            raise SystemExit(f"{asked} (of {where}) is not in pip's report")
        seen = name in found
        if where not in found.setdefault(name, []):
            found[name].append(where)
        if seen and not asked.extras:
            continue
        for text in packages[name]["metadata"].get("requires_dist", []):
            inner = Requirement(text)
            if inner.marker is None or any(inner.marker.evaluate({"extra": e}) for e in ("", *asked.extras)):
                waiting.append((name, inner))
    return found


def report() -> dict[str, Any]:
    """What pip would install, without installing it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        words = ["install", "--dry-run", "--ignore-installed", "--quiet", "--report", str(path)]
        words += ["--constraint", str(ROOT / "constraints.txt"), f"{ROOT}[{','.join(EXTRAS)}]"]
        subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], check=True)
        document: dict[str, Any] = json.loads(path.read_text())
        return document


def text(document: dict[str, Any]) -> str:
    """The lock."""
    packages = {canonicalize_name(one["metadata"]["name"]): one for one in document["install"]}
    lines = [
        "# Written by: python tools/lock.py (from pyproject.toml and constraints.txt; do not edit).",
        f"# For Python {'.'.join(platform.python_version_tuple()[:2])} on {sys.platform}, {platform.machine()}.",
        "# pip install --require-hashes -r requirements.lock && pip install --no-deps -e .",
    ]
    for name, why in sorted(reasons(packages).items()):
        one = packages[name]
        digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
        version = one["metadata"]["version"]
        lines += [
            f"{name}=={version} \\",
            f"    --hash=sha256:{digest}",
            f"    # asked for by {', '.join(sorted(why))}",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the lock."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, help="a report of pip install --dry-run --report, instead of a new one")
    given = parser.parse_args()
    document = json.loads(given.report.read_text()) if given.report else report()
    LOCK.write_text(text(document))
    print(f"{LOCK.name}: {LOCK.read_text().count('--hash')} packages")


if __name__ == "__main__":
    main()
