"""slipstick bricks split|similarity|compose"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

FORMAT = "table | json | csv"
MODEL = "a built-in workload, a .json file, zoo:NAME, or package.module:callable"
STORE = Path("slipstick-out/bricks.sqlite")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    bricks = typer.Typer(no_args_is_help=True, help="Models cut into bricks that are measured once and composed.")
    app.add_typer(bricks, name="bricks")
    bricks.command("split")(split)
    bricks.command("similarity")(similarity)
    bricks.command("compose")(compose)


def split(
    models: Annotated[list[str], typer.Argument(help=MODEL)],
    granularity: Annotated[int, typer.Option("--granularity", "-g", help="layers a brick", min=1)] = 1,
    export: Annotated[Path | None, typer.Option(help="write every unique brick as an exported program here")] = None,
    format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
) -> None:
    """How many bricks, and how many of them are unique, in each model and in all."""
    from experiments.output import emit
    from workloads.bricks import find_bricks, unique_bricks

    rows, everything = [], []
    for name in models:
        workload, layered = _workload(name)
        bricks = find_bricks(workload, granularity)
        everything += bricks
        unique = unique_bricks(bricks)
        rows.append(_counts(name, len(workload), len(bricks), len(unique)))
        if export is not None and layered is not None:
            from experiments.measure.brick_modules import brick_module, save_brick

            for identity, brick in unique.items():
                save_brick(*brick_module(layered, brick), export / f"{identity}.pt2")
    if len(models) > 1:
        layers = sum(row["layers"] for row in rows)
        rows.append(_counts("all", layers, len(everything), len(unique_bricks(everything))))
    emit(rows, format)


def _counts(name: str, layers: int, bricks: int, unique: int) -> dict[str, Any]:
    return {
        "model": name,
        "layers": layers,
        "bricks": bricks,
        "unique": unique,
        "unique_share": unique / max(1, bricks),
    }


def similarity(
    models: Annotated[list[str], typer.Argument(help=MODEL)],
    format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
) -> None:
    """Jaccard similarity of the sets of layers of every pair of models."""
    from experiments.output import emit
    from workloads.bricks import jaccard_similarity

    grid = jaccard_similarity([_workload(name)[0] for name in models])
    emit(
        [
            {"model": name, **dict(zip(models, map(float, row), strict=True))}
            for name, row in zip(models, grid, strict=True)
        ],
        format,
    )


def compose(
    models: Annotated[list[str], typer.Argument(help=MODEL)],
    granularity: Annotated[int, typer.Option("--granularity", "-g", help="layers a brick", min=1)] = 1,
    store: Annotated[Path, typer.Option(help="measured bricks (slipstick measure bricks)")] = STORE,
    schedule: Annotated[str, typer.Option(help="sequential | critical-path")] = "sequential",
    format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
) -> None:
    """Latency of models from measured bricks, on every machine that the store knows, fastest first."""
    from experiments.bricks import composed, composer
    from experiments.measure.brick_store import BrickStore
    from experiments.output import emit
    from hwmodels.files import InputError

    kept = BrickStore(store)
    rows: list[dict[str, Any]] = []
    for on, software, protocol, count in kept.contents():
        seconds = kept.seconds(on.fingerprint, software, protocol)
        for name in models:
            parts = composed(_workload(name)[0], granularity)
            row: dict[str, Any] = {"model": name, "machine": on.name, "software": software}
            try:
                answer = composer(seconds, on, schedule).estimate(parts, on)
                row |= {"time_s": answer.time, "bricks": len(parts), "reason": ""}
            except InputError as error:
                row |= {"time_s": None, "bricks": len(parts), "reason": str(error)}
            hourly = on.price / 3600 if on.price else None
            row["dollars_per_million"] = hourly * row["time_s"] * 1e6 if hourly and row["time_s"] else None
            rows.append(row | {"measured": count, "protocol": protocol})
    if not rows:
        raise InputError(f"{store}: holds no measured brick (slipstick measure bricks MODEL ...)")
    emit(sorted(rows, key=lambda row: row["time_s"] or float("inf")), format)


def _workload(name: str) -> tuple[Any, Any]:
    if ":" in name and not name.endswith(".json"):
        from experiments.measure.bricks import build

        layered = build(name)
        return layered.workload, layered
    from workloads.catalog import workload

    return workload(name).bound(), None
