"""Papers and scoreboards by the names that the command line knows."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from slipstick.experiments.evidence.rows import ReproductionRow
from slipstick.hwmodels.files.readers import unknown_name

PAPERS = {
    "dlbricks": "slipstick.experiments.evidence.papers.dlbricks.dlbricks_rows",
    "xeon-phi": "slipstick.experiments.evidence.papers.xeon_phi.xeon_phi_rows",
    "tpupoint": "slipstick.experiments.evidence.papers.tpupoint.tpupoint_rows",
    "seqpoint": "slipstick.experiments.evidence.papers.seqpoint.seqpoint_rows",
    "spmv-cnn": "slipstick.experiments.evidence.papers.spmv_cnn.spmv_cnn_rows",
}
SCOREBOARDS: dict[str, str] = {
    "energy": "slipstick.experiments.evidence.validation.energy.energy_scores",
    "scaling": "slipstick.experiments.evidence.validation.scaling.scaling_scores",
    "surfaces": "slipstick.experiments.evidence.validation.scaling.surface_scores",
    "operations": "slipstick.experiments.evidence.validation.gpu.operation_scores",
    "gpu-memory": "slipstick.experiments.evidence.validation.gpu.cache_scores",
    "recurrences": "slipstick.experiments.evidence.validation.gpu.recurrence_scores",
    "anchors": "slipstick.experiments.evidence.validation.gpu.anchor_scores",
    "shipped": "slipstick.experiments.evidence.validation.gpu.gpu_bundle",
    "physics": "slipstick.experiments.evidence.validation.gpu.physics_check",
    "bandwidth": "slipstick.experiments.evidence.validation.cpu.bandwidth_scores",
    "cpu-layers": "slipstick.experiments.evidence.validation.cpu.cpu_layers",
    "kerncraft": "slipstick.experiments.evidence.validation.cpu.kerncraft_scores",
    "systolic": "slipstick.experiments.evidence.validation.tpu.systolic_scores",
    "tpu": "slipstick.experiments.evidence.validation.tpu.tpu_scores",
    "spmv": "slipstick.experiments.evidence.validation.spmv.spmv_scores",
    "graphs": "slipstick.experiments.evidence.validation.models.graph_scores",
    "seqpoint": "slipstick.experiments.evidence.validation.sequences.seqpoint_scores",
    "traces": "slipstick.experiments.evidence.validation.parallel.trace_scores",
    "dispatch": "slipstick.experiments.evidence.validation.parallel.dispatch_scores",
    "collectives": "slipstick.experiments.evidence.validation.parallel.collective_scores",
    "megatron": "slipstick.experiments.evidence.validation.parallel.megatron_scores",
    "training": "slipstick.experiments.evidence.validation.parallel.training.training_scores",
    "dlbricks": "slipstick.experiments.evidence.validation.bricks.dlbricks_scores",
    "defaults": "slipstick.experiments.evidence.validation.defaults.default_scores",
    "calibrations": "slipstick.experiments.evidence.validation.scaling.calibration_scores",
    "local-llm": "slipstick.experiments.evidence.validation.serving.local_scores",
    "serving": "slipstick.experiments.evidence.validation.serving.serving_scores",
    "programs": "slipstick.experiments.evidence.validation.models.programs.program_scores",
    "experts": "slipstick.experiments.evidence.validation.models.expert_scores",
}


def paper(name: str) -> Any:
    """The module that reproduces a paper.

    Raises
    ------
    InputError
        Where no paper has this name.
    """
    if name not in PAPERS:
        raise unknown_name("paper", name, sorted(PAPERS))
    return import_module(PAPERS[name])


def scoreboard(name: str) -> Any:
    """The module of a scoreboard.

    Raises
    ------
    InputError
        Where no scoreboard has this name.
    """
    if name not in SCOREBOARDS:
        raise unknown_name("scoreboard", name, sorted(SCOREBOARDS))
    return import_module(SCOREBOARDS[name])


def reproduce(name: str) -> list[ReproductionRow]:
    """Every number that a paper states, beside ours.

    Parameters
    ----------
    name
        xeon-phi, seqpoint, dlbricks, spmv-cnn or tpupoint.

    Returns
    -------
    list of ReproductionRow
        One row a number or claim, each in the unit that the row names; `ok` is None where it cannot be checked.

    Raises
    ------
    InputError
        Where no paper has this name.

    Examples
    --------
    >>> import slipstick as ss
    >>> rows = ss.reproduce("xeon-phi")
    >>> {row.table for row in rows} >= {"X", "XI"}
    True
    """
    rows: list[ReproductionRow] = paper(name).run()
    return rows
