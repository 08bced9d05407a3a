"""Bricks measured on this host: only what is new, interleaved with a reference, resumable after a kill."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.measure.brick_modules import LayerModel, brick_module, layer_model, task
from experiments.measure.brick_store import BrickStore
from experiments.measure.host import detect
from experiments.measure.timing import Protocol, measure
from hwmodels.files import InputError, unknown_name
from hwmodels.machine import Machine
from workloads.bricks import Brick, find_bricks

if TYPE_CHECKING:
    from experiments.validation.model_population import Entry

BATCH = 8
LARGEST_SIDE = 480
PROTOCOLS = {
    "warm": Protocol(repeats=11, warmups=2, trim=0.2, sample_seconds=1e-3, budget_seconds=30.0),
    "dlbricks": Protocol(clock="wall", repeats=100, warmups=2, trim=0.2, sample_seconds=0.0, budget_seconds=600.0),
}
"""By name; "dlbricks" is the paper's (100 runs, 20 % trimmed mean; it asks for fixed clocks, no turbo, no SMT)."""


def software() -> str:
    """The software that decides a measured time."""
    import torch

    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} thread"


def host() -> Machine:
    """This host from its own description; its clock is left at what the system says, measured or not."""
    return detect().machine("host")


def build(name: str) -> LayerModel:
    """A model by name: zoo:NAME (experiments.validation.model_population), or package.module:callable.

    The callable returns (module, example inputs).

    Raises
    ------
    InputError
        Where the name has another form, or the model cannot be built or exported.
    """
    family, _, own = name.partition(":")
    if not own:
        raise InputError(f"model {name!r}: want zoo:NAME or package.module:callable")
    if family == "zoo":
        from experiments.validation.model_population import population

        known = {entry.name: entry for entry in population()}
        if own not in known:
            raise unknown_name("model of the zoo", own, sorted(known))
        module, example = _materialised(known[own].build()), _example(known[own])
    else:
        from importlib import import_module

        sys.path.insert(0, str(Path.cwd()))
        try:
            module, example = getattr(import_module(family), own)()
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise InputError(f"model {name!r}: cannot be built ({error})") from None
        finally:
            sys.path.pop(0)
        module = _materialised(module)
    return layer_model(name, module, example)


def _example(entry: Entry) -> tuple[Any, ...]:
    """Inputs for batch 1, sequences of 64, images of 256 a side where larger ones are asked for."""
    import torch

    inputs = entry.inputs.values() if isinstance(entry.inputs, Mapping) else entry.inputs
    sizes = {"batch": 1, "seq_len": 64, **entry.hints}
    made = []
    for wanted in inputs:
        shape = [
            sizes[size] if isinstance(size, str) else size if size <= LARGEST_SIDE else 256 for size in wanted.shape
        ]
        whole = wanted.dtype.startswith("int")
        made.append(torch.randint(0, 100, shape) if whole else torch.rand(shape))
    return tuple(made)


def _materialised(module: Any) -> Any:
    """The module on the CPU with drawn weights, wherever it was built."""
    import torch

    module = module.to_empty(device="cpu")
    with torch.no_grad():
        for value in [*module.parameters(), *module.buffers()]:
            if value.dtype.is_floating_point:
                value.uniform_(0.01, 0.1)
            else:
                value.zero_()
    return module


def plan(model: LayerModel, granularities: Sequence[int]) -> list[Brick]:
    """All bricks of a model to measure: those of every granularity, and the whole model as one brick."""
    bricks = {brick.identity: brick for size in granularities for brick in find_bricks(model.workload, size)}
    whole = find_bricks(model.workload, len(model.workload))[0]
    return [*bricks.values(), whole]


def measure_models(
    names: Sequence[str],
    granularities: Sequence[int],
    store: BrickStore,
    protocol_name: str = "warm",
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> list[str]:
    """Measure what the store does not hold yet; returns the models that could not be built, with the reason.

    Bricks are taken in a drawn order, so that neither the order nor the neighbours of a brick tell its model; naming
    other models beside one's own adds their bricks as decoys.
    """
    import torch

    torch.set_num_threads(1)
    if protocol_name not in PROTOCOLS:
        raise unknown_name("protocol", protocol_name, list(PROTOCOLS))
    protocol, machine, key = PROTOCOLS[protocol_name], host(), software()
    store.add_machine(machine)
    failed = []
    for number, name in enumerate(names, 1):
        try:
            model = build(name)
        except InputError as error:
            failed.append(str(error))
            continue
        bricks = {brick.identity: brick for brick in plan(model, granularities)}
        new = store.missing(list(bricks), machine.fingerprint, key, str(protocol))
        random.Random(seed).shuffle(new)
        say(f"{number} of {len(names)}: {name}: {len(model.workload)} layers, {len(new)} of {len(bricks)} bricks new")
        try:
            for begin in range(0, len(new), BATCH):
                some = [bricks[identity] for identity in new[begin : begin + BATCH]]
                _measure(model, some, store, machine.fingerprint, key, protocol)
        except InputError as error:
            failed.append(f"model {name!r}: {error}")
    return failed


def _measure(
    model: LayerModel, bricks: Sequence[Brick], store: BrickStore, fingerprint: str, key: str, protocol: Protocol
) -> None:
    tasks = {}
    for brick in bricks:
        module, inputs = brick_module(model, brick)
        tasks[brick.identity] = task(module, inputs)
    timings = measure(tasks, protocol)
    for brick in bricks:
        what = (
            f"{len(brick.layers)} layers"
            if len(brick.layers) > 1
            else str(brick.workload.operations[0].attributes["does"])
        )
        store.add(brick.identity, fingerprint, key, timings[brick.identity], what[:500])
