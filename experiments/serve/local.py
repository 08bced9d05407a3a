"""One user's model on one's own machine under llama.cpp: tokens/s of generation and prompt, with bands and anchors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from slipstick.estimators.operation.serving.known_steps import (
    engine_on,
    is_llama_cpp,
    local_fit,
    local_groups_on,
    names_server,
)
from slipstick.estimators.operation.serving.local_step import LocalFit, LocalWork, backend_of
from slipstick.experiments.serve.measured_runs import generation, model_of_size
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.files.shown import count_shown, format_quantity, shown
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.importers.serving.llama_bench import read_llama_bench
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.weight_types import in_gguf, is_gguf, stored_as, weight_bytes, weight_type
from slipstick.workloads.language_catalog import language_model

DEFAULT_TYPE = "q4_k_m"


@dataclass(frozen=True)
class AnchorRun:
    """One run on the same machine: a model, its type of weights, and measured tokens/s of generation."""

    model: LanguageModel
    stored: str
    rate: float

    @classmethod
    def of_file(cls, path: str) -> AnchorRun:
        """From the generation that llama-bench measured (its JSON, JSON lines or CSV).

        Raises
        ------
        InputError
            Where the file is none of these, generates nothing, or its model or type of weights is not known here.
        """
        run = generation(read_llama_bench(Path(path)))
        if run is None:
            raise InputError(f"{path}: no test generates tokens alone (llama-bench -n 128)")
        name = model_of_size(run.parameters)
        if name is None:
            raise InputError(f"{path}: {run.model!r} of {run.parameters:,} parameters is no model that is known here")
        model = language_model(name)
        return cls(model, in_gguf(stored_as(model, run.stored or DEFAULT_TYPE)), run.rate)

    @classmethod
    def parse(cls, text: str) -> AnchorRun:
        """From "MODEL:TYPE=TOKENS_PER_S", such as "llama-3.1-8b:q4_k_m=103", or the path of a file of llama-bench.

        Raises
        ------
        InputError
            Where it is none.
        """
        if "=" not in text and Path(text).is_file():
            return cls.of_file(text)
        left, equals, value = text.rpartition("=")
        name, _, dtype = left.partition(":")
        try:
            rate = float(value)
        except ValueError:
            rate = math.nan
        if not equals or not name or not 0 < rate < 1e6:
            raise InputError(
                f"anchor {text[:60]!r}: want MODEL:TYPE=TOKENS_PER_S, such as llama-3.1-8b:q4_k_m=103, or "
                "a file of llama-bench"
            )
        model = language_model(name)
        return cls(model, in_gguf(stored_as(model, dtype or DEFAULT_TYPE)), rate)


@dataclass(frozen=True)
class Local:
    """A model on a machine for one user."""

    model: LanguageModel
    machine: Machine
    stored: str
    input_tokens: int = 1024
    output_tokens: int = 256
    anchor: AnchorRun | None = None

    @cached_property
    def backend(self) -> str:
        """Of llama.cpp."""
        return backend_of(self.machine)

    @property
    def fitted(self) -> bool:
        """Whether rows of the backend were fitted."""
        return self.backend in local_fit().made.seen("backend")

    def groups(self, stored: str) -> dict[str, str]:
        """By what the fitted numbers vary."""
        return local_groups_on(self.machine, stored)

    @cached_property
    def law(self) -> LocalFit:
        """What was fitted, moved by the one run that is known."""
        if self.anchor is None:
            return local_fit()
        known = self.anchor
        work = LocalWork.of(known.model, weight_type(known.stored), self.machine)
        return local_fit().with_known(work, self.groups(known.stored), 1 / known.rate)

    @cached_property
    def _seconds(self) -> tuple[float, float]:
        work = LocalWork.of(self.model, weight_type(self.stored), self.machine)
        fitted = self.law.parameters(self.groups(self.stored))
        generation = float(fitted.generation(work.memory, work.layers, work.plain))
        return generation, float(fitted.prompt(work.matrix, work.plain))

    @cached_property
    def floor(self) -> float:
        """The least seconds of a new token: the weights once over the bandwidth."""
        return LocalWork.of(self.model, weight_type(self.stored), self.machine).memory

    @cached_property
    def prompt_floor(self) -> float:
        """The least seconds of a prompt's token: its flop at the peak."""
        return LocalWork.of(self.model, weight_type(self.stored), self.machine).matrix

    @property
    def token_seconds(self) -> float:
        """Seconds of a new token with little in the cache."""
        return max(self.floor, self._seconds[0])

    @property
    def prompt_seconds(self) -> float:
        """Seconds of one token of a prompt."""
        return self._seconds[1]

    def half_width(self, prompt: int = 0) -> float:
        """Half of the 80 % band of log time: wider the less of the machine was measured."""
        work = LocalWork.of(self.model, weight_type(self.stored), self.machine)
        return self.law.half_width(work, self.groups(self.stored), prompt)

    @property
    def weights_bytes(self) -> float:
        """Bytes of the file."""
        return weight_bytes(self.model, weight_type(self.stored))

    def check(self) -> None:
        """Check that weights and cache fit the machine's memory.

        Raises
        ------
        InputError
            Where they do not.
        """
        capacity = self.machine.memory[self.machine.main_memory].capacity
        needed = self.weights_bytes + self.model.cache_bytes() * (self.input_tokens + self.output_tokens)
        if capacity is not None and needed > capacity:
            raise InputError(
                f"{self.model.name} ({self.stored}) needs {format_quantity(needed, 'byte')} with its cache, "
                f"{self.machine.name} has {format_quantity(float(capacity), 'byte')}: use a smaller type of weights"
            )

    def row(self) -> dict[str, Any]:
        """The figures, rates with their 80 % bands."""
        rate, width = 1 / self.token_seconds, math.exp(self.half_width())
        prompt, prompt_width = 1 / self.prompt_seconds, math.exp(self.half_width(prompt=1))
        ttft = self.prompt_seconds * self.input_tokens + self.token_seconds
        return {
            "model": self.model.name,
            "machine": self.machine.name,
            "weights": self.stored,
            "backend": self.backend,
            "output_tokens_per_s": rate,
            "low_tokens_per_s": rate / width,
            "high_tokens_per_s": min(rate * width, 1 / self.floor),
            "prompt_tokens_per_s": prompt,
            "prompt_low_tokens_per_s": prompt / prompt_width,
            "prompt_high_tokens_per_s": min(prompt * prompt_width, 1 / self.prompt_floor),
            "ttft_s": ttft,
            "latency_s": ttft + self.token_seconds * (self.output_tokens - 1),
            "weight_bytes": self.weights_bytes,
        }

    def lines(self) -> list[str]:
        """The first lines of the answer."""
        row = self.row()
        fitted = "" if self.fitted else " (no measured row of this backend: expected figures, a wide band)"
        anchored = ""
        if self.anchor:
            anchored = f"; anchored to {self.anchor.model.name} {self.anchor.stored} at {self.anchor.rate:g} tokens/s"
        held = format_quantity(self.weights_bytes, "byte")
        return [
            f"{self.model.name} on {self.machine.name}: {count_shown(row['output_tokens_per_s'])} tokens/s "
            f"(80 %: {count_shown(row['low_tokens_per_s'])} .. {count_shown(row['high_tokens_per_s'])})",
            f"prompt: {count_shown(row['prompt_tokens_per_s'])} tokens/s "
            f"(80 %: {count_shown(row['prompt_low_tokens_per_s'])} .. {count_shown(row['prompt_high_tokens_per_s'])}); "
            f"for a prompt of {self.input_tokens:,} the first token comes after {shown(row['ttft_s'], 's')}, "
            f"the last of {self.output_tokens:,} after {shown(row['latency_s'], 's')}",
            f"memory: fits, {held} of weights; at most {count_shown(1 / self.floor)} tokens/s by bandwidth alone",
            f"assuming: llama.cpp on {self.backend}{fitted}, one sequence, weights {self.stored}{anchored}",
        ]


def local(
    model: str, machine: Machine, dtype: str | None, input_tokens: int, output_tokens: int, anchor: str | None
) -> Local:
    """The answer for one user's machine.

    Raises
    ------
    InputError
        Where the model does not fit, or the anchor is none.
    """
    one = language_model(model)
    published = dtype is None and is_gguf(in_gguf(one.weights))
    stored = in_gguf(one.weights if published else stored_as(one, dtype or DEFAULT_TYPE))
    known = AnchorRun.parse(anchor) if anchor else None
    if known is not None:
        _require_possible(known, machine)
    result = Local(one, machine, stored, input_tokens, output_tokens, known)
    result.check()
    return result


def local_engine(model: str, on: str, dtype: str | None, changes: Mapping[str, str | float]) -> str | None:
    """llama.cpp, as the runtime calls it, where one user of the machine would run the model under it; else None.

    Parameters
    ----------
    changes
        Numbers of the machine by dotted name, in SI units or with units as text.
    """
    at = machine_by_name(on).using(dict(changes))
    if is_llama_cpp(at.runtime.library):
        return at.runtime.library
    if names_server(at):
        return None
    engine = engine_on(at, stored_as(language_model(model), dtype))
    return engine if is_llama_cpp(engine) else None


def _require_possible(anchor: AnchorRun, machine: Machine) -> None:
    """Refuses a measured rate above what the bandwidth allows; a tenth more, for data sheets round."""
    most = 1 / LocalWork.of(anchor.model, weight_type(anchor.stored), machine).memory
    if anchor.rate > 1.1 * most:
        raise InputError(
            f"anchor {anchor.model.name} {anchor.stored} at {anchor.rate:g} tokens/s: {machine.name} reads its weights "
            f"at most {most:.4g} times a second; was it measured on another machine?"
        )
