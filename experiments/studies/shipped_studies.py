"""Studies by name: files of the user, and those that ship."""

from __future__ import annotations

from pathlib import Path

from slipstick.common.readers import unknown_name


def preset_paths() -> dict[str, Path]:
    """The studies that ship, by name."""
    folder = Path(__file__).parent / "presets"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def study_path(name: str) -> Path:
    """The file of a study: a path, or a preset's name.

    Raises InputError where neither a file nor a preset has this name.
    """
    if name.endswith(".toml") or "/" in name:
        return Path(name)
    presets = preset_paths()
    if name not in presets:
        raise unknown_name("study", name, sorted(presets))
    return presets[name]
