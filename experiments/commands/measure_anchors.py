"""slipstick measure anchors: the operations to time first on a GPU that nobody measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(measures: typer.Typer) -> None:
    """Add the verb to those of `slipstick measure`."""
    measures.command("anchors")(anchors)


def anchors(
    on: Annotated[str, typer.Option(help="a machine, or a YAML file (slipstick machines list)")],
    count: Annotated[int, typer.Option("--next", help="rows to name", min=1, max=50)] = 5,
    dtype: Annotated[str, typer.Option(help="of the operations: float32, bfloat16")] = "bfloat16",
    calibration: Annotated[str, typer.Option(help="gpus, or a file of slipstick calibrate --out")] = "gpus",
    save: Annotated[Path | None, typer.Option(help="a CSV to fill in, for estimate --anchors")] = None,
    format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
) -> None:
    """The operations whose times would teach most about a GPU, the most informative first; nothing is run."""
    from slipstick.estimators.across_devices.anchors.next_rows import GRIDS, candidates, next_rows
    from slipstick.estimators.across_devices.files.devices_file import load_device_calibration
    from slipstick.experiments.pages.output import emit
    from slipstick.experiments.question.registry import CALIBRATIONS
    from slipstick.hwmodels.catalog import machine
    from slipstick.hwmodels.files.readers import InputError, atomic_write

    machine_there = machine(on)
    known = load_device_calibration(CALIBRATIONS / "gpus.json" if calibration == "gpus" else calibration)
    names = [one.name for one in known.classes if one.name.endswith(f".{dtype}") and one.name.split(".")[0] in GRIDS]
    if not names:
        have = sorted({one.name.partition(".")[2] for one in known.classes})
        raise InputError(f"--dtype {dtype}: {calibration} has no operations of it (known: {', '.join(have)})")
    belief = known.forecast(machine_there, anchors=()).belief
    if not belief.roots.any():
        raise InputError(f"{machine_there.name} was measured for {calibration}: its own rows say more than anchors")
    result = next_rows(belief, candidates(names, machine_there), count)
    dims = list(dict.fromkeys(dim for row in result for dim, _ in row.dims))
    if save is not None:
        lines = [",".join(["kind", "dtype", "causal", "time_s", *dims])]
        for row in result:
            sizes = dict(row.dims)
            causal = "" if "queries" not in sizes else "yes" if sizes["queries"] > 1 else "no"
            cells = [f"{sizes[dim]:g}" if dim in sizes else "" for dim in dims]
            lines.append(",".join([row.name.partition(".")[0], dtype, causal, "", *cells]))
        with atomic_write(save) as stream:
            stream.write("\n".join(lines) + "\n")
    rows = [
        {
            "operation": row.name,
            "sizes": ", ".join(f"{dim} = {size:g}" for dim, size in row.dims),
            "told_s": row.time,
            "spread_now": row.spread,
            "mean_spread_after": row.left,
        }
        for row in result
    ]
    notes = [f"{machine_there.name}: measure these, warm, medians of many runs, and give them as --anchors FILE.csv"]
    emit(rows, format, notes=[*notes, f"to fill in: {save}"] if save else notes)
