"""The calibrated time of a step: which parameters, engine factors and band hold for a question, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

from slipstick.estimators.operation.serving.engines import ServingCalibration, engine_of
from slipstick.estimators.operation.serving.step_amounts import Shares
from slipstick.estimators.operation.serving.step_time import StepTime, widening
from slipstick.estimators.schedule.serving.scheduler import Scheduler
from slipstick.experiments.question.registry import CALIBRATIONS
from slipstick.hwmodels.files.readers import InputError, read_json, require_mapping, unknown_name
from slipstick.hwmodels.files.shown import format_quantity
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import CACHE_BYTES, weight_type

MEMORY_SHARE = 0.9
"""Of a device's memory that engines take (vLLM: gpu_memory_utilization)."""
CONTEXT_BYTES = 666e6
"""Of the engine's context and its libraries, on each device; with `_work_bytes` it gives the 2,588 blocks of 16 tokens
that vLLM 0.19 found on an RTX 4090 with Llama-3.1-8B (casys-kaist/LLMServingSim, 5daddb2): one figure, one constant."""
LOGIT_COPIES = 3
UNKNOWN_SYSTEM, OTHER_MAKER = 1.15, 2.0
"""How much wider the band of a machine is that no measured row was made on: of the maker of those that were (NVIDIA),
and of another (MI300X reaches 0.7 of what its data sheet promises beside an H200, MLPerf v5.1, Llama-2-70B Offline)."""


@cache
def serving_calibration() -> ServingCalibration:
    """The calibration that ships."""
    path = CALIBRATIONS / "serving.json"
    return ServingCalibration.from_dict(require_mapping(read_json(path), path, "the document"), path)


@dataclass(frozen=True)
class Deployment:
    """A model on devices of a machine under an engine.

    Parameters
    ----------
    stored
        How weights are stored (`weight_types.WEIGHT_TYPES`).
    cache_type
        The data type of the cache of keys and values.
    engine
        As a runtime's library says it: "vllm 0.19.0".
    memory_share
        Of each device's memory that the engine takes.
    """

    model: LanguageModel
    machine: Machine
    layout: Layout
    stored: str
    cache_type: str = "bf16"
    engine: str = "vllm"
    memory_share: float = MEMORY_SHARE
    rules: Scheduler = Scheduler()

    def __post_init__(self) -> None:
        if self.cache_type not in CACHE_BYTES:
            raise unknown_name("type of cache", self.cache_type, list(CACHE_BYTES))
        if not 0 < self.memory_share <= 1:
            raise InputError(f"share of memory = {self.memory_share:g}: want more than 0, at most 1")

    @property
    def kind(self) -> str:
        """ "dense" or "experts": what the calibration distinguishes."""
        return "experts" if self.model.experts else "dense"

    @cached_property
    def shares(self) -> Shares:
        """What a rank holds."""
        return Shares(self.model, self.layout, weight_type(self.stored), CACHE_BYTES[self.cache_type])

    @cached_property
    def step(self) -> StepTime:
        """The calibrated time of a step."""
        calibration = serving_calibration()
        engine, version = engine_of(self.engine)
        pace = calibration.pace(engine, version, self.system, self.kind)
        return StepTime.for_machine(self.machine, self.shares, calibration.parameters, pace)

    @property
    def system(self) -> str:
        """The calibration's name of the machine: that of a measured system with the same cores and memory, if any."""
        from slipstick.hwmodels.catalog import machine

        for name in serving_calibration().systems:
            measured = machine(name)
            if (measured.cores, measured.main_memory) == (self.machine.cores, self.machine.main_memory):
                return name
        return ""

    def half_width(self, first: int = 0) -> float:
        """Half of the 80 % band of log time: of a further token, or (`first` = 1) of the first."""
        calibration = serving_calibration()
        widths = calibration.first_half_width if first else calibration.half_width
        system = UNKNOWN_SYSTEM if self.machine.family.startswith("nvidia") else OTHER_MAKER
        return widths[self.kind] * (1.0 if self.system else system)

    @cached_property
    def cache_tokens(self) -> int:
        """Tokens that the caches of one replica hold, all its groups together.

        Raises
        ------
        InputError
            Where the weights alone do not fit.
        """
        device, shares = self.step.device, self.shares
        usable = self.memory_share * device.capacity
        left = usable - shares.held_bytes - CONTEXT_BYTES - self._work_bytes
        blocks = int(left // (shares.token_cache_bytes * self.rules.block)) if shares.token_cache_bytes else 10**9
        if blocks < 1:
            raise InputError(
                f"{self.model.name} ({self.stored}) does not fit {self.machine.name} with {self.layout.text()}: "
                f"{format_quantity(shares.held_bytes, 'byte')} of weights a device and "
                f"{format_quantity(CONTEXT_BYTES + self._work_bytes, 'byte')} beside them, "
                f"{format_quantity(usable, 'byte')} usable of {format_quantity(device.capacity, 'byte')}; "
                "use more devices, a larger tensor degree or a smaller type of weights"
            )
        return blocks * self.rules.block * self.layout.data

    @property
    def _work_bytes(self) -> float:
        """Bytes of a step's activations and scores on one rank."""
        m, tensor = self.model, self.layout.tensor
        inner = max(m.feed_forward, m.experts.per_token * m.experts.feed_forward if m.experts else 0) / tensor
        scores = LOGIT_COPIES * 4.0 * self.rules.max_sequences * m.vocabulary / tensor
        return self.rules.token_budget * m.matrices * inner * 2 + scores

    @property
    def scheduler(self) -> Scheduler:
        """The rules with the cache that memory leaves."""
        return replace(self.rules, cache_tokens=self.cache_tokens)

    def assumptions(self) -> tuple[str, ...]:
        """What an answer takes for granted; shown first."""
        engine, version = engine_of(self.engine)
        calibration = serving_calibration()
        known = calibration.knows(engine, version, self.kind)
        words = [
            f"{engine} {version}".strip() + ("" if known else _unknown(version)),
            f"weights {self.stored}, cache {self.cache_type}",
            self.layout.text(),
        ]
        if widened := widening(self.machine, self.step.shares.kind.compute):
            words.append(widened)
        return (*words, "speculative decoding off, prefix hits as stated")

    def remarks(self) -> tuple[str, ...]:
        """Where the question leaves the measured runs: a line for each way."""
        if self.system:
            return ()
        return (f"no measured row is of {self.machine.name}: its data sheet under parameters of others, wider band",)


def _unknown(version: str) -> str:
    return " (version not among those measured)" if version else " (no version given)"
