"""PageRank loop by loop on our own host: the published piecewise recipe beside the level-aware one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipstick.common.arrays import read_arrays
from slipstick.common.readers import of_schema, read_json
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import OperationModel
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.cpu.vector_loops import LevelLoops
from slipstick.estimators.roofline.piecewise import Piecewise
from slipstick.estimators.roofline.roofline import Roofline
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.sparse.kernel_costs import shipped_blocks
from slipstick.estimators.sparse.reuse_model import LABEL_KINDS
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.measure.spmv.labels import SHIPPED
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.kernels.pagerank import PageRankProblem, pagerank, pagerank_problem
from slipstick.workloads.kernels.sparse import SparseMatrix
from slipstick.workloads.kernels.sparse_files import read_matrix

DATASET = "own PageRank runs"
HOST = "cloud-cascade-lake-core"
WIDE_CLOCK = "2.69 GHz"
"""Of that host while loops of wide vectors run (L0, L1, L3): 4 cycles a dependent addition take 1.486 ns beside fill,
copy and damp on arrays of their own, 1.303 ns alone. Labels of SpMV were taken alone, at 3.09 GHz."""
MEASURED = SHIPPED / "pagerank.json"
GRAPHS, GRAPH_BYTES = SHIPPED / "pagerank_graphs.npz", 8_000_000
SCHEMA = "slipstick-pagerank-1"
TOTAL_GOAL, LOOP_GOAL = 0.10, 0.30


def rows() -> list[ValidationRow]:
    """Two rows a graph: signed error of the total, and the worst loop's.

    Raises InputError where the measurements are of another schema.
    """
    if not MEASURED.exists():
        return [skipped(DATASET, f"{MEASURED.name}: no quiet measurement")]
    document = of_schema(read_json(MEASURED), SCHEMA, MEASURED)
    result: list[ValidationRow] = []
    for name, facts in document["graphs"].items():
        graph = graph_of(name, facts, data_folder())
        if graph is None:
            result.append(skipped(f"{DATASET}: {name}", "no public measurements here (set SLIPSTICK_DATA)"))
        else:
            result += _score(name, pagerank_problem(graph), facts, str(document["protocol"]))
    return result


def graph_of(name: str, facts: Mapping[str, Any], data: Path | None) -> SparseMatrix | None:
    """The graph again: stored (those generated), or read; None where its file is not there."""
    if facts.get("recipe") is not None:
        arrays = read_arrays(GRAPHS, GRAPH_BYTES, "graphs")
        rows, columns = (int(size) for size in arrays[f"{name}.shape"])
        return SparseMatrix(name, (rows, columns), arrays[f"{name}.pointers"], arrays[f"{name}.columns"])
    path = None if data is None else data / facts["file"]
    return read_matrix(path).renamed(name) if path is not None and path.exists() else None


def models(host: Machine) -> dict[str, ComposedEstimator]:
    """The published recipe (labels of the first cache, one bandwidth), and ours for a host at its clock."""

    def piecewise(spmv: OperationModel, loops: OperationModel) -> ComposedEstimator:
        return ComposedEstimator(Piecewise(FrozenDict({"spmv": spmv}), loops), Sequential(), "eq. 3")

    hot, streaming = (replace(shipped_blocks(kind).costs[0], clock=float(host.clock)) for kind in LABEL_KINDS)
    return {
        "published recipe (hot labels, one bandwidth)": piecewise(hot, Roofline()),
        "roofline for all, SpMV too": piecewise(Roofline(), Roofline()),
        "ours at the clock of the labels": piecewise(streaming, LevelLoops()),
        "ours": piecewise(shipped_blocks().costs[0], LevelLoops()),
    }


def _score(name: str, problem: PageRankProblem, facts: Mapping[str, Any], protocol: str) -> list[ValidationRow]:
    host = machine(HOST).using(clock=WIDE_CLOCK)
    measured = {loop: float(seconds) for loop, seconds in facts["seconds"].items()}
    iterations = int(facts["iterations"])
    work = pagerank(problem, iterations)
    times = {op.name: float(op.times) for op in work}
    whole = sum(measured[loop] * times[loop] for loop in times)
    totals, worst, signed = {}, {}, {}
    for label, model in models(host).items():
        estimate = model.estimate(work, host)
        loops = {part.name: part.time for part in estimate.parts}
        scored = [loop for loop in measured if loop != "L2" or len(problem.dangling)]
        signed[label] = {loop: loops[loop] / measured[loop] - 1 for loop in scored}
        totals[label] = estimate.time / whole - 1
        worst[label] = max(signed[label].values(), key=abs)
    share = measured["SpMV"] * iterations / whole
    text = ", ".join(f"{loop} {error:+.2f}" for loop, error in signed["ours"].items())
    result = []
    for case, scores, goal in (("total", totals, TOTAL_GOAL), ("worst loop", worst, LOOP_GOAL)):
        value = scores["ours"]
        result.append(
            ValidationRow(
                DATASET,
                f"{name}: {case}",
                "no loop was fitted; SpMV by the model that ships",
                iterations,
                "signed relative error",
                "1",
                value,
                {label: score for label, score in scores.items() if label != "ours"},
                goal,
                abs(value) <= goal,
                reason=f"{text}; SpMV takes {share:.0%}; {protocol}",
            )
        )
    return result
