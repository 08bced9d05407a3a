"""Which machine, how many, laid out how, at what load: layouts searched in closed form, the front, the cheapest.

A candidate of a serving plan, and how sure it is that one machine serves for fewer dollars than another.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from slipstick.common.answer import Answer, AnswerTable, Provenance
from slipstick.common.columns import RATE, SHARE, Column
from slipstick.common.errors import InputError
from slipstick.common.formatting import count_shown, money_shown, share_shown, shown
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.conditions import Condition, conditions_lines, depends_on, remarks_of
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.base.sureness import sure_row, sure_shown, verdict_text, within_near
from slipstick.estimators.engine_steps.measured_steps import TimedServerStep, cached_measured, engine_of_steps
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.power.facility import price_text
from slipstick.estimators.serving.batching.closed_loop import Load, steady
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.deployment import MEMORY_SHARE, Deployment
from slipstick.estimators.serving.server_config import DEGREES, GUESSED, RULES, deployment_of, laid_out
from slipstick.estimators.serving.serving_answer import serve
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.experiments.serve.serving_text import overload
from slipstick.experiments.serve.slo_limits import limits_text
from slipstick.experiments.serve.user_runs import steps_of_runs
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.language_model import LanguageModel
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language.weight_types import AUTO, stored_as
from slipstick.workloads.language_catalog import language_model
from slipstick.workloads.runs.traffic import Traffic, users_shown


@dataclass(frozen=True)
class EngineBatch:
    """What the steps of a deployment work on."""

    deployment: Deployment
    batch: Batch

    def half_width_over(self, other: EngineBatch) -> float:
        """Half of the 80 % band of the log ratio of both steps: what one law misses alike in both cancels."""
        fitted = self.deployment.fitted
        ours, theirs = ((one.deployment.sum_of(one.batch), one.deployment.groups) for one in (self, other))
        return fitted.ratio_half_width(ours, theirs)


@dataclass(frozen=True)
class ServingChoice:
    """One layout on one machine under one load, in the steady closed loop.

    `ttft`, `tpot`: the median time to the first token and the mean one of a further token, seconds.
    `users`: requests in flight at one replica.
    `per_device`, `per_user`: output tokens a second.
    `keeps`: probability that these times keep all limits, were the limits' errors one (the least over the limits).
    `dollars`: a million output tokens; None where the machine's price is not stated.
    `served`: what its steps work on, for comparisons with others.
    """

    machine: str
    layout: Layout
    stored: str
    users: int
    ttft: float
    tpot: float
    per_device: float
    per_user: float
    keeps: float
    half_width: float
    dollars: float | None
    served: EngineBatch | None = field(default=None, repr=False, compare=False)

    def text(self) -> str:
        """As people say it."""
        return f"{self.layout.devices} x {self.machine}, {self.layout.text()}, {self.stored}, {users_shown(self.users)}"

    @property
    def band(self) -> tuple[float, float]:
        """Ends of the 80 % band of tokens/s a device."""
        width = math.exp(self.half_width)
        return self.per_device / width, self.per_device * width

    def row(self) -> dict[str, Any]:
        """As a row of a table."""
        low, high = self.band
        return {
            "machine": self.machine,
            "devices": self.layout.devices,
            "layout": self.layout.text(),
            "weights": self.stored,
            "users": self.users,
            "ttft_s": self.ttft,
            "tpot_s": self.tpot,
            "tokens_per_s_per_device": self.per_device,
            "low": low,
            "high": high,
            **sure_row(within_near(self.per_device, low, high)),
            "tokens_per_s_per_user": self.per_user,
            "keeps_limits": self.keeps,
            "cost_usd_per_million_tokens": self.dollars,
        }


def chance_cheaper(one: ServingChoice, other: ServingChoice) -> float | None:
    """Probability that a layout costs less a token than another; None where a price is not stated.

    Prices are taken as given. Errors of log rate are normal, those of one posterior: parameters and effects that both
    machines share cancel, effects of a machine that nobody measured do not.
    """
    from scipy.special import ndtr

    if not (one.dollars and other.dollars and one.served and other.served):
        return None
    spread = one.served.half_width_over(other.served) / quantile(DEFAULT_LEVEL, None)
    return float(ndtr(math.log(other.dollars / one.dollars) / spread))


def cheaper_lines(best: ServingChoice, others: Sequence[ServingChoice]) -> list[str]:
    """For each other machine a line: its cheapest layout, and how sure it is that the best one costs less."""
    lines = []
    for name in dict.fromkeys(one.machine for one in others if one.machine != best.machine):
        rival = min((one for one in others if one.machine == name), key=lambda one: one.dollars or math.inf)
        sure = chance_cheaper(best, rival)
        if sure is not None and rival.dollars is not None:
            cost = f"{money_shown(rival.dollars)} a million tokens"
            lines.append(f"cheaper than {rival.text()} at {cost}: {sure_shown(sure)} sure")
    return lines


CLOSE = 0.8
"""A stream needs at least this share of the copies that the fastest closed loop says."""
SURE = 0.9
"""With which probability a plan keeps its limits."""
LOADS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
RANKS = (1, 2, 4, 8, 16)


PLAN = (
    Column("ttft_s", "first token", "s", better="less"),
    Column("tpot_s", "further token", "s", better="less"),
    Column("front", "pick"),
    Column("tokens_per_s_per_user", "tokens/s a user", RATE, better="more"),
    Column("tokens_per_s_per_device", "a device", RATE, better="more"),
    Column("low", "a device", RATE, "high"),
    Column("keeps_limits", "keeps", SHARE, better="more"),
    Column("cost_usd_per_million_tokens", "$/Mtoken", better="less"),
)
"""Columns of a plan."""
RATES = ("tokens_per_s_per_user", "tokens_per_s_per_device")
SHOWN = ("machine", "front", "layout", "weights", "users", "ttft_s", "tpot_s", *RATES)


@dataclass(frozen=True, repr=False)
class Plan(Answer):
    """All candidates, the front of each machine, and the cheapest that keeps the limits with 90 % probability."""

    model: str
    limits: FrozenDict[float]
    traffic: str
    candidates: tuple[ServingChoice, ...]
    refused: FrozenDict[int]
    remarks: tuple[str, ...] = ()
    """What makes the band of a machine wider, each with its factor."""
    priced: FrozenDict[str] = FrozenDict()
    """The price of a device's hour by machine, with its source and age; "" where it is not known."""
    measured: tuple[str, ...] = ()
    """What measured steps and runs of one's own changed."""
    rate: float | None = None
    """Requests/s of the stream for which copies were counted."""
    sized: ServingChoice | None = None
    """The fewest devices that keep the limits under it; users are those in flight at one copy, on average."""

    @property
    def sure(self) -> tuple[ServingChoice, ...]:
        """Candidates that keep the limits with 90 % probability."""
        return tuple(c for c in self.candidates if c.keeps >= SURE)

    @property
    def provenance(self) -> Provenance:
        """ "calibrated" where steps were measured, or runs of a server."""
        return "calibrated" if any(c.served and c.served.deployment.known for c in self.candidates) else "estimated"

    @property
    def front(self) -> tuple[ServingChoice, ...]:
        """Candidates of each machine that no other of it beats in tokens/s a device and a user."""
        kept: list[ServingChoice] = []
        for name in dict.fromkeys(c.machine for c in self.candidates):
            best = -math.inf
            candidates = (c for c in self.candidates if c.machine == name)
            for candidate in sorted(candidates, key=lambda c: (-c.per_user, -c.per_device)):
                if candidate.per_device > best:
                    kept.append(candidate)
                    best = candidate.per_device
        return tuple(kept)

    @property
    def best(self) -> ServingChoice | None:
        """Least dollars a token where prices are known, else most tokens/s a device; None where none is sure."""
        if not self.sure:
            return None
        if self.in_dollars:
            return min(self.sure, key=lambda c: c.dollars or math.inf)
        return max(self.sure, key=lambda c: c.per_device)

    @property
    def in_dollars(self) -> bool:
        """Whether every sure candidate has a price, without which dollars cannot choose."""
        return all(c.dollars is not None for c in self.sure)

    def text(self) -> str:
        """The question."""
        kept = f"{limits_text(self.limits)} with {100 * SURE:.0f} % probability" if self.limits else "no limits"
        return f"{self.traffic}; {kept}"

    def rows(self) -> list[dict[str, Any]]:
        """The front, machines in order, most tokens/s a user first; then the pick, where it lies inside."""
        inside = [] if self.best is None or self.best in self.front else [self.best]
        return [{**c.row(), "front": c == self.best} for c in [*self.front, *inside]]

    def document(self) -> list[dict[str, Any]]:
        """The pick, the front, and how many layouts were left out, by reason."""
        best, front = self.best.row() if self.best else None, [candidate.row() for candidate in self.front]
        sized = {"rate": self.rate, "sized": self.sized.row() if self.sized else None} if self.rate else {}
        counts = {"refused": dict(self.refused), "candidates": len(self.candidates)}
        return [{"best": best, "front": front, **counts, **sized}]

    @property
    def heads(self) -> tuple[str, ...]:
        """The question, the result, the pick."""
        left = f"{sum(self.refused.values())} layouts left out (they do not fit)"
        lines = [
            f"serving {self.model}: {self.text()}",
            f"{len(self.candidates)} layouts and loads answered, {left}",
            *(f"note: {text}" for text in self.measured),
        ]
        if self.rate is not None:
            lines.append(self._sized_line(self.rate))
        best = self.best
        if best is None:
            nearest = max(self.candidates, key=lambda c: c.keeps)
            lines.append(f"none keeps {limits_text(self.limits)} with {share_shown(SURE)} probability")
            return (*lines, f"nearest: {nearest.text()} ({share_shown(nearest.keeps)})")
        unpriced = ", ".join(name for name, text in self.priced.items() if not text)
        why = "least dollars a token" if self.in_dollars else f"most tokens/s a device; no price of {unpriced}: --price"
        figures = f"first token {shown(best.ttft, 's')}, further token {shown(best.tpot, 's')}"
        figures += f", {count_shown(best.per_device)} tokens/s a device"
        figures += verdict_text(within_near(best.per_device, *best.band))
        if best.dollars is not None:
            figures += f", {money_shown(best.dollars)} a million tokens"
        lines += [f"pick ({why}): {best.text()}", f"{figures}{self._kept(best)}"]
        lines += cheaper_lines(best, self.sure)
        lines += [f"price of {name}: {text}" for name, text in self.priced.items() if text]
        most = sorted(self.refused.items(), key=lambda item: -item[1])[:2]
        return (*lines, *(f"left out: {reason} ({count} layouts)" for reason, count in most))

    def _sized_line(self, rate: float) -> str:
        one, head = self.sized, f"for {rate:g} requests/s"
        if one is None:
            return f"{head}: no number of copies was found that keeps {limits_text(self.limits) or 'up'}"
        times = f"first token {shown(one.ttft, 's')}, further token {shown(one.tpot, 's')}"
        return (
            f"{head}, as simulated: {one.layout.devices} x {one.machine}, {one.layout.text()}, {one.stored}; {times}, "
            f"{users_shown(one.users)} at a copy{self._kept(one)}"
        )

    def _kept(self, one: ServingChoice) -> str:
        return f"; limits kept with {share_shown(one.keeps)} probability" if self.limits else ""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What the pick depends on; where none is sure, the first candidate."""
        served = (self.best or self.candidates[0]).served
        return served.deployment.conditions if served else ()

    @property
    def depends(self) -> Mapping[str, Sequence[Mapping[str, object]]]:
        """Conditions of the pick; what is given here is read, or refused."""
        return depends_on(self.conditions, ())

    @property
    def notes(self) -> tuple[str, ...]:
        """Conditions, which first token is meant, how many requests run together, what is guessed where tokens are."""
        mine = remarks_of(self.conditions)
        lines = [*conditions_lines(self.conditions), *(f"wider: {text}" for text in self.remarks if text not in mine)]
        lines += ["first token: the median of a settled closed loop; the mean of `serve` also counts its beginning"]
        best, served = self.best, self.candidates[0].served
        together = math.ceil(best.users / best.layout.data) if best else 0
        if together > Scheduler().max_num_seqs:
            lines.append(
                f"the pick runs {together} requests together on a rank: serve --max-num-seqs {together} simulates it, "
                "and the server's own limit must allow it (vLLM: --max-num-seqs)"
            )
        every = [c.served.deployment for c in self.candidates if c.served]
        assumed = dict.fromkeys([d.model.stands_for for d in every] + [d.cached for d in every if d.cache[1]])
        lines += [f"assuming: {text}" for text in assumed if text]
        if served is not None and served.deployment.guesses is not None:
            lines.append(f"assuming: {served.deployment.guessed}")
        return tuple(lines)

    @property
    def shown(self) -> tuple[str, ...]:
        """Columns of limits and of prices only where there are some."""
        limited = ("keeps_limits",) if self.limits else ()
        priced = ("cost_usd_per_million_tokens",) if any(one.dollars is not None for one in self.front) else ()
        return (*SHOWN, *limited, *priced, "low", "high")

    def tables(self) -> tuple[AnswerTable, ...]:
        """The layouts, the pick marked."""
        (table,) = super().tables()
        return (replace(table, rows=[{**row, "front": "*" if row["front"] else ""} for row in table.rows]),)

    def to_frame(self) -> Any:
        """All candidates, one row each."""
        import pandas as pd

        return pd.DataFrame([c.row() for c in self.candidates])

    @property
    def declared(self) -> tuple[Column, ...]:
        """Rates with the band of that of a device, dollars where prices are known."""
        return PLAN


def _short(reason: str) -> str:
    """Why a layout cannot serve, without the model's name, what stands in brackets, and advice."""
    plain = re.sub(r" \([^()]*\)", "", reason.partition(": ")[2] or reason)
    return plain.partition(";")[0]


@dataclass(frozen=True)
class Search:
    """What to search.

    `machines`, `types`: by name; a type of weights of None is the model file's.
    `devices`: at most so many for one replica.
    `prices`: dollars an hour of one device by machine, over the catalogue's.
    `known`: measured on the one machine: a CSV of steps (`read_measured_steps`), a server's benchmark, or the time of a
        further token with its load ("23.4ms@concurrency=16,tp=2").
    `guesses`: of speculative decoding: draft_tokens, acceptance, draft_cost (`server_run.GUESSED`: none).
    `rate`: requests/s of the stream that copies of a replica are to serve; None: no copies are counted.
    """

    model: str
    machines: tuple[str, ...]
    types: tuple[str | None, ...] = (None,)
    input_tokens: float = 1024.0
    output_tokens: float = 256.0
    devices: int = 8
    engine: str = ""
    cache_type: str = AUTO
    limits: FrozenDict[float] = FrozenDict()
    prices: FrozenDict[float] = FrozenDict()
    max_batched_tokens: int = 8192
    known: str | None = None
    guesses: FrozenDict[float] = GUESSED
    memory_share: float = MEMORY_SHARE
    rate: float | None = None

    def run(self) -> Plan:
        """Every layout under every load.

        Raises InputError where nothing fits at all (the reasons are listed).
        """
        model = language_model(self.model)
        if self.known is not None and len(self.machines) > 1:
            raise InputError(f"{self.known}: measured steps are of one machine, not of {', '.join(self.machines)}")
        candidates: list[ServingChoice] = []
        refused: dict[str, int] = {}
        measured: list[str] = []
        remarks: dict[str, None] = {}
        priced: dict[str, str] = {}
        for name in self.machines:
            at = machine(name)
            if name in self.prices:
                at = at.using({"price": self.prices[name]})
            priced[name] = price_text(at)
            known = self._known(name, at)
            engine = self.engine or engine_of_steps(known)
            there = Deployment(model, at, Layout(), stored_as(model, self.types[0]), engine=engine, known=known)
            measured += [cached_measured(known).text(), *there.contradictions] if known else []
            remarks |= dict.fromkeys(remarks_of(there.conditions))
            for dtype, layout in itertools.product(self.types, layouts(model, at, self.devices)):
                try:
                    candidates += self._loads(name, at, model, layout, stored_as(model, dtype), known)
                except InputError as error:
                    reason = f"{name}: {_short(str(error))}"
                    refused[reason] = refused.get(reason, 0) + 1
        if not candidates:
            listed = "; ".join(sorted(refused)[:3])
            raise InputError(f"no layout of {model.name} on at most {self.devices} devices can serve: {listed}")
        drawn = f"each drawn from {1 - Traffic.length_range:g}-1 x that"
        traffic = f"{self.input_tokens:g} + {self.output_tokens:g} tokens ({drawn})"
        plan = Plan(
            model.name,
            self.limits,
            traffic,
            tuple(candidates),
            FrozenDict(refused),
            tuple(remarks),
            FrozenDict(priced),
            tuple(measured),
        )
        return plan if self.rate is None else replace(plan, rate=self.rate, sized=self._sized(plan, self.rate))

    def _sized(self, plan: Plan, rate: float) -> ServingChoice | None:
        """The fewest devices that keep the limits under a stream, by simulation; None where none was found.

        The closed loops say about how many copies a layout needs; halving finds the fewest, since more copies never
        take longer.
        """
        load = Traffic(int(self.input_tokens), int(self.output_tokens), None, rate)
        tokens, best = rate * self.output_tokens * (1 - Traffic.length_range / 2), None
        most: dict[tuple[object, ...], float] = {}
        for one in plan.candidates:
            key = one.machine, one.stored, one.layout
            most[key] = max(one.per_device, most.get(key, 0.0))
        sure = {(one.machine, one.stored, one.layout): one for one in sorted(plan.sure, key=lambda c: c.per_device)}
        for key, one in sorted(sure.items(), key=lambda pair: -pair[1].per_device):
            size = one.layout.devices
            few, enough = int(CLOSE * tokens / most[key] / size), math.ceil(tokens / one.per_device / size)
            enough = enough if best is None else (best.layout.devices - 1) // size
            choice = self._streamed(one, enough, load) if enough > few else None
            if choice is None and best is None:
                few, enough = enough, 2 * enough
                choice = self._streamed(one, enough, load)
            while choice is not None and enough - few > 1:
                middle = (few + enough) // 2
                tried = self._streamed(one, middle, load)
                few, enough, choice = (few, middle, tried) if tried is not None else (middle, enough, choice)
            best = choice or best
        return best

    def _streamed(self, one: ServingChoice, copies: int, load: Traffic) -> ServingChoice | None:
        """So many copies of a layout under a stream; None where more comes than is served, or a limit is not kept."""
        if one.served is None:
            return None
        layout = replace(one.layout, replicas=copies)
        answer = serve(replace(one.served.deployment, layout=layout), load, self.limits)
        bands = {name: answer.band(name, "p50" if name == "ttft" else "mean") for name in ("ttft", "tpot", "latency")}
        widths = {name: max(math.log(high / middle), 1e-9) for name, (middle, _, high) in bands.items()}
        keeps = self._keeps(0.0, widths, {name: middle for name, (middle, _, _) in bands.items()})
        if overload(answer) or keeps < SURE:
            return None
        rate = answer.served.output_rate / layout.devices
        in_flight = max(1, round((load.rate or 0.0) / copies * bands["latency"][0]))
        dollars = one.dollars * one.per_device / rate if one.dollars is not None else None
        return replace(
            one, layout=layout, users=in_flight, ttft=bands["ttft"][0], tpot=bands["tpot"][0], per_device=rate,
            per_user=1 / bands["tpot"][0], keeps=keeps, dollars=dollars,
        )  # fmt: skip

    def _known(self, name: str, at: Machine) -> tuple[TimedServerStep, ...]:
        """Steps measured on the machine; a run of a server is taken to have had one device where it does not say."""
        load = Traffic(int(self.input_tokens), int(self.output_tokens), 1)
        wanted = ServingOptions(self.model, name, devices=1, dtype=self.types[0], cache_type=self.cache_type,
                        engine=self.engine, changes={"price": at.price} if at.price is not None else {})  # fmt: skip
        return steps_of_runs(self.known, wanted, load, many=True)

    def _loads(
        self,
        name: str,
        at: Machine,
        model: LanguageModel,
        layout: Layout,
        stored: str,
        known: tuple[TimedServerStep, ...],
    ) -> Iterator[ServingChoice]:
        degrees = dict(zip(DEGREES, (float(getattr(layout, one.name)) for one in fields(layout)), strict=True))
        engine, run = self.engine or engine_of_steps(known), {**degrees, **self.guesses}
        run |= {"max_batched_tokens": float(self.max_batched_tokens), "memory_share": self.memory_share}
        places, drawn = 0.0, 1 - Traffic.length_range / 2  # the lengths that `serve` draws by default, at their mean
        for users in LOADS:
            if users < layout.data:
                continue
            if (together := max(RULES["max_num_seqs"], users / layout.data)) > places:  # `serve` takes the default, too
                places = run["max_num_seqs"] = together
                deployment = deployment_of(model, stored, at, run, self.cache_type, engine=engine, known=known)
                rules, seconds = deployment.scheduler, deployment.seconds()
            load = Load(self.input_tokens * drawn, self.output_tokens * drawn, users)
            state = steady(seconds, rules, load, 1, layout.data)
            if state.queued > 0.5 and users > layout.data:  # the fewest users are answered, as `serve` answers them
                return
            lengths = load.input_tokens, load.output_tokens
            ttft = deployment.first_factor(*lengths, users) * deployment.first_seconds(*lengths, users)
            cycle = ttft + (load.output_tokens - 1) * state.tpot
            rate = users * load.output_tokens / cycle / layout.devices
            batch = Batch(max(1.0, users / layout.data), load.input_tokens + load.output_tokens / 2)
            half = deployment.half_width(batch)
            widths = {"ttft": deployment.first_half_width(*lengths, users)} if "ttft" in self.limits else {}
            keeps = self._keeps(half, widths, {"ttft": ttft, "tpot": state.tpot, "latency": cycle})
            dollars = at.price / 3600 / rate * 1e6 if at.price is not None else None
            yield ServingChoice(
                name, layout, stored, users, ttft, state.tpot, rate, load.output_tokens / cycle, keeps,
                half, dollars, EngineBatch(deployment, batch),
            )  # fmt: skip

    def _keeps(self, half: float, widths: Mapping[str, float], times: Mapping[str, float]) -> float:
        """The least probability over the limits that a time keeps its own, errors of log time being normal."""
        from scipy.special import ndtr

        least = 1.0
        for name, limit in self.limits.items():
            sigma = widths.get(name, half) / quantile(0.8, None)
            least = min(least, float(ndtr(math.log(limit / times[name]) / sigma)))
        return least


def layouts(model: LanguageModel, at: Machine, devices: int) -> Iterator[Layout]:
    """Layouts of one replica: tensor ranks, stages; of experts also groups of attention and how they are dealt out."""
    for tensor, pipeline, data in itertools.product(RANKS, (1, 2, 4), RANKS if model.experts else (1,)):
        if tensor * pipeline * data > devices or (pipeline > 1 and data > 1):
            continue
        experts = {1, tensor * data} if model.experts else {1}
        for expert in sorted(experts):
            layout = Layout(tensor, pipeline, data, expert)
            try:
                laid_out(model, at, layout)
            except InputError:
                continue
            yield layout
