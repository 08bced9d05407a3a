"""slipstick bricks split|similarity|compose|advise|score|merge"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.vocabulary import Format, Input, option, verb_of
from slipstick.experiments.report.output import emit

MODEL = "a built-in workload, a .json file, zoo:NAME, or MODULE:FUNCTION"
Models = Annotated[list[TrustedName], typer.Argument(parser=TrustedName, help=MODEL)]
Granularity = Annotated[int, option("granularity", "", "-g", min=1, max=1000000)]
Store = Annotated[list[Path] | None, option("store", "again for a second store, of another machine")]
Batch = Annotated[int, option("batch", "first size of every input of zoo:NAME and MODULE:FUNCTION", min=1, max=65536)]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    about = "Models cut into bricks that are measured once and composed."
    verb_of(app, "bricks", about, split, similarity, compose, advise, score, merge)


def merge(
    into: Annotated[Path, typer.Argument(help="the store that takes in the others; made where there is none")],
    stores: Annotated[list[Path], typer.Argument(help="stores of 'slipstick measure bricks', of any machines")],
    format: Format = "table",
) -> None:
    """Put the results of several machines into one store; what it knows already stays as it is."""
    from slipstick.experiments.measure.bricks.brick_store import BrickStore

    others = [BrickStore.existing(path) for path in stores]
    kept = BrickStore(into)
    taken = sum(kept.take_in(other) for other in others)
    rows = [
        {"machine": machine.name, "software": software, "protocol": how, "bricks": count}
        for machine, software, how, count in kept.contents()
    ]
    emit(rows, format, notes=[f"store: {into}: {taken} results taken in from {len(others)} stores"])


def split(
    models: Models,
    granularity: Granularity = 1,
    export: Annotated[Path | None, option("export")] = None,
    bricks_file: Annotated[Path | None, option("bricks_file", "measure bricks runs it elsewhere")] = None,
    input: Input = None,
    batch: Batch = 1,
    format: Format = "table",
) -> None:
    """How many bricks, and how many of them are unique, in each model and in all."""
    from slipstick.experiments.methods.bricks.brick_study import layers_of
    from slipstick.workloads.transforms.bricks import find_bricks, unique_bricks

    rows, everything = [], []
    modules: dict[str, Any] = {}
    for name in models:
        workload, layered = layers_of(name, input or (), batch)
        bricks = find_bricks(workload, granularity)
        everything += bricks
        unique = unique_bricks(bricks)
        rows.append(_counts(name, len(workload), len(bricks), len(unique)))
        if (export is not None or bricks_file is not None) and layered is not None:
            from slipstick.experiments.measure.bricks.brick_modules import brick_module, save_brick

            for identity, brick in unique.items():
                module, inputs = brick_module(layered, brick)
                modules[identity] = module
                if export is not None:
                    save_brick(module, inputs, export / f"{identity}.pt2")
    if bricks_file is not None:
        from slipstick.experiments.measure.bricks.bricks_file import save_sheet

        save_sheet(modules.items(), bricks_file)
    if len(models) > 1:
        layers = sum(row["layers"] for row in rows)
        rows.append(_counts("all", layers, len(everything), len(unique_bricks(everything))))
    emit(rows, format, remarks=())


def _counts(name: str, layers: int, bricks: int, unique: int) -> dict[str, Any]:
    return {
        "model": name,
        "layers": layers,
        "bricks": bricks,
        "unique": unique,
        "unique_share": unique / max(1, bricks),
    }


def similarity(
    models: Models,
    input: Input = None,
    batch: Batch = 1,
    format: Format = "table",
) -> None:
    """Jaccard similarity of the sets of layers of every pair of models."""
    from slipstick.experiments.methods.bricks.brick_study import layers_of
    from slipstick.workloads.transforms.bricks import jaccard_similarity

    grid = jaccard_similarity([layers_of(name, input or (), batch)[0] for name in models])
    emit(
        [
            {"model": name, **dict(zip(models, map(float, row), strict=True))}
            for name, row in zip(models, grid, strict=True)
        ],
        format,
        remarks=(),
    )


def compose(
    models: Models,
    granularity: Granularity = 1,
    store: Store = None,
    schedule: Annotated[str, option("schedule", "sequential | critical-path | rules")] = "sequential",
    concurrency_rule: Annotated[
        list[str] | None, option("concurrency_rule", "of --schedule rules, *conv*+*conv*")
    ] = None,
    workers: Annotated[int | None, option("workers", "of --schedule rules; any if left out")] = None,
    input: Input = None,
    batch: Batch = 1,
    format: Format = "table",
) -> None:
    """Latency and price of models from measured bricks, on every machine that the stores know, fastest first."""
    from slipstick.experiments.methods.bricks.brick_composition import schedule_named
    from slipstick.experiments.methods.bricks.brick_study import STORE
    from slipstick.experiments.methods.bricks.brick_study import bricks as latencies

    chosen = (
        None
        if schedule == "sequential" and not concurrency_rule
        else schedule_named(schedule, concurrency_rule or (), workers)
    )
    rows = latencies(models, store or [STORE], granularity=granularity, input=input or (), batch=batch, schedule=chosen)
    emit(rows, format, remarks=_not_known(rows))


def advise(
    models: Models,
    granularity: Granularity = 1,
    store: Store = None,
    limit: Annotated[str | None, option("limit", "of a model, 50ms")] = None,
    input: Input = None,
    batch: Batch = 1,
    format: Format = "table",
) -> None:
    """Which machine for each model, which model for each machine: fastest and cheapest, without running any."""
    from slipstick.experiments.methods.bricks.brick_composition import advice
    from slipstick.experiments.methods.bricks.brick_study import STORE
    from slipstick.experiments.methods.bricks.brick_study import bricks as latencies
    from slipstick.experiments.question.settings import number_of

    longest = number_of("--limit", limit, "s") if limit is not None else None
    rows = latencies(models, store or [STORE], granularity=granularity, input=input or (), batch=batch)
    missing = _not_known(rows)
    emit(advice(rows, longest), format, notes=missing, remarks=missing)


def score(
    granularity: Granularity = 1,
    store: Store = None,
    format: Format = "table",
) -> None:
    """Composed against measured for every model measured as a whole, each left out of the calibration."""
    from slipstick.experiments.measure.bricks.brick_store import BrickStore
    from slipstick.experiments.methods.bricks.brick_composition import leave_one_model_out, summary
    from slipstick.experiments.methods.bricks.brick_study import STORE

    rows: list[dict[str, Any]] = []
    notes = []
    for path in store or [STORE]:
        kept = BrickStore.existing(path)
        for measured in kept.measured():
            scores = leave_one_model_out(measured, kept.models(granularity))
            figures = ", ".join(f"{key} {value:.4g}" for key, value in summary(scores).items())
            notes.append(f"{measured.machine.name}, {measured.software}, {measured.protocol}: {figures}")
            rows += [
                {
                    "machine": measured.machine.name,
                    "model": one.name,
                    "layers": one.layers,
                    "measured_s": one.measured,
                    "plain_s": one.plain,
                    "time_s": one.calibrated,
                    "low_s": one.low,
                    "high_s": one.high,
                    "error": one.error,
                }
                for one in scores
            ]
    emit(rows, format, notes=notes, remarks=())


def _not_known(rows: list[dict[str, Any]]) -> list[str]:
    """Models whose bricks a machine's store lacks, each once."""
    return sorted({f"{row['model']} on {row['machine']}: {row['reason']}" for row in rows if row["reason"]})
