"""slipstick seqpoint LOG"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from slipstick.experiments.cli.vocabulary import Estimator, Format, Level, Plot, Seed, option


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def seqpoint(
        log: Annotated[
            Path,
            typer.Argument(help="iterations as .csv or .json, a Kineto trace with ProfilerStep, or (--on) a workload"),
        ],
        on: Annotated[str | None, option("on", "the workload LOG is simulated there")] = None,
        workload: Annotated[str | None, option("workload", "with --against: what the log trains")] = None,
        against: Annotated[str | None, option("against", "one: how steps of a log of --on change there")] = None,
        lengths: Annotated[Path | None, option("lengths", "a .csv with seq_len, for a log without or --on")] = None,
        estimator: Estimator = None,
        set: Annotated[list[str] | None, option("set", "with --on, workload.batch=64")] = None,
        method: Annotated[
            str, option("method", "seqpoint, stratified, k-means, uniform, prior, median, frequent or worst")
        ] = "seqpoint",
        error: Annotated[str, option("error", "of the projection (seqpoint, stratified), 0.5%")] = "1%",
        representatives: Annotated[int | None, option("representatives", "not for seqpoint", min=1)] = None,
        parameter: Annotated[str | None, option("parameter", "the lengths")] = None,
        column: Annotated[str | None, option("column", "and chosen by (time_s)")] = None,
        target_log: Annotated[Path | None, option("target_log")] = None,
        warm_up: Annotated[str | None, option("warm_up", "autotuning, as a rule [default: leave-out]")] = None,
        level: Level = 0.8,
        seed: Seed = 0,
        counters: Annotated[bool, option("counters", "with --on; means of an iteration")] = False,
        plot: Plot = None,
        out: Annotated[Path | None, option("out", "the chosen iterations as JSON, for a profiler's wrapper")] = None,
        format: Format = "table",
    ) -> None:
        """Few iterations that stand for a training run, with weights: SeqPoint and its rivals."""
        from inspect import signature

        from slipstick.common.errors import InputError
        from slipstick.common.readers import unknown_name
        from slipstick.estimators.sampling.seqpoint import METHODS, select, values_from
        from slipstick.estimators.sampling.warm_up import FIRST_ITERATIONS
        from slipstick.experiments.methods.iterations import iteration_logs_named as logs
        from slipstick.experiments.question.settings import number_of
        from slipstick.experiments.report.output import emit
        from slipstick.workloads.importers.iteration_logs import read_log
        from slipstick.workloads.runs.lengths import read_lengths

        if method not in METHODS:
            raise unknown_name("method of selection", method, list(METHODS))
        if (workload is None) != (against is None) or (workload and on is None):
            raise InputError("--workload, --against and --on go together: what the log trains, where else, and where")
        simulated = on if workload is None else None
        if simulated is not None and warm_up is not None:
            raise InputError("--warm-up is for logs: no simulated iteration (--on) is slow for being first")
        way = warm_up or ("leave-out" if simulated is None else "keep")
        if way not in FIRST_ITERATIONS:
            raise unknown_name("way with --warm-up", way, list(FIRST_ITERATIONS))
        judge = FIRST_ITERATIONS[way]
        if simulated is None:
            iterations = read_log(log, parameter, column, lengths=lengths)
        elif lengths is None:
            raise InputError("--on needs --lengths: a .csv with the seq_len of every iteration")
        else:
            padded = read_lengths(lengths, parameter or "seq_len", "steps").values.astype("float64")
            iterations = logs.simulated_log(str(log), simulated, padded, estimator, set or [])
        limit, taken = number_of("--error", error), signature(METHODS[method]).parameters
        offered = {"error": limit, "size": representatives, "seed": seed}
        if representatives is not None and "size" not in taken:
            raise InputError(f"--representatives {representatives}: {method} finds itself how many it needs (--error)")
        settings = {name: value for name, value in offered.items() if name in taken and value is not None}
        judged = judge(iterations)
        logged, iterations = iterations, judged.steady
        chosen = judged.warm(select(method, iterations, **settings))
        values, where = chosen.times, "in the log they were chosen on"
        left_out, law = [f"{log.name}: {line}" for line in judged.lines()], list[str]()
        if simulated is None and (column is None or against is not None):
            law = logs.law_lines(iterations, workload, on, against, estimator, set or [])
        if target_log is not None:
            other = judge(logs.log_beside(target_log, parameter, column, lengths))
            values, where = values_from(chosen, iterations, other.steady)
            left_out += [f"{target_log.name}: {line}" for line in other.lines()]
        projected = chosen.project(values)
        band = projected.interval(level)
        rows = [
            {
                "iteration": iterations.first + int(index),
                iterations.proxy: float(chosen.lengths[i]),
                "weight": float(chosen.weights[i]),
                "time_s": float(values[i]),
                "share": float(chosen.weights[i] * values[i] / projected.total),
            }
            for i, index in enumerate(chosen.indices)
        ]
        means: dict[str, float] = {}
        if counters:
            from slipstick.experiments.explain.operation_counters import selected_counters
            from slipstick.experiments.question.question import question

            if simulated is None:
                raise InputError("--counters needs --on MACHINE and a workload: a log of times has none")
            query = question(str(log), simulated, estimator or "tiled-roofline", set or [])
            counted, means = selected_counters(query, chosen.lengths.tolist(), chosen.weights.tolist())
            rows = [{**row, **more} for row, more in zip(rows, counted, strict=True)]
        summary = {
            "method": method,
            "iterations": len(iterations),
            "representatives": len(chosen),
            "total_s": logged.total,
            "slow_first": (judged.indices + logged.first).tolist(),
            "slow_first_extra_s": judged.extra_s,
            "projected_s": projected.total,
            "low_s": band[0] if band else None,
            "high_s": band[1] if band else None,
            "interval_level": level if band else None,
            "mean_s": projected.mean,
            "error_where_chosen": chosen.error,
            "saving_serial": chosen.saving_serial,
            "saving_parallel": chosen.saving_parallel,
            **{f"mean_{name}": value for name, value in means.items()},
        }
        if method == "seqpoint":
            summary |= {"error_limit": limit, "error_reached": abs(chosen.error) <= limit}
        if out:
            logs.write_representatives(out, chosen, iterations.proxy, iterations.first)
        if plot is not None:
            from slipstick.experiments.report.selection_chart import draw_selection

            draw_selection(iterations, chosen, Path(plot))
        missed = (
            f"the limit of {limit:.3%} was not reached with any number of bins: the closest is "
            f"{chosen.error:+.3%} with {len(chosen)} (repeated lengths scatter; --method stratified gives an interval)"
        )
        reached = bool(summary.get("error_reached", True))
        beside = [*left_out, *law] if format == "csv" else []
        for line in beside if reached or format == "table" else [*beside, missed]:
            print(f"slipstick: {line}", file=sys.stderr)
        if format == "json":
            beware = [*left_out, *([] if reached else [missed])]
            emit([{**summary, "step_law": law, "selected": rows}], "json", remarks=beware)
            return
        between = f" ({level:.0%}: {band[0]:.5g} .. {band[1]:.5g} s)" if band else " (one iteration gives no interval)"
        notes = [
            f"{log.name}: {len(iterations)} iterations by {iterations.proxy}, {logged.total:.5g} s in all",
            *left_out,
            *law,
            f"{method}: {len(chosen)} representatives; error where chosen {chosen.error:+.2%}; "
            f"costs 1/{chosen.saving_serial:.0f} of the run, in parallel 1/{chosen.saving_parallel:.0f}",
            f"projected from their times {where}: {projected.total:.5g} s{between}",
        ]
        if method == "seqpoint" and not summary["error_reached"]:
            notes.insert(2 + len(left_out) + len(law), missed)
        if means:
            notes.append("mean an iteration: " + ", ".join(f"{name} {value:.5g}" for name, value in means.items()))
        emit(rows, format, notes=notes)
