"""The SeqPoint study on our machine model: epochs, the five hardware configurations, methods and their errors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, Literal, TypeAlias

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import symbol
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.gpu.kernels.kernel_classes import KERNELS, KernelParameters
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.sampling.iteration_choice import RepresentativeSet
from slipstick.estimators.sampling.seqpoint import select
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.symbolic.formula import Formula, MinOverConfigs
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.layers.single import elementwise, gemm
from slipstick.workloads.networks.deepspeech2 import deepspeech2
from slipstick.workloads.networks.gnmt import gnmt
from slipstick.workloads.networks.stepped_sequences import stepped_deepspeech2, stepped_gnmt
from slipstick.workloads.runs.iterations import Iterations, Order, epoch_lengths
from slipstick.workloads.runs.lengths import Lengths, lognormal_lengths, read_lengths

Network: TypeAlias = Literal["gnmt", "deepspeech2"]
OperationTime: TypeAlias = Literal["training", "evaluation", "autotune"]
NETWORKS: tuple[Network, ...] = ("gnmt", "deepspeech2")
BATCH = 64
IWSLT15_SENTENCES = 133_317
"""Sentence pairs of the IWSLT15 English-Vietnamese training set (Luong and Manning, IWSLT 2015)."""
CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {  # Table II
    "#1": {},
    "#2": {"clock": "852 MHz"},
    "#3": {"cores": 16},
    "#4": {"memory.L1.capacity": 0},
    "#5": {"memory.L2.capacity": 0},
}
CHANGED = tuple(path for changes in CONFIGURATIONS.values() for path in changes)
METHODS: Mapping[str, Mapping[str, Any]] = {
    "seqpoint": {"error": 0.001},
    "frequent": {},
    "median": {},
    "prior": {},
    "k-means": {},
}
"""Those of the paper, with our settings where it states none; worst is taken for each configuration by itself."""
AUTOTUNE_TRIES = 8
"""Kernels that a library tries for an operation of a new shape; the paper states no number."""


NETWORK_OF: Mapping[Network, Callable[..., Workload]] = {
    "gnmt": gnmt,
    "deepspeech2": partial(deepspeech2, first_axis="frames"),
}
"""DeepSpeech2 as TensorFlow's program has it (research/deep_speech of tensorflow/models), since the paper ran
TensorFlow: frames are halved twice. Table I's 59 steps are then 2.4 s of speech and not 1.2 s, which no utterance has,
and about half of an epoch's lengths are unique, as Section V-A says."""
PROGRAM_OF: Mapping[Network, Callable[[], Workload]] = {"gnmt": stepped_gnmt, "deepspeech2": stepped_deepspeech2}
"""Which kernels run: those of the programs; how long: layers as DeepBench measured them on the card."""
SHORT_UTTERANCES = 28_539 - 27_952
"""LibriSpeech's train-clean-100 has 28,539 utterances; the public list leaves out those below 3 s."""
SHORT_SECONDS = (2.38, 3.0)
"""Those, spread evenly over these seconds, make up the set's 100.6 hours (Panayotov et al., ICASSP 2015, Table 1)."""
BEAM, DECODED_TOGETHER = 5, 128
"""MLPerf's GNMT (mlcommons/training 19e58a6, rnn_translator/pytorch/train.py): beam_size, test_batch_size."""


def data_lengths(network: Network, part: Literal["training", "evaluation"] = "training") -> Lengths:
    """Sequence lengths of the data set: words (GNMT: the longer of source and target), frames of 10 ms (DeepSpeech2).

    GNMT's sentences have a token more, the one that begins or ends them; its training epoch has IWSLT15's real number
    of sentences, drawn from the test sets' counted ones. DeepSpeech2's frames are padded to multiples of four, since
    the network's steps are. Where the public data are not at hand all lengths are drawn from a log-normal of the same
    middle and width.
    """
    if network == "gnmt":
        size = IWSLT15_SENTENCES if part == "training" else 1553
        path = training_file("sequences/iwslt15/lengths.csv")
        if path is None:
            return lognormal_lengths(size, 21.0, 0.63, 3, 124, seed=15)
        english, other = (read_lengths(path, column, "tokens") for column in ("en_tokens", "vi_tokens"))
        begun = 1 + np.maximum(english.values, other.values)
        return Lengths(begun, "tokens", english.source).resampled(size, seed=15)
    name = "train-clean-100" if part == "training" else "dev-clean"
    path = training_file(f"sequences/librispeech/{name}.csv")
    if path is None:
        return lognormal_lengths(27_952 if part == "training" else 2303, 1300.0, 0.25, 300, 2452, "frames", seed=16)
    listed = read_lengths(path, "length", "samples at 16 kHz").scaled(1 / 160, "frames")
    frames, source = listed.values, listed.source
    if part == "training":
        short = np.linspace(*SHORT_SECONDS, SHORT_UTTERANCES) * 100
        frames = np.concatenate([frames, np.round(short).astype(np.int64)])
        source += f" and {SHORT_UTTERANCES} below 3 s"
    return Lengths(-(-frames // 4) * 4, "frames", source)


def network_of(network: Network, purpose: str = "training") -> Workload:
    """The network as the study runs it."""
    return image_by_image(NETWORK_OF[network](purpose=purpose))


def image_by_image(network: Workload) -> Workload:
    """Convolutions of unequal strides as MIOpen ran them in 2019: image by image, columns and their product.

    Its direct, Winograd and FFT kernels of that time want equal strides (ROCm/MIOpen, src/solver: `kernel_stride_w ==
    kernel_stride_h`); what is left loops over the images (src/ocl/convolutionocl.cpp: Im2ColGPU, then CallGemm).
    """
    operations: list[Op] = []
    for op in network.operations:
        strides = op.attributes.get("stride", ())
        if op.kind != "convolution" or not isinstance(strides, tuple) or len(set(strides)) < 2:
            operations.append(op)
            continue
        window = op.dims["channels_in"] * op.dims["kernel_height"] * op.dims["kernel_width"]
        places, made = op.dims["out_height"] * op.dims["out_width"], op.dims["channels_out"]
        sizes = {"backward_data": (window, places, made), "backward_weight": (made, window, places)}
        m, n, k = sizes.get(str(op.attributes.get("pass")), (made, places, window))
        columns = elementwise(f"{op.name}.columns", window * places, function="im2col")
        operations += [replace(one, times=op.dims["batch"]) for one in (gemm(op.name, m, n, k), columns)]
    return replace(network, operations=tuple(operations))


@dataclass(frozen=True)
class SeqPointStudy:
    """One network's epoch on the five configurations.

    `purpose`: training steps, or inference on the same batches.
    `order`: of the epoch; by default that of the paper: GNMT buckets, DeepSpeech2 sorts.
    """

    network: Network
    purpose: Literal["training", "inference"] = "training"
    order: Order | None = None
    seed: int = 0

    @cached_property
    def lengths(self) -> Lengths:
        """Of the data set."""
        return data_lengths(self.network)

    @cached_property
    def epoch(self) -> FloatArray:
        """Padded length of every iteration."""
        order: Order = self.order or ("bucketed" if self.network == "gnmt" else "sorted")
        return epoch_lengths(self.lengths, BATCH, order, self.seed).astype(np.float64)

    @cached_property
    def times(self) -> dict[str, FloatArray]:
        """Seconds of every iteration on each configuration."""
        unique, place = np.unique(self.epoch, return_inverse=True)
        return {name: self.seconds(unique, name)[place] for name in CONFIGURATIONS}

    @cached_property
    def _step(self) -> Any:
        """Seconds of an iteration by its length and what the configurations change: compiled once for all of them."""
        free = ("workload.seq_len", *(f"machine.{path}" for path in CHANGED))
        return estimator().compile(network_of(self.network, self.purpose), vega(), free, run={"batch": BATCH})

    def seconds(self, lengths: FloatArray, configuration: str) -> FloatArray:
        """Seconds of iterations of these lengths on one configuration, by the model."""
        machine = vega(configuration)
        changed = {f"machine.{path}": machine.get(path) for path in CHANGED}
        return np.asarray(self._step({"workload.seq_len": lengths, **changed}))

    def iterations(self, configuration: str = "#1") -> Iterations:
        """The epoch with its times on one configuration."""
        return Iterations(self.epoch, self.times[configuration], source=f"{self.network} {configuration}, simulated")

    def selection(self, method: str) -> RepresentativeSet:
        """Chosen on #1, once."""
        if method not in self._selections:
            self._selections[method] = select(method, self.iterations("#1"), **METHODS.get(method, {}))
        return self._selections[method]

    @cached_property
    def _selections(self) -> dict[str, RepresentativeSet]:
        return {}

    def time_errors(self, method: str) -> dict[str, float]:
        """|projected / whole - 1| of the epoch's time on each configuration."""
        if method == "worst":
            mean = {name: times.mean() for name, times in self.times.items()}
            return {name: float(np.max(np.abs(times / mean[name] - 1))) for name, times in self.times.items()}
        chosen = self.selection(method)
        return {
            name: abs(chosen.project(times[chosen.indices]).total / float(times.sum()) - 1)
            for name, times in self.times.items()
        }

    def speedup_errors(self, method: str) -> dict[str, float]:
        """|projected - true| change of throughput against #1, as a share of #1's throughput, for #2 to #5."""
        base = self.times["#1"]
        errors = {}
        for name, times in self.times.items():
            if name == "#1":
                continue
            true = float(base.sum() / times.sum()) - 1
            if method == "worst":
                errors[name] = float(np.max(np.abs(base / times - 1 - true)))
                continue
            chosen = self.selection(method)
            projected = [chosen.project(seconds[chosen.indices]).total for seconds in (base, times)]
            errors[name] = abs(projected[0] / projected[1] - 1 - true)
        return errors

    def sensitivity(self) -> dict[str, float]:
        """By how much the speedup from #1 varies over lengths, largest over smallest less one, for #2 to #5."""
        ratios = {name: times / self.times["#1"] for name, times in self.times.items() if name != "#1"}
        return {name: float(ratio.max() / ratio.min()) - 1 for name, ratio in ratios.items()}

    def evaluation_seconds(self, configuration: str = "#1") -> float:
        """One evaluation on the development set: DeepSpeech2's forward pass; GNMT's beam search.

        As MLPerf's reference does it, sentences come 128 at a time in the order of the file, the decoder makes as many
        words of five beams each as the batch's longest target has, and every word runs the decoder and the classifier.
        """
        path = training_file("sequences/iwslt15/lengths.csv")
        if self.network == "deepspeech2" or path is None:
            forward = SeqPointStudy(self.network, "inference")
            evaluated = epoch_lengths(data_lengths(self.network, "evaluation"), BATCH, "sorted").astype(np.float64)
            return float(forward.seconds(evaluated, configuration).sum())
        development = [row for _, row in read_csv_rows(path) if row["split"] == "tst2012"]
        starts = range(0, len(development), DECODED_TOGETHER)
        batches = [development[i : i + DECODED_TOGETHER] for i in starts]
        source, target = (
            np.array([max(int(row[column]) for row in batch) for batch in batches], dtype=np.float64)
            for column in ("en_tokens", "vi_tokens")
        )
        seconds = {
            purpose: np.asarray(
                estimator().compile(
                    network_of("gnmt", purpose), vega(configuration), ("workload.seq_len",), run={"batch": rows}
                )({"workload.seq_len": source})
            )
            for purpose, rows in (("encode", DECODED_TOGETHER), ("decode", DECODED_TOGETHER * BEAM))
        }
        return float(seconds["encode"].sum() + ((target + 1) * seconds["decode"]).sum())

    def run_seconds(self, parts: frozenset[OperationTime], epochs: int = 1, configuration: str = "#1") -> float:
        """A run of several epochs: training steps, with evaluation after every epoch and autotuning before the first.

        Autotuning runs the kernels of every unique length `AUTOTUNE_TRIES` times.
        """
        total = 0.0
        if "training" in parts:
            total += epochs * float(self.times[configuration].sum())
        if "evaluation" in parts:
            total += epochs * self.evaluation_seconds(configuration)
        if "autotune" in parts:
            total += AUTOTUNE_TRIES * float(self.seconds(np.unique(self.epoch), configuration).sum())
        return total


@cache
def vega(configuration: str = "#1") -> Machine:
    """The Radeon Vega Frontier Edition in one configuration of Table II."""
    return machine("vega-fe").using(dict(CONFIGURATIONS[configuration]))


VEGA_STEPS = KernelParameters(
    overhead=3.18e-5, compute_efficiency=0.413, memory_efficiency=1.0, tile_cycles=1410, small_tile=0.113, overlap=0.0
)
"""Steps of recurrent layers on this very card: fitted to DeepBench's 53 forward times of the Radeon Vega FE, FP32
(at 90562649, whose command is gone; median |log ratio| 0.13). None of the paper's figures is in it."""

VEGA_PRODUCTS = KernelParameters(
    overhead=1.43e-5,
    compute_efficiency=0.644,
    memory_efficiency=0.816,
    tile_cycles=141,
    small_tile=0.143,
    overlap=0.359,
)
"""Matrix products on this very card: fitted to DeepBench's 160 of the Radeon Vega FE, FP32, in the same way (median
|log ratio| 0.11; 0.35 without; 0.13 with what the MI25's 160 give). No command repeats this fit today."""


def estimator() -> Any:
    """The GPU model that ships, one kernel after the other."""
    return ComposedEstimator(gpu_model(), Sequential(), "tiled roofline of a Vega FE")


@dataclass(frozen=True)
class TunedForTheCard(TiledRoofline):
    """Products by the tiles that are best on configuration #1: a library's table of sizes knows no other one."""

    def form(self, machine: Machine) -> Hashable:
        """Apart from that of a library which is tuned for each machine."""
        return "tuned for #1", super().form(machine)

    def formula(self, op: Op, machine: Machine) -> Formula:
        """As a tiled roofline, the tile chosen by the numbers of #1."""
        formula = super().formula(op, machine)
        if not isinstance(formula, MinOverConfigs) or op.kind != "gemm":
            return formula
        names = [name for name in formula.names if name.startswith("machine.")]
        known = {symbol(name): float(vega().get(name.removeprefix("machine."))) for name in names}
        return replace(formula, criterion=formula.expression.xreplace(known))


def gpu_model() -> TiledRoofline:
    """Tiles, waves and caches; recurrent steps and matrix products as DeepBench measured them on the card."""
    return TunedForTheCard(KERNELS.using(recurrent=VEGA_STEPS, gemm=VEGA_PRODUCTS))


def kernels(network: Network, length: int) -> dict[str, float]:
    """Seconds of each kernel in one training step on #1, of the networks as TensorFlow runs them symbol by symbol.

    A library has a kernel for each function, forward and backward, and of matrix products for each layout (which
    operand is transposed, batched or not) and tile: the one that the model's library picks for the product's sizes.
    """
    from slipstick.estimators.base.operation_model import amount_of, grouped, machine_values
    from slipstick.estimators.symbolic.formula import parameters
    from slipstick.estimators.symbolic.lambdified import evaluate

    bound = PROGRAM_OF[network]().bound({"batch": BATCH, "seq_len": length})
    gpu, model = vega(), estimator().operation
    fitted = {f"parameter.{name}": value for name, (value, _) in parameters(model).items()}
    result: dict[str, float] = {}
    for formula, indices in grouped(model, bound.operations, gpu):
        values: dict[str, Any] = {**fitted, **machine_values(formula, gpu)}
        for name in formula.names:
            if name.startswith("operation."):
                values[name] = np.array([float(amount_of(bound.operations[i], name)) for i in indices])
        seconds = np.broadcast_to(formula.evaluate(values), len(indices))
        picked = np.zeros(len(indices), dtype=np.int64)
        tiled = isinstance(formula, MinOverConfigs)
        if isinstance(formula, MinOverConfigs):
            menu = {name: np.array(column)[:, np.newaxis] for name, column in formula.menu.items()}
            rule = formula.expression if formula.criterion is None else formula.criterion
            picked = np.argmin(
                np.broadcast_to(evaluate(rule, {**values, **menu}), (len(next(iter(menu.values()))), len(indices))),
                axis=0,
            )
        for index, time, row in zip(indices, seconds, picked, strict=True):
            op = bound.operations[index]
            name = f"{_function(op)}.tile{row}" if tiled else _function(op)
            result[name] = result.get(name, 0.0) + float(time) * float(op.times)
    return {name: time for name, time in result.items() if time > 0}


def _function(op: Op) -> str:
    """What a library calls its kernel after: the function and direction, or the layout of a product."""
    if op.kind == "gemm":
        last = op.name.rpartition(".")[2]
        layout = "tn" if "backward_weight" in last else "nt" if "backward" in last else "nn"
        return f"{'batched_' if float(op.dims['batch']) > 1 else ''}gemm_{layout}"
    return ".".join(str(word) for word in (op.kind, op.attributes.get("function"), op.attributes.get("pass")) if word)
