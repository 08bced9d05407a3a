"""Imports by what a file is, and torch models by the name of a function that builds them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstick.common import opener
from slipstick.common.errors import InputError
from slipstick.common.renamed_arguments import checked
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.graph.workload_file import load_workload
from slipstick.workloads.graph.workload_writer import SCHEMA
from slipstick.workloads.importers.formats.registry import elsewhere, identify


@checked
def import_file(path: str | os.PathLike[str], step: int | None = None) -> Workload:
    """An ONNX model, StableHLO text, an execution trace, a step of a profiler's trace or a saved workload.

    Parameters
    ----------
    step
        Number of the step of a profiler's trace; the one of median duration if None.

    Raises
    ------
    InputError
        Where the file is none of these, or broken.

    Examples
    --------
    >>> import slipstick as ss
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ss.workload("gpt2").save(f"{folder}/gpt2.json.gz")
    ...     len(ss.import_file(f"{folder}/gpt2.json.gz")) == len(ss.workload("gpt2"))
    True
    """
    kind = identify(path)
    if kind is not None and kind.key in ("stablehlo", "hlo"):
        from slipstick.workloads.importers.xla.stablehlo import import_stablehlo

        return import_stablehlo(path)
    name = Path(path).name.removesuffix(".gz")
    if name.endswith(".onnx") or (kind is not None and kind.key == "onnx"):
        from slipstick.workloads.importers.onnx.importer import import_onnx

        return import_onnx(path)
    if kind is not None and kind.key not in ("workload", "chakra", "chrome-trace"):
        raise elsewhere(path, "graph")
    if kind is None and not name.endswith(".json"):
        raise InputError(
            f"{path}: want ONNX (.onnx), StableHLO or HLO text, an execution trace, a profiler's trace or a saved "
            "workload"
        )
    head = opener.head(path, 65536)
    if SCHEMA in head:
        return load_workload(path)
    if "traceEvents" in head or '"ph"' in head or head.lstrip().startswith("["):
        return _one_step(path, step)
    from slipstick.workloads.importers.traces.execution_trace import import_execution_trace

    return import_execution_trace(path)


def _one_step(path: str | os.PathLike[str], step: int | None) -> Workload:
    from slipstick.workloads.importers.traces.kernel_shapes import read_traced_steps

    steps = read_traced_steps(path)
    if step is None:
        return sorted(steps, key=lambda one: one.duration)[len(steps) // 2].workload
    for one in steps:
        if one.number == step:
            return one.workload
    raise InputError(f"{path}: no step {step} (known: {', '.join(str(one.number) for one in steps)})")


def import_torch_by_name(target: str, shapes: Sequence[str] = (), **options: Any) -> Workload:
    """The torch model that ``MODULE:FUNCTION`` builds (your own code, which is run).

    Inputs are text, ``batch,3,224,224`` or ``input_ids=batch,seq_len:int64``, or what the function returns beside the
    model.
    Raises InputError where the target or an input cannot be read.
    """
    from slipstick.workloads.importers.torch.importer import import_torch
    from slipstick.workloads.importers.torch.named_program import sized_model, with_sizes

    model, inputs, sizes = sized_model(target, shapes)
    return with_sizes(import_torch(model, inputs, target.partition(":")[2], **options), sizes)
