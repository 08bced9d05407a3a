"""Measured serving rows (`serving/silicon.csv.gz`): what each ran, on what, and what can be predicted for it.

`serving/silicon_speculation.csv` beside them says of some rows whether they ran speculative decoding, and gives the
medians of their times where the rows hold means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from slipstick.common.errors import InputError
from slipstick.common.readers import read_csv_rows
from slipstick.estimators.serving.batching.closed_loop import Load
from slipstick.hwmodels.catalog import machine, machine_names, name_of_device
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language_catalog import language_model, shipped_name

MACHINES = {
    "gb200_sxm": "gb200", "gb300_sxm": "gb300", "a100_sxm": "a100-sxm-80gb", "h20": "h20-sxm", "h800": "h800-sxm",
}  # fmt: skip
"""Systems whose name is not the machine's with dashes."""
COLUMNS = (
    "system", "engine", "engine_version", "model_key", "precision", "mode", "input_tokens", "output_tokens",
    "concurrency", "gpus", "tp_size", "pp_size", "attention_dp_size", "moe_ep_size", "ttft_s", "tpot_s", "source",
    "repeat_group", "suspicious",
)  # fmt: skip
DASHBOARD_SPREAD = 0.2
"""The public dashboard draws lengths uniformly from 0.8-1.0 x nominal."""
SPECULATION = "silicon_speculation.csv"
QUEUE_SECONDS = 30.0
LONGEST_SECONDS = 1e6
MOST_TOKENS = 1e9
UNRECORDED = "unrecorded"
"""The version of rows that state none: a group of its own in the fit, not a user's."""


@dataclass(frozen=True)
class SiliconCase:
    """One measured row that can be evaluated."""

    model: LanguageModel
    machine: Machine
    system: str
    layout: Layout
    stored: str
    engine: str
    version: str
    load: Load
    spread: float
    ttft: float
    tpot: float
    doubt: str
    precision: str
    speculative: bool | None
    source: str = "silicon"

    def __post_init__(self) -> None:
        """Raises ValueError where a time or a length is none that can be scored."""
        if not max(self.load.input_tokens, self.load.output_tokens) < MOST_TOKENS:
            raise ValueError(f"lengths of prompt and answer: want less than {MOST_TOKENS:,.0f} tokens")
        for name, seconds in (("ttft_s", self.ttft), ("tpot_s", self.tpot)):
            if not 0 < seconds < LONGEST_SECONDS:
                raise ValueError(f"{name} = {seconds:g} s: want more than 0 and less than {LONGEST_SECONDS:,.0f}")

    @property
    def kind(self) -> str:
        """ "dense" or "experts"."""
        return "experts" if self.model.experts else "dense"

    @property
    def machine_name(self) -> str:
        """Its machine in the catalogue."""
        return _machine_name(self.system)

    @property
    def scored(self) -> bool:
        """Whether its label is free of doubt, and precision and speculation are known: DeepSeek's often speculates.

        Only such rows are fitted as well.
        """
        return self._plain and (self.speculative is False or (self.speculative is None and not self._speculates))

    @property
    def may_speculate(self) -> bool:
        """Whether nothing but what nobody recorded keeps its label from being scored."""
        return self._plain and self.speculative is None and self._speculates

    @property
    def _plain(self) -> bool:
        known = bool(self.precision) or self.model.name.startswith("qwen3.5")
        return not self.doubt and known and self.ttft < QUEUE_SECONDS

    @property
    def _speculates(self) -> bool:
        return self.model.name.startswith("deepseek")

    @property
    def means(self) -> bool:
        """Whether its times are means over requests: of rows whose medians are not known besides."""
        return self.speculative is None

    @property
    def family(self) -> str:
        """What the fit counts as one source of rows."""
        return f"{self.model.name} {self.engine} {self.version} {self.system} {self.stored}"

    @property
    def per_gpu(self) -> float:
        """Measured output tokens a second a GPU."""
        seconds = self.ttft + self.tpot * (self.load.output_tokens - 1)
        return self.load.users * self.load.output_tokens / seconds / self.layout.devices


def read_cases(path: Path) -> tuple[list[SiliconCase], dict[str, int]]:
    """The rows of a file that can be evaluated, and how many cannot, by reason.

    Raises InputError where a line cannot be read; names it.
    """
    cases, refused = [], dict[str, int]()
    beside = path.with_name(SPECULATION)
    columns = ("id", "speculative", "tpot_median_s", "ttft_median_s")
    known = {row["id"]: row for _, row in read_csv_rows(beside, columns)} if beside.exists() else {}
    for line, row in read_csv_rows(path, COLUMNS):
        try:
            cases.append(_case(row, known.get(row.get("id", ""))))
        except InputError as error:
            reason = str(error)
            refused[reason] = refused.get(reason, 0) + 1
        except (ValueError, OverflowError) as error:
            raise InputError(f"{path}: line {line}: {error}") from None
    return cases, refused


def _case(row: dict[str, str], known: dict[str, str] | None) -> SiliconCase:
    if row["mode"] != "agg":
        raise InputError("pools apart are scored where workers are counted")
    if not row["concurrency"]:
        raise InputError("no concurrency")
    model, at = model_named(row["model_key"]), machine_of_system(row["system"])
    gpus, tensor, data = int(row["gpus"]), _degree(row["tp_size"]), _degree(row["attention_dp_size"])
    pipeline = _degree(row["pp_size"])
    if gpus < 1:
        raise ValueError(f"gpus = {gpus}: want at least 1")
    if tensor * data * pipeline < gpus:  # the expert degrees say more than the tensor degree of these rows
        tensor = gpus // (data * pipeline)
    layout = Layout(tensor, pipeline, data, _degree(row["moe_ep_size"]) if model.experts else 1)
    public = row["source"] == "public_dashboard"
    mean = 1 - DASHBOARD_SPREAD / 2 if public else 1.0
    load = Load(float(row["input_tokens"]) * mean, float(row["output_tokens"]) * mean, int(float(row["concurrency"])))
    ttft, tpot = (row["ttft_s"], row["tpot_s"]) if known is None else (known["ttft_median_s"], known["tpot_median_s"])
    return SiliconCase(
        model, at, row["system"], layout, stored_in(model, row["precision"]), row["engine"],
        row["engine_version"] or UNRECORDED, load,
        DASHBOARD_SPREAD if public else 0.0, float(ttft), float(tpot),
        row["suspicious"], row["precision"], None if known is None else known["speculative"] == "1",
    )  # fmt: skip


def stored_in(model: LanguageModel, precision: str) -> str:
    """The type of weights: gpt-oss is labelled fp4 and has MXFP4 experts; four bits are those of experts.

    Raises InputError where the precision is none that is known.
    """
    if model.weights == "mxfp4":
        return "mxfp4"
    if precision == "fp4":
        return "nvfp4_experts" if model.experts else "nvfp4"
    if precision == "int4":
        return "int4_experts" if model.experts else "int4"
    if precision == "fp8" and model.experts:
        return "fp8_block"
    stored = {"fp8": "fp8", "bf16": "bf16", "": "bf16", "fp16": "fp16"}
    if precision not in stored:
        raise InputError(f"precision {precision}: want fp4, int4, {', '.join(filter(None, stored))}")
    return stored[precision]


def _degree(text: str) -> int:
    return max(1, int(float(text))) if text else 1


def _machine_name(system: str) -> str:
    name = MACHINES.get(system, system.replace("_", "-"))
    return name if name in machine_names() else name_of_device(system.replace("_", " ")) or name


@cache
def machine_of_system(system: str) -> Machine:
    """The machine of the catalogue for a system of the table.

    Raises InputError where there is none.
    """
    name = _machine_name(system)
    if name not in machine_names():
        raise InputError(f"system {system}: no machine here")
    return machine(name)


def model_named(key: str) -> LanguageModel:
    """The shipped model of a published name.

    Raises InputError where no configuration of it ships.
    """
    if (name := shipped_name(key)) is None:
        raise InputError(f"model {key}: no configuration here")
    return language_model(name)


def scored(cases: list[SiliconCase], kind: str | None = None) -> Iterator[SiliconCase]:
    """Cases without doubt, of one kind."""
    return (case for case in cases if case.scored and kind in (None, case.kind))
