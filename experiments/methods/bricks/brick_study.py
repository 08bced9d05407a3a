"""The verb `bricks` as a function: latencies of models from layer sequences that were measured before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.base.schedule_model import Schedule
from slipstick.experiments.measure.bricks.brick_runs import build
from slipstick.experiments.measure.bricks.brick_store import BrickStore
from slipstick.experiments.methods.bricks.brick_composition import latencies
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload

STORE = Path("slipstick-out/bricks.sqlite")


@checked
def bricks(
    models: Sequence[str],
    store: str | Path | Sequence[str | Path] = STORE,
    *,
    granularity: int = 1,
    input: Sequence[str] = (),  # noqa: A002
    batch: int = 1,
    schedule: Schedule | None = None,
) -> list[dict[str, Any]]:
    """Latency [s] and price of models on every machine that the stores know, fastest first; no model is run.

    Parameters
    ----------
    models
        A built-in workload, a .json file, zoo:NAME, or a `TrustedName` of MODULE:FUNCTION.
    store
        Of measured bricks (slipstick measure bricks); one or several, of several machines.
    granularity
        Layers of a brick.
    input, batch
        Of MODULE:FUNCTION: shapes of its inputs where it returns a model alone, and their first size.
    schedule
        How bricks share the machine's time; None: one after the other.

    Raises
    ------
    InputError
        Where a model or a store cannot be read, or the stores hold no brick.

    Examples
    --------
    >>> import slipstick as ss
    >>> import pathlib
    >>> ss.bricks(["mlp"], pathlib.Path("no-such.sqlite"))
    Traceback (most recent call last):
    slipstick.common.errors.InputError: no-such.sqlite: no such store of bricks ...
    """
    paths = [Path(one) for one in ([store] if isinstance(store, (str, Path)) else store)]
    stores = [BrickStore.existing(path) for path in paths]
    if not any(one.contents() for one in stores):
        raise InputError(f"{', '.join(map(str, paths))}: holds no measured brick (slipstick measure bricks MODEL ...)")
    return latencies({name: layers_of(name, input, batch)[0] for name in models}, granularity, stores, schedule)


def layers_of(name: str, shapes: Sequence[str] = (), batch: int = 1) -> tuple[Workload, Any]:
    """A model's layers by name, and the torch model where there is one; `shapes` and `batch` as `bricks` takes them.

    Raises InputError where the name is unknown.
    """
    if ":" in name and not name.endswith(".json"):
        layered = build(name, shapes, batch)
        return layered.workload, layered
    return workload(name).bound(), None
