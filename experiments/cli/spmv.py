"""slipstick spmv predict|calibrate|train|validate|search"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from slipstick.experiments.cli.vocabulary import Format, Report, Seed, option

SHOWN_COSTS = ("thread_start_s", "call_s", "nonzero_s", "row_s", "irregular_row_s", "gather_beyond_L2_s")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    spmv = typer.Typer(no_args_is_help=True, help="Sparse matrix-vector products: learned from blocks of positions.")
    app.add_typer(spmv, name="spmv")
    spmv.command("predict")(predict)
    spmv.command("calibrate")(calibrate)
    spmv.command("train")(train)
    spmv.command("validate")(validate)
    spmv.command("search")(search)


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
    calibration: Annotated[Path | None, option("calibration", "of spmv train: .npz (a core), .json (devices)")] = None,
    measured: Annotated[Path | None, option("measured", "a CSV of products: matrix (a file beside it), time_s")] = None,
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

    On a machine of 'slipstick spmv calibrate' the kernels measured there answer. Elsewhere the first row is learned
    from blocks of 250 non-zeros (our kernel), the others are kernels of the host that they were calibrated on, moved by
    clock and caches. A few measured products (--measured) scale the answer to a machine and narrow the interval.
    """
    from slipstick.common.answer import PlainAnswer
    from slipstick.experiments.methods.spmv.kernel_answers import KernelOptions
    from slipstick.experiments.methods.spmv.spmv_answers import answers
    from slipstick.experiments.report.output import emit
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

    from slipstick.estimators.sparse.kernel_costs import STATES, check_state
    from slipstick.experiments.methods.spmv.kernel_fits import calibrate as measure
    from slipstick.experiments.methods.spmv.kernel_fits import rows_of
    from slipstick.experiments.report.output import emit

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
    save: Annotated[
        Path, typer.Argument(help="the model's .npz; a folder of networks of four clocks and four metrics")
    ],
    measured: Annotated[
        Path | None, option("measured", "blocks, a folder of slipstick measure spmv --out [default: labels that ship]")
    ] = None,
    cache_state: Annotated[str, option("cache_state")] = "streaming",
    method: Annotated[str, option("method", "combined (reuse of lines, and trees) | network (torch)")] = "combined",
    calibration: Annotated[Path | None, option("calibration", "a network of another machine to go on from")] = None,
    folds: Annotated[int, option("folds", "of the network, as a check", min=0, max=20)] = 0,
    largest: Annotated[int, option("largest", min=250)] = 10_000_000,
    epochs: Annotated[int, option("epochs", "at most", min=1)] = 100,
    data: Annotated[Path | None, option("data", "the authors' published set, with train and test ([hdf5])")] = None,
    clock: Annotated[int, option("clock", "of the published set [kHz]")] = 2_400_000,
    metric: Annotated[str, option("metric", "total energy | package energy | DRAM energy | time")] = "time",
    format: Format = "table",
) -> None:
    """Fit a model to labelled blocks; the matrices are generated again or read from the public data."""
    from slipstick.common.readers import unknown_name
    from slipstick.experiments.methods.spmv.spmv_fits import METHODS, train_and_save
    from slipstick.experiments.report.output import emit

    if data is not None:
        from slipstick.experiments.methods.spmv.published_fits import train_published

        emit(train_published(data, save, clock, metric, epochs), format, notes=[f"written: {save}"])
        return
    if method not in METHODS:
        raise unknown_name("method of training", method, METHODS)
    rows = train_and_save(method, save, measured, cache_state, calibration, folds, largest, epochs)
    emit(rows, format, notes=[f"written: {save}", "accuracy on matrices held out: slipstick validate spmv"])


def validate(
    model: Annotated[Path | None, typer.Argument(help="a network of 'spmv train --data'")] = None,
    data: Annotated[Path | None, option("data", "the authors' published set, with train and test")] = None,
    clock: Annotated[int | None, option("clock", "of the published set [kHz]", show_default="2400000")] = None,
    metric: Annotated[
        str | None, option("metric", "total energy | package energy | DRAM energy | time", show_default="time")
    ] = None,
    folder: Annotated[Path | None, option("folder", "of own labels")] = None,
    cache_state: Annotated[str | None, option("cache_state", "of own labels", show_default="both")] = None,
    epochs: Annotated[int | None, option("epochs", "of own labels, at most", min=1, show_default="50")] = None,
    format: Format = "table",
) -> None:
    """Errors of the published network, of blocks (Figure 4) and of whole matrices (Figure 5).

    MODEL with --data: on the published test matrices, their mean last. Without both: Table 2's network is trained by
    the paper's protocol on our own labels of generated matrices of 1 to 10 million non-zeros, every family of
    generators left out in turn, beside the reuse model and a constant (a minute a family and label; needs torch; what
    --folder holds is not done again).
    """
    from slipstick.experiments.report.output import emit

    if model is not None and data is not None:
        _without("a model and --data", {"--folder": folder, "--cache-state": cache_state, "--epochs": epochs})
        from slipstick.experiments.methods.spmv.published_fits import score_published

        rows = score_published(model, data, clock or 2_400_000, metric or "time")
        emit(rows, format, notes=["constant: the mean label of training"])
        return
    _without("own labels", {"MODEL": model, "--data": data, "--clock": clock, "--metric": metric})
    from slipstick.experiments.methods.spmv.families_left_out import own_labels_left_out

    rows, source = own_labels_left_out(cache_state, folder, epochs)
    emit(rows, format, notes=[f"own labels: {source}", "sampled blocks of each matrix; errors are shares"])


def _without(what: str, options: Mapping[str, object]) -> None:
    """Refuse options that belong to the other use."""
    from slipstick.common.errors import InputError

    if given := [name for name, value in options.items() if value is not None]:
        raise InputError(f"{', '.join(given)}: not with {what}")


def search(
    trials: Annotated[int, option("trials", min=1)] = 10,
    cache_state: Annotated[str, option("cache_state")] = "hot",
    blocks: Annotated[int, option("blocks", min=10)] = 2000,
    epochs: Annotated[int, option("epochs", "of every trial", min=1)] = 1,
    seed: Seed = 0,
    format: Format = "table",
) -> None:
    """Search the published network's hyper-parameters at random; validation errors, best first (needs torch)."""
    from slipstick.experiments.methods.spmv.spmv_fits import search_rows
    from slipstick.experiments.report.output import emit

    emit(
        search_rows(trials, cache_state, blocks, epochs, seed),
        format,
        notes=["rms error on the validation fifth, mean 1"],
    )
