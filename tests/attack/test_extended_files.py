"""Machine files that extend others, by an attacker: each mistake is an InputError that names the file and the field."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.hwmodels.machine_file import load_machine

LONG = "a" * 200
BROKEN: dict[str, tuple[str, str, str]] = {
    "whole number times a huge one": (
        "extends: h100-sxm",
        "cores: 1e308x",
        r"x\.yaml: cores = 1e308x: times \d+.*no finite number",
    ),
    "quantity times a huge one": ("extends: h100-sxm", "clock: 1e308x", r"x\.yaml: clock = 1e308x: .*no finite number"),
    "beyond floats": ("extends: h100-sxm", "clock: 1e999x", r"x\.yaml: clock = 1e999x: .*no finite number"),
    "base beyond floats": (f"cores: {'9' * 400}", "cores: 2x", r"x\.yaml: cores = 2x: .*no finite number|base"),
    "memory, a number": ("memory: 4", "memory: {a: {bandwidth: 2x}}", r"base\.yaml: memory: want named fields"),
    "memory, none": ("memory: {}", "memory: {a: {bandwidth: 2x}}", r"x\.yaml: .*memory\.a\.bandwidth = .2x."),
    "memory, empty": ("memory: {}", "memory: {a: {bandwidth: 2 GB/s}}", r"x\.yaml: "),
    "memory, null": ("memory: null", "memory: {a: {bandwidth: 2 GB/s}}", r"x\.yaml: "),
    "memory and sources": (
        "memory: {}\nsources: 7",
        "memory: {a: {bandwidth: 2x}}",
        r"base\.yaml: sources: want named",
    ),
    "memory, a list": ("memory: [1]\nsources: [a]", "memory: {a: {bandwidth: 2x}}", r"base\.yaml: memory: want named"),
    "sources, a number": ("sources: 7", "clock: 2 GHz", r"base\.yaml: sources: want named fields, got '7'"),
    "sources, a list": ("sources: [a]", "clock: 2 GHz", r"base\.yaml: sources: want named fields"),
    "engines, a list": ("engines: [a]", "engines: {vector: {flop_per_cycle: 2x}}", r"base\.yaml: engines: want named"),
    "level, a number": ("memory: {a: 4}", "memory: {a: {bandwidth: 2x}}", r"x\.yaml: "),
    "of the file itself": ("extends: h100-sxm", "memory: [1]", r"x\.yaml: memory: want named fields"),
}


def files(folder: Path, base: str, own: str) -> Path:
    (folder / "base.yaml").write_text(f"name: base\n{base}\n")
    (folder / "x.yaml").write_text(f"name: x\nextends: base.yaml\n{own}\n")
    return folder / "x.yaml"


@pytest.mark.parametrize(("base", "own", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_extended_is_checked_before_it_is_used(base: str, own: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        load_machine(files(tmp_path, base, own))


@pytest.mark.parametrize("name", ['"a\\0b.yaml"', "loop.yaml", "round/there.yaml", "none.yaml", f"{LONG * 3}.yaml"])
def test_names_that_lead_nowhere(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "round").symlink_to("back")
    (tmp_path / "back").symlink_to("round")
    (tmp_path / "x.yaml").write_text(f"name: x\nextends: {name}\n")
    with pytest.raises(InputError, match=r"x\.yaml: extends: ") as caught:
        load_machine(tmp_path / "x.yaml")
    assert "\0" not in str(caught.value) and len(str(caught.value)) < 200 + len(str(tmp_path))


@pytest.mark.parametrize("name", [LONG, f"../{LONG}.yaml", f"/{LONG}.yaml"])
def test_long_names_are_cut(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(f"name: x\nextends: {name}\n")
    with pytest.raises(InputError, match=r"x\.yaml: extends: ") as caught:
        load_machine(tmp_path / "x.yaml")
    assert LONG[:61] not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["link.yaml", "folder/base.yaml", "inside/../folder/base.yaml", "inside/out/base.yaml"]
)
def test_links_that_lead_out_are_refused(name: str, tmp_path: Path) -> None:
    """A link to a folder as well as one to a file."""
    outside, project = tmp_path / "outside", tmp_path / "project"
    (project / "inside").mkdir(parents=True)
    outside.mkdir()
    (outside / "base.yaml").write_text("name: secret\nextends: h100-sxm\n")
    (project / "link.yaml").symlink_to("../outside/base.yaml")
    (project / "folder").symlink_to("../outside", target_is_directory=True)
    (project / "inside" / "out").symlink_to(outside, target_is_directory=True)
    (project / "x.yaml").write_text(f"name: x\nextends: {name}\n")
    with pytest.raises(InputError, match=r"x\.yaml: extends: .*want a file in the folder of this one") as caught:
        load_machine(project / "x.yaml")
    assert "secret" not in str(caught.value)


def test_links_that_stay_inside_are_followed(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "base.yaml").write_text("name: base\nextends: h100-sxm\ncores: 2x\n")
    (tmp_path / "folder").symlink_to("inside", target_is_directory=True)
    (tmp_path / "x.yaml").write_text("name: x\nextends: folder/base.yaml\ncores: 0.5x\n")
    (tmp_path / "y.yaml").write_text("name: y\nextends: h100-sxm\n")
    assert load_machine(tmp_path / "x.yaml").cores == load_machine(tmp_path / "y.yaml").cores
