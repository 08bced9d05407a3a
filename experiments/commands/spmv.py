"""slipstick spmv train|predict"""

from __future__ import annotations

import sys
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
    save: Annotated[Path, typer.Argument(help="the model's .npz")],
    labels: Annotated[Path | None, typer.Option(help="labels .parquet (default: those that ship)")] = None,
    label: Annotated[str, typer.Option(help="streaming or hot")] = "streaming",
    kind: Annotated[str, typer.Option(help="combined, reuse or network (needs torch)")] = "combined",
    largest: Annotated[int, typer.Option(help="leave out matrices of more non-zeros", min=250)] = 10_000_000,
    epochs: Annotated[int, typer.Option(help="of the network, at most", min=1)] = 100,
    format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
) -> None:
    """Fit a model to labelled blocks; the matrices are generated again or read from the public data."""
    from estimators.operation.reuse import label_kind
    from estimators.operation.spmv import fit_spmv
    from experiments.measure.labels import Labels, shipped_labels
    from experiments.output import emit
    from experiments.validation.data import data_folder
    from hwmodels.files import unknown_name

    kinds = ("combined", "reuse", "network")
    if kind not in kinds:
        raise unknown_name("kind of SpMV model", kind, kinds)
    asked = label_kind(label)
    own = Labels(labels) if labels else shipped_labels()
    blocks = own.blocks(asked, own.matrices(data_folder(), largest))
    row: dict[str, object] = {"kind": kind, "label": label, "matrices": len(blocks.names), "blocks": len(blocks.label)}
    if kind == "network":
        from estimators.operation import spmv_net

        def say(epoch: int, error: float) -> None:
            print(f"slipstick: epoch {epoch}: validation rms {error:.4f} of the mean", file=sys.stderr)

        facts = {"label_kind": label, "labels": own.source}
        recipe = spmv_net.Recipe(epochs=epochs)
        net = spmv_net.train(blocks.inputs, blocks.label, recipe=recipe, provenance=facts, progress=say)
        net.save(save)
        row |= {"epochs": net.provenance["epochs"], "validation_rms": net.provenance["validation_rms"]}
    else:
        trees = 0 if kind == "reuse" else 120
        fitted = fit_spmv(blocks.table, blocks.label, asked, own.caches, trees=trees, source=own.source)
        fitted.save(save)
        row |= {f"{name}_ns": cost * 1e9 for name, cost in fitted.reuse.cost.items()}
    emit([row], format, notes=[f"written: {save}", "accuracy on matrices held out: slipstick validate spmv"])
