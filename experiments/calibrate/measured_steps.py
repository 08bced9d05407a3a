"""Whole steps of serving that a user measured on his machine: a CSV, a line a step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from slipstick.common.errors import InputError, Problems, errors_at
from slipstick.common.readers import number_of, read_csv_rows, unknown_columns, whole_number, whole_of
from slipstick.estimators.engine_steps.engines import engine_of
from slipstick.estimators.engine_steps.fitted_steps import server_on
from slipstick.estimators.engine_steps.measured_steps import ServerStep, TimedServerStep, usual_steps
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.importers.formats.look import look
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import stored_as
from slipstick.workloads.language_catalog import language_model

COLUMNS = ("step", "dtype", "engine", "tensor", "decodes", "context", "prompt", "time_s")
SIZES: Mapping[str, tuple[str, ...]] = {"decode": ("decodes", "context"), "prompt": ("prompt",)}
MAX_ROWS = 1000


def holds_steps(path: str | os.PathLike[str]) -> bool:
    """Whether the lines of a CSV are steps of a server (decode:MODEL), and not operations or numbered iterations."""
    columns = look(path).columns
    if columns & {"engine", "dtype"} and columns & {"decodes", "prompt"}:
        return True
    if not {"step", "time_s"} <= columns:
        return False
    first = next(iter(read_csv_rows(path, limit_rows=MAX_ROWS * 1000)), None)
    return first is not None and whole_number(first[1]["step"]) is None


def read_measured_steps(
    path: str | os.PathLike[str], machine: Machine, engine: str = ""
) -> tuple[TimedServerStep, ...]:
    """Steps measured on a machine.

    Columns: ``step`` (decode:MODEL, with ``decodes`` sequences that have ``context`` tokens in the cache; or
    prompt:MODEL, with the tokens of one ``prompt``) and ``time_s``; where they are not as usual also ``dtype`` (how
    weights are stored), ``engine`` ("vllm 0.19.0") and ``tensor`` (devices that share each product).

    `engine`: of lines that name none; "" for what the machine's runtime names, else vLLM.
    Raises InputError, which names file, lines and columns of all that is wrong; where no time is filled in.
    """
    made, problems = [], Problems(path)
    for index, (line, cells) in enumerate(read_csv_rows(path, required=["step", "time_s"], limit_rows=MAX_ROWS)):
        if not index:
            problems += unknown_columns(cells, COLUMNS)
        if cells["time_s"]:
            where = f"{path}: line {line}"
            step = _step(cells, where, problems, machine, engine)
            with problems:
                seconds = number_of(cells["time_s"], f"{where}: time_s", 1e-7, 1e4)
                if step is not None:
                    place = f"{Path(path).name}: line {line}: time_s = {cells['time_s']} s"
                    made.append(TimedServerStep(step, seconds, where=place))
    problems.refuse()
    if not made:
        raise InputError(f"{path}: no line has a time_s: fill in what was measured, in seconds")
    return tuple(made)


def _step(cells: Mapping[str, str], where: str, problems: Problems, machine: Machine, engine: str) -> ServerStep | None:
    """The step of a line; None where something is wrong, which is added to `problems`."""
    purpose, _, name = cells["step"].partition(":")
    sizes, before = dict[str, float](), len(problems)
    for size in SIZES.get(purpose, ()):
        with problems:
            if not cells.get(size):
                raise InputError(f"{where}: {size} is empty: a {purpose} step needs {' and '.join(SIZES[purpose])}")
            sizes[size] = number_of(cells[size], f"{where}: {size}", 1.0, 1e8)
    served = cells.get("engine") or engine or server_on(machine)
    with problems, errors_at(where):
        engine_of(served)
    with problems:
        layout = Layout(whole_of(cells.get("tensor") or "1", f"{where}: tensor", 1))
    with problems, errors_at(where):
        if purpose not in SIZES or not name:
            raise InputError(f"step = {cells['step'][:60]!r}: want decode:MODEL or prompt:MODEL")
        model = language_model(name)
        stored = stored_as(model, cells.get("dtype") or None)
        if len(problems) == before:
            layout.check(model)
            batch = (
                Batch(**sizes)
                if purpose == "decode"
                else Batch(prompt=sizes["prompt"], chunk=sizes["prompt"], finished=1)
            )
            return ServerStep(model, stored, machine, served, batch, layout)
    return None


def step_lines(steps: Sequence[ServerStep], names: Mapping[ServerStep, str]) -> list[str]:
    """Lines of the CSV that `read_measured_steps` reads, times left to fill in.

    `names`: what each step is called: decode:MODEL or prompt:MODEL, the model by the name that the user gave.
    """
    lines = [",".join(COLUMNS)]
    for step in steps:
        batch = step.batch
        decodes = (f"{batch.decodes:g}", f"{batch.context:g}", "") if batch.decodes else ("", "", f"{batch.prompt:g}")
        lines.append(",".join([names[step], step.stored, step.engine, str(step.layout.tensor), *decodes, ""]))
    return lines


def steps_of(
    name: str, machine: Machine, dtype: str | None = None, engine: str = "", tensor: int = 1
) -> tuple[list[ServerStep], dict[ServerStep, str]]:
    """Usual steps of a model that is given as decode:MODEL, prompt:MODEL, or by its name or configuration (both).

    Returns
    -------
    steps, names
        Those that fit the machine, and what each is called.
    """
    purpose, colon, rest = name.partition(":")
    known = purpose in SIZES and bool(colon)
    plain = rest if known else name
    model = language_model(plain)
    served = engine or server_on(machine)
    engine_of(served)
    layout = Layout(tensor)
    layout.check(model)
    stored = stored_as(model, dtype)
    steps = usual_steps(model, stored, machine, served, layout, purpose if known else "mixed")
    return steps, {step: f"{'decode' if step.batch.decodes else 'prompt'}:{plain}" for step in steps}
