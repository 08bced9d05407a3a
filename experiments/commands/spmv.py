"""slipstick spmv predict|train|search"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FORMAT = "table | json | csv"


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    spmv = typer.Typer(no_args_is_help=True, help="Sparse matrix-vector products: learned from blocks of positions.")
    app.add_typer(spmv, name="spmv")
    spmv.command("predict")(predict)
    spmv.command("train")(train)
    spmv.command("search")(search)


def predict(
    matrix: Annotated[Path, typer.Argument(help=".mtx, .edges, .triplet0 (each also .gz) or .npz")],
    on: Annotated[str, typer.Option(help="a machine: its caches take the place of the measured host's")] = "",
    label: Annotated[str, typer.Option(help="streaming (sweeps) or hot (in the first cache)")] = "streaming",
    model: Annotated[Path | None, typer.Option(help="a model of 'slipstick spmv train'")] = None,
    power: Annotated[str | None, typer.Option(help="mean power for the energy, '27.9 W'")] = None,
    format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
) -> None:
    """Time of one product with this matrix, with its interval (80 %); energy where a mean power is given."""
    from estimators.operation.reuse import CacheSizes, label_kind
    from estimators.operation.spmv import estimate_spmv, load_spmv_model, trained_model
    from experiments.output import emit
    from hwmodels.catalog import machine
    from hwmodels.units import parse_quantity
    from workloads.kernels.blocks import block_features
    from workloads.kernels.sparse import read_matrix

    chosen = load_spmv_model(model) if model else trained_model(label_kind(label))
    read = read_matrix(matrix)
    host = machine(on) if on else None
    answer = estimate_spmv(read, host, chosen, None if power is None else parse_quantity(power, "W"))
    band = answer.interval()
    here = chosen if host is None else chosen.at_clock(host.clock)
    caches = None if host is None else CacheSizes.of(host)
    row = {
        "matrix": read.name,
        "rows": read.shape[0],
        "columns": read.shape[1],
        "nonzeros": read.nonzeros,
        "label": chosen.label,
        "time_s": answer.time,
        "low_s": band[0] if band else None,
        "high_s": band[1] if band else None,
        "ns_per_nonzero": answer.time / read.nonzeros * 1e9,
        "memory_share": here.reuse.memory_share(block_features(read, chosen.block), caches),
        "energy_J": answer.energy,
    }
    emit([row], format, notes=["; ".join(answer.assumptions)])


def train(
    save: Annotated[Path, typer.Argument(help="the model's .npz; with --kind networks a folder")],
    labels: Annotated[Path | None, typer.Option(help="labels .parquet (default: those that ship)")] = None,
    label: Annotated[str, typer.Option(help="streaming or hot")] = "streaming",
    kind: Annotated[
        str, typer.Option(help="combined, reuse, network, or networks of four clocks and four metrics (torch)")
    ] = "combined",
    start: Annotated[Path | None, typer.Option(help="a network of another machine to go on from")] = None,
    folds: Annotated[int, typer.Option(help="also check the network on so many folds", min=0, max=20)] = 0,
    largest: Annotated[int, typer.Option(help="leave out matrices of more non-zeros", min=250)] = 10_000_000,
    epochs: Annotated[int, typer.Option(help="of a network, at most", min=1)] = 100,
    format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
) -> None:
    """Fit a model to labelled blocks; the matrices are generated again or read from the public data."""
    from experiments.output import emit
    from experiments.spmv_training import KINDS, train_and_save
    from hwmodels.files import unknown_name

    if kind not in KINDS:
        raise unknown_name("kind of SpMV model", kind, KINDS)
    rows = train_and_save(kind, save, labels, label, start, folds, largest, epochs)
    emit(rows, format, notes=[f"written: {save}", "accuracy on matrices held out: slipstick validate spmv"])


def search(
    trials: Annotated[int, typer.Option(help="hyper-parameters drawn from the ranges of Table 2", min=1)] = 10,
    label: Annotated[str, typer.Option(help="streaming or hot")] = "hot",
    blocks: Annotated[int, typer.Option(help="drawn from the labelled ones", min=10)] = 2000,
    epochs: Annotated[int, typer.Option(help="of every trial", min=1)] = 1,
    seed: Annotated[int, typer.Option()] = 0,
    format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
) -> None:
    """Search the published network's hyper-parameters at random; validation errors, best first (needs torch)."""
    from experiments.output import emit
    from experiments.spmv_training import search_rows

    emit(search_rows(trials, label, blocks, epochs, seed), format, notes=["rms error on the validation fifth, mean 1"])
