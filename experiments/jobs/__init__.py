"""Jobs of several stages: files, event simulation of many runs."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent / "shipped"


def is_job(name: str) -> bool:
    """Whether a name is a job's: a YAML file, or one that ships."""
    return name.endswith((".yaml", ".yml")) or name in shipped_jobs()


def shipped_jobs() -> list[str]:
    """Names of the jobs that ship."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))
