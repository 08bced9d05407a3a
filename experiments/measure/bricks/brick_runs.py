"""Bricks measured on this host: only what is new, interleaved with a reference, resumable after a kill.

Bricks of a model run in turn, the whole model between them: one session, cold and warm times of each.

A brick on its own in a loop finds its weights in the cache and the framework's code too; inside a model it finds
neither, but its input has just been written. So in every round the bricks come in a drawn order, and of each

* first its inputs are touched (the neighbour before it would have written them), then one call is timed: **cold**;
* then a second call at once is timed: **warm**.

The whole model and a reference run several times a round, spread among its bricks: a slow spell of the machine hits
all alike. What a spell does to a whole round is divided out (the weighted median of its samples over their medians);
what is left between sessions is known from the reference, and a session whose reference drifts is flagged. The call
of an empty brick is taken off: it is the clock's and the caller's, not the brick's.
"""

from __future__ import annotations

import ctypes
import gc
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.lazy_packages import fx, torch
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict
from slipstick.experiments.measure.bricks.brick_modules import (
    LayerModel,
    at_batch,
    batched,
    brick_module,
    layer_model,
    task,
    touch,
)
from slipstick.experiments.measure.bricks.brick_store import COLD, WARM, BrickStore, Composition, StoredTiming, Where
from slipstick.experiments.measure.bricks.bricks_file import load_sheet, one_line
from slipstick.experiments.measure.clocks.one_thread import one_thread
from slipstick.experiments.measure.clocks.timing import (
    CLOCKS,
    Protocol,
    Task,
    Timing,
    load_per_core,
    measure,
    timing_of,
)
from slipstick.experiments.measure.clocks.torch_device import CPU, EAGER, TorchDevice
from slipstick.experiments.measure.host.host_topology import detect
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.transforms.bricks import Brick, find_bricks

if TYPE_CHECKING:
    from slipstick.workloads.importers.torch.arguments import Input, Inputs


VISITS = 3
"""Times a round that the whole model and the reference run."""
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # of glibc's mallopt


@dataclass(frozen=True)
class Breakpoint:
    """Something to time: the call, and what touches its inputs before a cold one."""

    call: Task
    touch: Task


@dataclass(frozen=True)
class Session:
    """Timings of one session; all have the reference's drift and scatter for their own.

    `cold`, `warm`: by name of the brick: called after its neighbours' work, and again at once.
    `whole`: the whole model, run between its bricks; None where none was requested.
    `reference`: seconds of the reference: the machine's speed in this session.
    `rounds`: factor of every round: above 1 where the machine was slower than in the middle one.
    """

    cold: Mapping[str, Timing]
    warm: Mapping[str, Timing]
    whole: Timing | None
    reference: Timing
    rounds: tuple[float, ...]


def run_session(
    bricks: Mapping[str, Breakpoint],
    whole: Breakpoint | None,
    empty: Breakpoint,
    reference: Task,
    protocol: Protocol,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, planned: None,
) -> Session:
    """Time bricks in turn, with the whole model between them.

    Raises InputError where there is neither a brick nor a model to time.
    """
    if not bricks and whole is None:
        raise InputError("nothing to measure: no brick and no model is named")
    clock, draw = CLOCKS[protocol.clock], random.Random(seed)
    turns = {("brick", name): turn for name, turn in bricks.items()} | {("empty", ""): empty}
    cold: dict[tuple[str, str], list[float]] = {key: [] for key in turns}
    warm: dict[tuple[str, str], list[float]] = {key: [] for key in turns}
    between: dict[str, list[list[float]]] = {"whole": [], "reference": []}
    load_before, begun = load_per_core(), time.perf_counter()
    order = list(turns)
    with _undisturbed():
        for _ in range(protocol.warmups):
            for turn in (*turns.values(), *((whole,) if whole is not None else ())):
                turn.call()
            reference()
        for done in range(protocol.repeats):
            if done >= 3 and time.perf_counter() - begun > protocol.budget_seconds:
                break
            draw.shuffle(order)
            for kept in between.values():
                kept.append([])
            stride = -(-len(order) // VISITS)
            for place, key in enumerate(order):
                if place % stride == 0:
                    between["reference"][-1].append(_clocked(reference, clock))
                    if whole is not None:
                        whole.touch()
                        between["whole"][-1].append(_clocked(whole.call, clock))
                turns[key].touch()
                cold[key].append(_clocked(turns[key].call, clock))
                warm[key].append(_clocked(turns[key].call, clock))
            progress(done + 1, protocol.repeats)
    load_after = load_per_core()
    load = (load_before, load_after) if load_before is not None and load_after is not None else None
    rounds = _round_factors([*cold.values(), *warm.values(), *_columns(between["whole"])])
    references = [value for visits in between["reference"] for value in visits]

    def timed(samples: list[list[float]], aside: float) -> Timing:
        seconds = [(value - aside) / rounds[place] for place, visits in enumerate(samples) for value in visits]
        return timing_of(seconds, references, protocol, load=load)

    nothing = ("empty", "")
    aside_cold, aside_warm = (float(np.median(taken[nothing])) for taken in (cold, warm))
    return Session(
        cold={key[1]: timed([[v] for v in taken], aside_cold) for key, taken in cold.items() if key != nothing},
        warm={key[1]: timed([[v] for v in taken], aside_warm) for key, taken in warm.items() if key != nothing},
        whole=timed(between["whole"], aside_cold) if whole is not None else None,
        reference=timing_of(references, references, protocol, load=load),
        rounds=tuple(map(float, rounds)),
    )


def _clocked(task: Task, clock: Callable[[], float]) -> float:
    start = clock()
    result = task()
    seconds = clock() - start
    del result  # its memory is given back outside of the clock, and before the next task needs some
    return seconds


def _columns(visits: list[list[float]]) -> list[list[float]]:
    return [list(column) for column in zip(*visits, strict=True)]


def _round_factors(samples: list[list[float]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How much slower each round was than the middle one: over the tasks, the median weighted by their times."""
    table = np.array(samples)
    middle = np.median(table, axis=1)
    table, middle = table[middle > 0], middle[middle > 0]  # below the clock's grain: nothing to compare
    ratios = table / middle[:, None]
    order = np.argsort(ratios, axis=0)
    weights = np.cumsum(middle[order], axis=0)
    chosen = np.argmax(weights >= 0.5 * weights[-1], axis=0)
    factors = np.take_along_axis(ratios, np.take_along_axis(order, chosen[None, :], 0), 0)[0]
    return np.asarray(factors / np.median(factors))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage collection, and freed pages stay with the process: a page fault belongs to no brick (glibc only)."""
    try:
        allocator = ctypes.CDLL("libc.so.6")
        allocator.mallopt(MMAP_THRESHOLD, 32 << 20)
        allocator.mallopt(TRIM_THRESHOLD, (1 << 31) - 1)
    except (OSError, AttributeError):
        pass  # another C library: pages may be given back, which the samples show
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


BATCH = 8
SHEET_BATCH = 128
LARGEST_SIDE = 480
EMPTY: Mapping[str, int] = MappingProxyType({})
TURNS = "turns"
PROTOCOLS = {
    TURNS: Protocol(repeats=15, warmups=1, trim=0.2, sample_seconds=0.0, budget_seconds=150.0),
    "warm": Protocol(repeats=11, warmups=2, trim=0.2, sample_seconds=1e-3, budget_seconds=30.0),
    "dlbricks": Protocol(clock="wall", repeats=100, warmups=2, trim=0.2, sample_seconds=0.0, budget_seconds=600.0),
}
"""By name: "turns" (see bricks.turns), "warm" (each in a loop of its own), and "dlbricks", which is the
paper's (100 runs, 20 % trimmed mean; it wants fixed clocks, no turbo, no SMT)."""


def protocol_keys(name: str, device: TorchDevice = CPU) -> dict[str, str]:
    """Under which protocol text a store keeps the results of a named protocol, by cache state.

    Raises InputError where the name is unknown.
    """
    if name not in PROTOCOLS:
        raise unknown_name("protocol", name, list(PROTOCOLS))
    protocol = device.protocol(PROTOCOLS[name])
    if name == TURNS:
        return {"cold": f"{protocol}, in turn{COLD}", "warm": f"{protocol}, in turn{WARM}"}
    return {"warm": str(protocol)}


def software(device: TorchDevice = CPU) -> str:
    """The software that decides a measured time, on a GPU with its name, and whether modules are compiled."""

    mode = "" if device.mode == EAGER else f", {device.mode}"
    if device.launches:
        return f"torch {torch.__version__}, {device.place} {torch.version.cuda or ''}, {device.model}{mode}"
    capability, threads = torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()
    return f"torch {torch.__version__}, {capability}, {threads} thread{mode}"


def host() -> Machine:
    """This host from its own description; its clock is left at what the system says, measured or not."""
    return detect().machine("host")


def build(name: str, shapes: Sequence[str] = (), batch: int = 1) -> LayerModel:
    """A model by name: zoo:NAME (bricks.model_population), or MODULE:FUNCTION of your own.

    Above batch 1 the model is called ``NAME, batch 8``: its bricks are others.

    `shapes`: inputs of a MODULE:FUNCTION that returns the model alone, as ``batch,3,224,224``.
    Raises InputError where the name has another form, or the model cannot be built or exported.
    """
    family, _, variant = name.partition(":")
    if not variant:
        raise InputError(f"model {name!r}: want zoo:NAME or MODULE:FUNCTION")
    if family == "zoo":
        from slipstick.experiments.measure.bricks.model_population import population

        known = {entry.name: entry for entry in population()}
        if variant not in known:
            raise unknown_name("model of the zoo", variant, sorted(known))
        entry = known[variant]
        example = _example(name, batched(name, entry.inputs, batch), {**entry.hints, "batch": batch}, LARGEST_SIDE)
        return layer_model(at_batch(name, batch), _materialised(entry.build()), example)
    from slipstick.workloads.importers.torch.named_program import model_and_inputs

    module, inputs = model_and_inputs(name, shapes)
    example = _example(name, batched(name, inputs, batch), {"batch": batch})
    return layer_model(at_batch(name, batch), _materialised(module), example)


def _example(
    name: str, inputs: Inputs, hints: Mapping[str, int] = EMPTY, largest_side: float = math.inf
) -> tuple[Any, ...] | dict[str, Any]:
    """Inputs for batch 1 and sequences of 64 where `hints` say nothing else; images above `largest_side` at 256."""

    sizes = {"batch": 1, "seq_len": 64, **hints}

    def made(wanted: Input) -> Any:
        cut = largest_side if len(wanted.shape) == 4 else math.inf
        unknown = [size for size in wanted.shape if isinstance(size, str) and size not in sizes]
        if unknown:
            raise InputError(f"model {name!r}: size {unknown[0]!r} of an input has no value: give a number")
        shape = [sizes[size] if isinstance(size, str) else size if size <= cut else 256 for size in wanted.shape]
        dtype = getattr(torch, wanted.dtype)
        return torch.rand(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 2, shape).to(dtype)

    if isinstance(inputs, Mapping):
        return {key: made(wanted) for key, wanted in inputs.items()}
    return tuple(made(wanted) for wanted in inputs)


def _materialised(module: Any) -> Any:
    """The module on the CPU with drawn weights, wherever it was built.

    Weights keep the scale of what runs through (He et al. 2015), so that no value becomes infinite or denormal: both
    would change the time.
    """

    module = module.to_empty(device="cpu")
    with torch.no_grad():
        for name, value in [*module.named_parameters(), *module.named_buffers()]:
            if not value.dtype.is_floating_point:
                value.zero_()
            elif value.ndim > 1:
                bound = (6.0 / max(1, value[0].numel())) ** 0.5
                value.uniform_(-bound, bound)
            else:
                value.fill_(1.0 if name.endswith(("weight", "running_var")) else 0.01)
    return module


def plan(model: LayerModel, granularities: Sequence[int]) -> list[Brick]:
    """All bricks of a model to measure: those of every granularity, and the whole model as one brick."""
    bricks = {brick.identity: brick for size in granularities for brick in find_bricks(model.workload, size)}
    whole = find_bricks(model.workload, len(model.workload))[0]
    return [*bricks.values(), whole]


def composition(model: LayerModel, granularity: int) -> Composition:
    """Of which bricks a model is made."""
    whole = find_bricks(model.workload, len(model.workload))[0].identity
    counts = Counter(brick.identity for brick in find_bricks(model.workload, granularity))
    return Composition(model.name, whole, FrozenDict(dict(counts)))


@one_thread()
def measure_models(
    names: Sequence[str],
    granularities: Sequence[int],
    store: BrickStore,
    protocol_name: str = TURNS,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
    shapes: Sequence[str] = (),
    machine: Machine | None = None,
    device: TorchDevice = CPU,
    batch: int = 1,
) -> list[str]:
    """Measure what the store does not hold yet; returns the models that could not be built, with the reason.

    Bricks are taken in a drawn order; a name that ends in .json is a sheet of bricks (`brick_sheet`), which says
    nothing of the models they come from. Results of a session are written together: a killed measurement starts again
    with the session that it was in.
    """

    keys = protocol_keys(protocol_name, device)
    machine = machine or host()
    where = Where(machine.fingerprint, software(device))
    store.add_machine(machine)
    failed = []
    begun = time.perf_counter()
    for number, name in enumerate(names, 1):
        if name.endswith(".json"):
            _sheet(Path(name), store, where, protocol_name, seed, device)
            continue
        try:
            model = build(name, shapes, batch)
        except InputError as error:
            failed.append(str(error))
            continue
        bricks = {brick.identity: brick for brick in plan(model, granularities)}
        for size in granularities:
            store.add_model(size, composition(model, size))
        new = store.missing(list(bricks), where.machine, where.software, keys["warm"])
        random.Random(f"{seed} {name}").shuffle(new)
        left = (time.perf_counter() - begun) / max(1, number - 1) * (len(names) - number + 1)
        say(
            f"{number} of {len(names)}: {name}: {len(model.workload)} layers, {len(new)} of {len(bricks)} bricks new"
            + (f", about {left / 60:.0f} min left" if number > 1 else "")
        )
        try:
            with torch.inference_mode():
                if protocol_name == TURNS and new:
                    _session(model, {identity: bricks[identity] for identity in new}, store, where, seed, device)
                elif new:
                    for begin in range(0, len(new), BATCH):
                        some = {identity: bricks[identity] for identity in new[begin : begin + BATCH]}
                        _alone(model, some, store, where, PROTOCOLS[protocol_name], device)
        except InputError as error:
            failed.append(f"model {name!r}: {error}")
    return failed


def _sheet(path: Path, store: BrickStore, where: Where, protocol_name: str, seed: int, device: TorchDevice) -> None:
    """The bricks of somebody's sheet, without the models that they come from."""

    if protocol_name != TURNS:
        raise InputError(f"{path}: a sheet is measured in turn, not by protocol {protocol_name!r}")
    keys, built = protocol_keys(TURNS, device), load_sheet(path)
    new = store.missing(list(built), where.machine, where.software, keys["warm"])
    with torch.inference_mode():
        for begin in range(0, len(new), SHEET_BATCH):
            some = new[begin : begin + SHEET_BATCH]
            turns = {identity: _runs_once(path, *built[identity], device) for identity in some}
            _in_turn(turns, None, dict.fromkeys(some, "from a sheet"), store, where, seed, device)


def _runs_once(path: Path, module: Any, inputs: tuple[Any, ...], device: TorchDevice) -> Breakpoint:
    """A brick of a sheet that has run once: an error of its own values is reported before the session begins."""
    turn = _callable(module, inputs, device)
    try:
        turn.touch()
        turn.call()
    except Exception as error:  # torch raises dozens of kinds, all of them mean that this brick does not run
        raise InputError(f"{path}: a brick does not run ({one_line(error)})") from None
    return turn


def _empty(device: TorchDevice) -> Breakpoint:
    return _callable(fx.symbolic_trace(torch.nn.Identity()), (torch.zeros(1),), device)


def _session(
    model: LayerModel, bricks: Mapping[str, Brick], store: BrickStore, where: Where, seed: int, device: TorchDevice
) -> None:
    """One session in turn: new bricks with the whole model between them, new or not."""
    whole = find_bricks(model.workload, len(model.workload))[0]
    turns = {name: _turn(model, brick, device) for name, brick in bricks.items() if name != whole.identity}
    about = {name: _what(brick) for name, brick in bricks.items()}
    _in_turn(turns, (whole.identity, _turn(model, whole, device)), about, store, where, seed, device)


def _in_turn(
    turns: Mapping[str, Breakpoint],
    whole: tuple[str, Breakpoint] | None,
    about: Mapping[str, str],
    store: BrickStore,
    where: Where,
    seed: int,
    device: TorchDevice,
) -> None:
    """Measure bricks in turn, the whole model between them where there is one, and store those that `about` names."""
    identity, between = whole or ("", None)
    protocol, keys = device.protocol(PROTOCOLS[TURNS]), protocol_keys(TURNS, device)
    session = run_session(turns, between, _empty(device), _reference(device), protocol, seed)
    kept = {identity: session.whole} if session.whole is not None else {}
    results = [
        StoredTiming(name, keys[state], timing, about[name])
        for state, timings in (("cold", session.cold), ("warm", session.warm))
        for name, timing in {**timings, **kept}.items()
        if name in about
    ]
    store.add(where, results, session.reference.median)


def _alone(
    model: LayerModel,
    bricks: Mapping[str, Brick],
    store: BrickStore,
    where: Where,
    protocol: Protocol,
    device: TorchDevice,
) -> None:
    """Each brick in a loop of its own, the loops interleaved."""
    protocol = device.protocol(protocol)
    timings = measure({identity: _turn(model, brick, device).call for identity, brick in bricks.items()}, protocol)
    results = [
        StoredTiming(identity, str(protocol), timing, _what(bricks[identity])) for identity, timing in timings.items()
    ]
    store.add(where, results)


def _turn(model: LayerModel, brick: Brick, device: TorchDevice) -> Breakpoint:
    return _callable(*brick_module(model, brick), device)


def _callable(module: Any, inputs: tuple[Any, ...], device: TorchDevice) -> Breakpoint:
    module, inputs = device.moved(module, inputs)
    return Breakpoint(device.ended(task(module, inputs)), device.ended(touch(inputs)))


def _what(brick: Brick) -> str:
    if len(brick.layers) > 1:
        return f"{len(brick.layers)} layers"
    return str(brick.workload.operations[0].attributes["does"])[:500]


def _reference(device: TorchDevice) -> Callable[[], object]:
    """A few milliseconds of what models are made of: a convolution, a pass over memory, small layers."""
    from torch.nn.functional import conv2d, relu

    sizes = ((1, 32, 56, 56), (32, 32, 3, 3), (1 << 20,), (64,))
    image, weights, large, small = (torch.rand(size, device=device.place) for size in sizes)

    def once() -> object:
        conv2d(image, weights, padding=1)
        relu(large)
        value = small
        for _ in range(40):
            value = relu(value)
        return value

    return device.ended(once)
