"""slipstick spmv predict|calibrate|train|validate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipstick.experiments.cli.vocabulary import Format, Report, option, verb_of
from slipstick.experiments.report.output import emit

SHOWN_COSTS = ("thread_start_s", "call_s", "nonzero_s", "row_s", "irregular_row_s", "gather_beyond_L2_s")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    about = "Sparse matrix-vector products: costs of reuse, kernels, devices."
    verb_of(app, "spmv", about, predict, calibrate, train, validate)


def predict(
    matrix: Annotated[
        Path, typer.Argument(help=".mtx, .edges, .triplet0 (each also .gz) or .npz, of at least 2 non-zeros")
    ],
    on: Annotated[
        str,
        option(
            "on",
            "of a processor one core, of an accelerator all of it [default: the core that the labels were measured on]",
            show_default=False,
        ),
    ] = "",
    cache_state: Annotated[str, option("cache_state", "of one core")] = "streaming",
    calibration: Annotated[
        Path | None, option("calibration", "of spmv train or calibrate (.spmv.json), or .json (devices)")
    ] = None,
    measured: Annotated[
        Path | None, option("measured", "a CSV: matrix (a file beside it), time_s; threads, caches, clock")
    ] = None,
    power: Annotated[str | None, option("power", "for the energy, '27.9 W'")] = None,
    kernel: Annotated[str, option("kernel", "scipy | numba | torch (MKL) | blocks (ours) [default: all]")] = "",
    caches: Annotated[str, option("caches", "of a kernel: warm (product after product) | cold (emptied)")] = "warm",
    threads: Annotated[int, option("threads", "of a kernel: rows are shared out to so many cores", min=1)] = 1,
    clock: Annotated[str, option("clock", "of a kernel: set to it, '1.2 GHz'")] = "",
    verbose: Annotated[bool, option("verbose", "all assumptions, all columns")] = False,
    report: Report = None,
    format: Format = "table",
) -> None:
    """Time and energy of one product with this matrix by every kernel, each with its own interval (80 %).

    On a machine of 'slipstick spmv calibrate' the kernels measured there answer. Elsewhere the first row is by the
    reuse of lines (our kernel), the others are kernels of the host that they were calibrated on, moved by clock and
    caches. A few measured products (--measured) scale the answer to a machine and narrow the interval.
    """
    from slipstick.common.answer import PlainAnswer
    from slipstick.experiments.methods.spmv.spmv_answers import KernelOptions, answers
    from slipstick.experiments.report.product_summary import first_lines, last_lines, shown_rows

    options = KernelOptions.of(kernel, caches, threads, clock)
    rows, notes, provenance = answers(matrix, on, cache_state, calibration, power, measured, options)
    answer = PlainAnswer(rows, heads=tuple(first_lines(rows)), notes=tuple(notes), provenance=provenance)
    below = last_lines(notes, verbose=verbose)
    shown = shown_rows(rows, format, verbose=verbose)
    emit(shown, format, notes=answer.headed, below=below, remarks=(), provenance=provenance)
    if report:
        from slipstick.experiments.report.page import page

        page(answer, report, f"Products with {matrix.name}")


def calibrate(
    machine: Annotated[Path, typer.Argument(help="your machine's YAML; made from what this host states if not there")],
    matrices: Annotated[
        list[Path] | None, typer.Argument(help="your own matrices, measured beside the generated ones")
    ] = None,
    kernel: Annotated[list[str] | None, option("kernel", "scipy, numba, torch, blocks [default: installed]")] = None,
    caches: Annotated[str, option("caches", "warm | cold | both")] = "both",
    threads: Annotated[int, option("threads", "beside one", min=1)] = 1,
    largest: Annotated[int, option("largest", "generated", min=1000)] = 4_000_000,
    format: Format = "table",
) -> None:
    """Measure the sparse kernels of this host on generated matrices (some minutes); 'spmv predict --on' uses them.

    The costs are kept beside the machine file: my-host.yaml, my-host.spmv.json.
    """
    import sys

    from slipstick.estimators.sparse.reuse_model import STATES, check_state
    from slipstick.experiments.methods.spmv.kernel_fits import calibrate as measure
    from slipstick.experiments.methods.spmv.kernel_fits import rows_of

    states = STATES if caches == "both" else (check_state(caches),)
    host, target = measure(
        machine,
        kernel or [],
        states,
        threads,
        matrices or [],
        largest,
        say=lambda text: print(f"slipstick: {text}", file=sys.stderr),
    )
    notes = ["bands (80 %): measured over predicted, of matrices by generators left out; costs a count"]
    rows = rows_of(host)
    if format == "table":  # all costs stand in the file, and in the other formats
        rows = [{name: row[name] for name in row if not name.endswith("_s") or name in SHOWN_COSTS} for row in rows]
    emit(rows, format, notes=[*notes, f"written: {target}"])


def train(
    save: Annotated[Path, typer.Argument(help="where the costs go: mine.spmv.json")],
    measured: Annotated[
        Path | None, option("measured", "blocks, a folder of slipstick measure spmv --out [default: labels that ship]")
    ] = None,
    cache_state: Annotated[str, option("cache_state")] = "streaming",
    largest: Annotated[int, option("largest", min=250)] = 10_000_000,
    format: Format = "table",
) -> None:
    """Fit the costs of reuse to labelled blocks; matrices of files are read again from where they were measured."""
    from slipstick.experiments.methods.spmv.kernel_fits import train_and_save

    fitted, row = train_and_save(save, measured, cache_state, largest)
    costs = {f"{name}_ns": cost * 1e9 for name, cost in fitted.cost.items()}
    notes = [f"written: {save}", "accuracy on matrices held out: slipstick validate spmv"]
    emit([{**row, "matrix_spread": fitted.spread, **costs}], format, notes=notes)


def validate(
    folder: Annotated[Path | None, option("folder", "where each family that is done is kept")] = None,
    cache_state: Annotated[str | None, option("cache_state", show_default="both")] = None,
    epochs: Annotated[int, option("epochs", "at most", min=1)] = 50,
    format: Format = "table",
) -> None:
    """Errors of the published network on our own labels, beside the reuse model and a constant (needs torch).

    Table 2's network is trained by the paper's protocol on generated matrices of 1 to 10 million non-zeros, every
    family of generators left out in turn (a minute a family and label; what --folder holds is not done again).
    """
    from slipstick.experiments.methods.spmv.families_left_out import own_labels_left_out

    rows, source = own_labels_left_out(cache_state, folder, epochs)
    emit(rows, format, notes=[f"own labels: {source}", "sampled blocks of each matrix; errors are shares"])
