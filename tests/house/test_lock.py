"""requirements.lock is what pyproject.toml asks for, with hashes and reasons, and what is installed here."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^([a-z0-9-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}\n    # asked for by (.+)$", re.M)
NOT_LOCKED = {"torch"}  # builds of their own at indices of their own


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def locked() -> dict[str, tuple[str, list[str]]]:
    text = (ROOT / "requirements.lock").read_text()
    found = {name: (version, why.split(", ")) for name, version, why in ENTRY.findall(text)}
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) == 3 * len(found), "every entry has a hash and a reason"
    return found


def test_the_lock_holds_what_pyproject_asks_for_and_a_reason_for_each(locked: dict[str, tuple[str, list[str]]]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    locked_extras = [extra for extra in extras if extra not in ("torch", "docs")]
    asked = [*project["dependencies"], *(text for name in locked_extras for text in extras[name])]
    names = {_plain(re.split(r"[\[<>=!~ ;]", text)[0]) for text in asked}
    assert names - NOT_LOCKED <= set(locked)
    for name, (_, why) in locked.items():
        for who in why:
            assert who.startswith("slipstick") or who in locked, f"{name}: {who}"


def test_the_lock_is_what_the_constraints_say(locked: dict[str, tuple[str, list[str]]]) -> None:
    pins = dict(
        line.strip().split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    )
    pinned = {_plain(name): version for name, version in pins.items()}
    assert {name: version for name, (version, _) in locked.items() if pinned.get(name, version) != version} == {}


def test_what_is_installed_is_what_is_locked(locked: dict[str, tuple[str, list[str]]]) -> None:
    other = {}
    for name, (version, _) in locked.items():
        try:
            here = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed here
        if here != version:
            other[name] = (here, version)
    assert other == {}, "run: python tools/lock.py, or install from requirements.lock"
