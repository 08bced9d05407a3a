"""slipstick workloads list|show|import|diff|draw"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipstick.common.errors import InputError
from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.vocabulary import Estimator, Format, Input, Train, option, verb_of
from slipstick.experiments.report.output import emit
from slipstick.workloads.catalog import outline, workload, workload_names


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    workloads = verb_of(app, "workloads", "The workloads that ship, your own files, and imports.")

    @workloads.command("list")
    def list_workloads(format: Format = "table") -> None:
        """Names, sizes and open symbols of the built-in workloads."""
        from slipstick.experiments.report.progress import progress_bar

        rows: list[dict[str, object]] = []
        names = workload_names()
        with progress_bar("workloads", len(names)) as note:
            for name in names:
                operations, parameters, defaults = outline(name)
                symbols = ", ".join(f"{key}={value:g}" for key, value in defaults.items())
                rows.append({"workload": name, "operations": operations, "parameters": parameters, "symbols": symbols})
                note(len(rows), len(names))
        emit(rows, format)

    @workloads.command()
    def show(
        name: Annotated[
            TrustedName,
            typer.Argument(parser=TrustedName, help="a built-in workload, a .json or .json.gz file, FILE.py:FUNCTION"),
        ],
        set: Annotated[list[str] | None, option("set", "workload.NAME=VALUE; with --on any")] = None,
        plot: Annotated[str | None, option("plot", "of the graph, FILE.svg or FILE.html")] = None,
        on: Annotated[str | None, option("on", "colours of the picture say what bounds each operation")] = None,
        estimator: Estimator = None,
        input: Input = None,
        train: Train = None,
        format: Format = "table",
    ) -> None:
        """The operations of a workload with flop and bytes; JSON has the totals of each phase beside them."""
        from slipstick.experiments.question.question import with_sizes
        from slipstick.experiments.question.settings import assignments
        from slipstick.experiments.question.user_code import own_or_none
        from slipstick.workloads.graph.compare import summary
        from slipstick.workloads.graph.kinds import KINDS

        if (on or estimator) and not (plot and on):
            raise InputError("--on MACHINE colours the picture of --plot FILE.svg, and --estimator says by which model")
        graph_shown = own_or_none(name, [on] if on else [], input or (), train) or workload(name)
        sizes = [text for text in set or [] if not on or text.startswith("workload.")]
        shown = with_sizes(graph_shown, assignments(sizes, ("workload",))["workload"])
        if plot:
            from slipstick.experiments.question.question import question
            from slipstick.experiments.report.graph_picture import write_graph

            write_graph(shown, plot, question(graph_shown, on, estimator, set or []) if on else None)
        if set:
            shown = shown.bound()
        notes = [f"{shown.name}: {len(shown)} operations; uncounted: {', '.join(shown.uncounted) or 'none'}"]
        assumed = shown.metadata.get("assumptions") or ()
        if isinstance(assumed, tuple) and assumed:
            notes.append("assuming: " + "; ".join(map(str, assumed)))
        figures = {key: _amount(value) for key, value in summary(shown).items()}
        rows = [
            {
                "operation": op.name,
                "kind": op.kind,
                "dtype": op.dtype,
                "times": _amount(op.times),
                "flop": _amount(op.cost.flop),
                "bytes": _amount(op.cost.bytes_moved),
                "dims": {key: str(_amount(value)) for key, value in op.dims.items()},
            }
            for op in shown
        ]
        if format == "json":
            parameters = shown.metadata.get("parameters")
            row = {"workload": shown.name, "parameters": parameters, **figures, "uncounted": list(shown.uncounted)}
            emit([{**row, "operations": rows}], format)
            return
        notes += [f"{key}: {value}" for key, value in figures.items() if value != 0]
        seen = (KINDS[kind] for kind in dict.fromkeys(op.kind for op in shown) if kind in KINDS)
        emit(rows, format, notes=notes, below=[f"{kind.name}: {kind.meaning}" for kind in seen])
        if plot and format == "table":
            print(f"graph: {plot}")

    @workloads.command("import")
    def import_workload(
        source: Annotated[
            TrustedName,
            typer.Argument(parser=TrustedName, help="ONNX, StableHLO or HLO text, a trace, or MODULE:FUNCTION"),
        ],
        out: Annotated[Path | None, option("out", "the workload, FILE.json or .json.gz")] = None,
        input: Input = None,
        train: Annotated[str, option("train", "of a torch model: sgd, momentum, adam, adamw; none: inference")] = "sgd",
        step: Annotated[int | None, option("step", "of a profiler's trace")] = None,
        format: Format = "table",
    ) -> None:
        """Make a workload of a model or a trace; nothing is run but your own MODULE:FUNCTION."""
        from slipstick.workloads.graph.compare import summary
        from slipstick.workloads.importers.detect import import_file, import_torch_by_name

        if input or _names_a_function(source):
            purpose = "inference" if train == "none" else "training"
            made = import_torch_by_name(source, input or (), purpose=purpose, optimizer=train)
        else:
            made = import_file(source, step)
        if out is not None:
            made.save(out)
        row = {
            "uncounted": ", ".join(made.uncounted),
            "workload": made.name,
            "operations": len(made),
            "edges": len(made.edges),
            "parameters": made.metadata.get("parameters"),
            "symbols": ", ".join(sorted(made.symbols)),
            **{key: _amount(value) for key, value in summary(made).items()},
        }
        emit([row] if format != "table" else [{"figure": k, "value": v} for k, v in row.items()], format)

    @workloads.command()
    def diff(
        left: Annotated[str, typer.Argument(help="a workload by name or file")],
        right: Annotated[str, typer.Argument(help="another")],
        format: Format = "table",
    ) -> int:
        """Operations that two workloads hold in different numbers, whatever their names; exit code 1 where any do."""
        from slipstick.workloads.graph.compare import differences

        result = differences(workload(left), workload(right))
        rows = [{"kind": d.kind, "dims": d.dims, "phase": d.phase, "left": d.left, "right": d.right} for d in result]
        emit(rows, format, notes=[f"{left} and {right}: {len(rows)} kinds of operations differ"])
        return 1 if rows else 0

    @workloads.command()
    def draw(
        name: Annotated[str, typer.Argument(help="a workload by name or file")],
        out: Annotated[Path, option("out", ".html, or .dot for Graphviz")],
    ) -> None:
        """A picture of the graph: an HTML page that needs nothing else, or Graphviz text."""
        from slipstick.common.writer import write_text
        from slipstick.workloads.graph.draw import to_graphviz, to_html

        drawers = {".html": to_html, ".dot": to_graphviz, ".gv": to_graphviz}
        if out.suffix not in drawers:
            raise InputError(f"--out {out}: want a name ending in {', '.join(drawers)}")
        write_text(out, drawers[out.suffix](workload(name)))


def _names_a_function(source: str) -> bool:
    """Whether this is MODULE:FUNCTION rather than a file."""
    return all(part.isidentifier() for part in source.replace(":", ".", 1).split(".")) and source.count(":") == 1


def _amount(value: object) -> object:
    return value if isinstance(value, (int, float)) else str(value)
