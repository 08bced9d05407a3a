"""The scoreboards as a page: what was scored, by which command, when, on which commit."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from datetime import date
from itertools import groupby
from pathlib import Path

from slipstick.experiments.evidence.rows import ValidationRow
from slipstick.hwmodels.files.readers import atomic_write

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- below this line: one section a scoreboard, each written by `slipstick validate NAME --page FILE` -->"


def put(board: str, rows: Sequence[ValidationRow], path: Path) -> None:
    """Write one scoreboard's section into a page; what stands above the mark, and the other sections, stay."""
    head, _, below = path.read_text().partition(MARK) if path.exists() else ("# Validation", "", "")
    sections = {part.partition("\n")[0].strip(): part.rstrip() for part in below.split("\n## ")[1:]}
    lines = [board, "", f"`slipstick validate {board}`; {date.today().isoformat()}; commit {_commit()}."]
    for dataset, group in groupby(rows, key=lambda row: row.dataset):
        lines += ["", f"### {dataset}", "", *_table(list(group))]
    sections[board] = "\n".join(lines).rstrip()
    with atomic_write(path) as stream:
        stream.write("\n\n".join([head.rstrip(), MARK, *("## " + sections[name] for name in sorted(sections))]) + "\n")


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _table(rows: Sequence[ValidationRow]) -> list[str]:
    lines = [
        "| case | held out | n | metric | ours | goal | met | baselines | band | noise |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        met = {True: "yes", False: "**no**", None: ""}[row.ok]
        baselines = ", ".join(f"{name} {value:.3g}" for name, value in row.baselines.items())
        band = ""
        if row.interval_coverage is not None and row.interval_width is not None and row.interval_level is not None:
            band = f"{row.interval_level:.0%}: covers {row.interval_coverage:.0%} in x{row.interval_width:.2f}"
        cells = [
            row.case,
            row.held_out,
            str(row.n),
            f"{row.metric} [{row.unit}]" if row.unit else row.metric,
            _number(row.ours),
            _number(row.goal),
            met,
            baselines,
            band,
            _number(row.noise_floor),
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    reasons = dict.fromkeys(row.reason for row in rows if row.reason)
    return [*lines, "", *(f"- {reason}" for reason in reasons)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
