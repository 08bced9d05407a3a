"""Everything that the thread model wants to know of a network on this host (`slipstick measure contention`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from slipstick.common.errors import InputError
from slipstick.common.readers import whole_number
from slipstick.estimators.cpu.thread_calibration import ThreadMeasurement
from slipstick.experiments.measure.threads.contention_times import layer_weights, measure_contention
from slipstick.experiments.measure.threads.shared_cores import cycles_by_threads, sibling_threads
from slipstick.experiments.measure.threads.training_times import measure_passes, measure_training
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.instruction_count import counted_instructions
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.runs.training_run import training_run

MAX_LISTED = 64


def thread_counts(text: str) -> tuple[int, ...]:
    """``1..8`` (1, 2, 4, 8: doubling, and the last), or ``1,2,6``.

    Raises InputError where it is neither.
    """
    first, dots, last = text.partition("..")
    if dots:
        low, high = whole_number(first.strip()), whole_number(last.strip())
        if not low or not high or high < low:
            raise InputError(f"--threads {text}: want FIRST..LAST, as 1..8")
        result, count = [], low
        while count < high:
            result.append(count)
            count *= 2
        return (*result, high)
    counts = [whole_number(part.strip()) for part in text.split(",")]
    if not counts or not all(counts) or len(counts) > MAX_LISTED:
        raise InputError(f"--threads {text}: want 1..8 or a list such as 1,2,6")
    return tuple(sorted({count for count in counts if count}))


def graph_of(target: str, shapes: Sequence[str]) -> Workload:
    """The training step of a torch model, ``MODULE:FUNCTION``, as a workload named like the function."""
    from slipstick.workloads.importers.torch.by_name import model_and_inputs
    from slipstick.workloads.importers.torch.importer import import_torch

    model, inputs = model_and_inputs(target, shapes)
    return import_torch(model, inputs, target.rpartition(":")[2])


def instructions_of(step: Workload) -> float:
    """Number of instructions of one trained image."""
    run = training_run(step).bound()
    return float(sum(counted_instructions(op) for op in run if op.name in ("training", "inference")))


def measure_network(
    target: str,
    machine: Machine,
    threads: Sequence[int],
    shapes: Sequence[str] = (),
    images: int = 20,
    repeats: int = 3,
    say: Callable[[str], None] | None = None,
) -> tuple[ThreadMeasurement, Workload]:
    """Contention, cycles per instruction, passes and training times of a torch model here; and its graph.

    `machine`: this host as a machine, its clock known.
    `threads`: counts to measure.
    `images`: trained by each worker at each count.
    Raises InputError where torch or numba is missing, or the model cannot be built, imported or run.
    """
    speak = say or (lambda text: None)
    speak("importing the network's graph")
    step = graph_of(target, shapes)
    layers = layer_weights(step)
    contention = measure_contention(layers, threads, say=speak)
    speak("cycles per instruction by threads a core")
    cycles = cycles_by_threads(sibling_threads())
    speak("passes on one thread")
    passes = measure_passes(target, shapes, images)
    training = measure_training(target, threads, shapes, images, repeats, speak)
    when = datetime.now(UTC).date().isoformat()
    spread = max([*(each.spread for each in contention), *(each.spread for each in training)], default=0.0)
    return (
        ThreadMeasurement(
            network=str(step.metadata.get("network", step.name)),
            weights=float(sum(layers)),
            instructions=instructions_of(step),
            clock=machine.clock,
            machine=machine.name,
            family=machine.family or "",
            fingerprint=machine.fingerprint,
            contention=tuple((each.threads, each.seconds) for each in contention),
            training=tuple((each.threads, each.seconds) for each in training),
            forward=passes.forward,
            backward=passes.backward,
            preparation=passes.preparation,
            cycles_per_instruction=cycles,
            cores=machine.cores,
            protocol=f"{when}: CPU time, medians of {repeats} rounds, largest spread {spread:.0%}",
        ),
        step,
    )
