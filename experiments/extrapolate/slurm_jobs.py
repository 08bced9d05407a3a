"""Run times of jobs from Slurm's accounting: what `sacct` and `seff` print, as text, CSV or JSON, with a header or not.

Source: https://slurm.schedmd.com/sacct.html (fields, and elapsed times as [DD-[HH:]]MM:SS); seff is a contribution of
Slurm's own repository (contribs/seff).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.opener import opened
from slipstick.common.readers import parse_json, require_mapping
from slipstick.common.units import parse_clock
from slipstick.experiments.extrapolate.readings import Readings
from slipstick.workloads.importers.formats.look import CLOCK, SEFF_TIME, STATES, headless_jobs, sacct_columns

COUNTS = {
    "nodes": ("nnodes", "allocnodes", "reqnodes", "nodes"),
    "tasks": ("ntasks",),
    "cpus": ("alloccpus", "ncpus", "reqcpus"),
}
"""What counts workers, by the columns that hold it; the first that varies is taken."""
DONE = "COMPLETED"
LARGEST = 1 << 26
_SUFFIXES = {"K": 1e3, "M": 1e6}


def read_slurm(path: Path, metric: str | None = None) -> Readings:
    """Jobs that completed, one measurement each: elapsed time over nodes, tasks or CPUs.

    Steps of jobs ("4711.batch") are left out, jobs that did not complete are left out and counted.

    `metric`: not of these files: the time is always the elapsed one.
    Raises InputError where no job completed, a time cannot be read, or no count of workers stands beside it.
    """
    if metric is not None:
        raise InputError(f"{path}: --column {metric}: the time of a job is always its elapsed time")
    with opened(path, LARGEST) as stream:
        text = stream.read(LARGEST).decode("utf-8-sig", errors="replace")
    if text.lstrip().startswith("{"):
        jobs = _json_jobs(text, path)
    elif headless_jobs(text.splitlines()):
        jobs = _headless(text)
    else:
        jobs = _seff(text) if SEFF_TIME.search(text) else _sacct(text, path)
    done = [job for job in jobs if job.get("state", DONE).startswith(DONE)]
    states = Counter(
        job["state"].partition(" ")[0].rstrip("+") for job in jobs if not job.get("state", DONE).startswith(DONE)
    )
    if not done:
        raise InputError(f"{path}: none of {len(jobs)} jobs completed ({_counted(states) or 'no rows'})")
    times = np.array([_seconds(job["elapsed"], path, i) for i, job in enumerate(done)])
    columns = {name: _workers(done, names) for name, names in COUNTS.items()}
    known = {name: values for name, values in columns.items() if values is not None}
    if not known:
        wanted = ", ".join(names[0] for names in COUNTS.values())
        raise InputError(f"{path}: no count of workers beside the elapsed time; want one of {wanted}")
    name = next((name for name, values in known.items() if len(set(values)) > 1), next(iter(known)))
    left_out = f"{len(jobs) - len(done)} of {len(jobs)} jobs left out: {_counted(states)}"
    notes = (f"elapsed times of {len(done)} completed jobs", *([left_out] if states else []))
    return Readings((name,), np.array(known[name])[:, None], times, (), notes)


def _sacct(text: str, path: Path) -> list[dict[str, str]]:
    """Jobs of sacct: columns between bars or commas, or aligned over a line of dashes."""
    lines = [line for line in text.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if sacct_columns(line)), None)
    if start is None:
        raise InputError(f"{path}: no line names the columns of sacct (Elapsed, NNodes, State)")
    head, rest = lines[start], lines[start + 1 :]
    names = [name.lower() for name in sacct_columns(head)]
    jobs = []
    if rest and set(rest[0]) <= {"-", " "}:
        spans = [match.span() for match in re.finditer("-+", rest[0])]
        cells = [[line[a:b].strip() for a, b in spans] for line in rest[1:]]
    else:
        mark = "|" if "|" in head else "," if "," in head else None
        cells = [[cell.strip() for cell in line.split(mark)] for line in rest]
    for line in cells:
        job = dict(zip(names, line, strict=False))
        job["elapsed"] = job.get("elapsed") or job.get("elapsedraw", "")  # the raw one is in seconds
        if "." not in job.get("jobid", "") and job["elapsed"]:
            jobs.append(job)
    return jobs


def _json_jobs(text: str, path: Path) -> list[dict[str, str]]:
    """Jobs of `sacct --json`; newer releases wrap numbers as {"set": true, "number": 8}, and states as lists."""
    jobs = require_mapping(parse_json(text, path), path, "the document").get("jobs")
    made = []
    for i, entry in enumerate(jobs if isinstance(jobs, list) else []):
        job = require_mapping(entry, path, f"jobs[{i}]")
        time, state, tres = (job.get(name) for name in ("time", "state", "tres"))
        state = state.get("current") if isinstance(state, Mapping) else state
        allocated = tres.get("allocated") if isinstance(tres, Mapping) else None
        held = {str(one.get("type")): one for one in allocated or () if isinstance(one, Mapping)}
        required = job.get("required")
        cpus = held.get("cpu", {}).get("count") or (required.get("CPUs") if isinstance(required, Mapping) else None)
        made.append({
            "elapsed": _plain(time.get("elapsed") if isinstance(time, Mapping) else None),
            "state": _plain(state[0] if isinstance(state, list) and state else state),
            "nnodes": _plain(job.get("allocation_nodes") or held.get("node", {}).get("count")),
            "ncpus": _plain(cpus),
        })  # fmt: skip
    if not made:
        raise InputError(f"{path}: no list jobs (want the output of sacct --json)")
    return made


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("number")
    return "" if value is None else str(value)[:80]


def _headless(text: str) -> list[dict[str, str]]:
    """Jobs of `sacct --noheader`: time and state show themselves, and of whole numbers those that count workers.

    The first column is the job's number; of several others that vary, the smaller count the nodes.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    mark = "|" if "|" in lines[0] else "," if "," in lines[0] else None
    rows = [[cell.strip() for cell in line.split(mark)] for line in lines]
    steps = [row for row in rows if "." not in row[0]]
    width = min(map(len, steps), default=0)
    counts = [i for i in range(1, width) if all(_count(row[i]) for row in steps)]
    varying = [i for i in counts if len({row[i] for row in steps}) > 1] or counts
    ordered = sorted(varying, key=lambda i: sum(_count(row[i]) or 0.0 for row in steps))
    jobs = []
    for row in steps:
        job = dict(zip(("nnodes", "ncpus"), (row[i] for i in ordered), strict=False))
        clock, state = (next((cell for cell in row if one.search(cell)), "") for one in (CLOCK, STATES))
        jobs.append({**job, "elapsed": clock, "state": state})
    return jobs


def _seff(text: str) -> list[dict[str, str]]:
    """Jobs of seff, one block each."""
    jobs = []
    for block in re.split(r"^Job ID:", text, flags=re.MULTILINE)[1:]:
        fields: dict[str, str] = dict(re.findall(r"^([A-Z][\w /-]*?): *(.+?)\s*$", block, flags=re.MULTILINE))
        job = {"elapsed": fields.get("Job Wall-clock time", ""), "state": fields.get("State", "")}
        nodes, cores = fields.get("Nodes", "1"), fields.get("Cores per node") or fields.get("Cores") or "1"
        jobs.append({**job, "nnodes": nodes, "ncpus": f"{(_count(nodes) or 0.0) * (_count(cores) or 0.0):g}"})
    return jobs


def _workers(jobs: Sequence[Mapping[str, str]], names: Sequence[str]) -> list[float] | None:
    """The counts in the first of these columns that every job fills; None where there is none."""
    for name in names:
        values = [_count(job.get(name, "")) for job in jobs]
        numbers = [value for value in values if value]
        if len(numbers) == len(jobs):
            return numbers
    return None


def _count(text: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KM]?)", text)
    return None if match is None else float(match[1]) * _SUFFIXES.get(match[2], 1.0)


def _seconds(text: str, path: Path, job: int) -> float:
    seconds = float(text) if text.isdigit() else parse_clock(text)
    if not seconds:
        raise InputError(f"{path}: job {job + 1}: elapsed time {text[:40]!r}: want [D-]HH:MM:SS, longer than 0")
    return seconds


def _counted(states: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in states.items())
