"""When tuning of a running job starts (TPUPoint, Section VII-B)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slipstick.estimators.sampling.phases import Scan
from slipstick.workloads.runs.step_profiles import StepProfile

HOT_OPERATIONS = ("reshape", "infeed", "outfeed", "fusion", "transferbuffer", "dataloader")
"""Words in the names of the operations that the paper starts on; torch's loader stands for the infeed."""


@dataclass
class Trigger:
    """When to start: one phase has taken more than half of the time, or the hot operations are those of moving data.

    `enough` [s] and `enough_steps` must have passed, so that the first step alone does not decide.
    """

    scan: Scan
    hot: tuple[str, ...] = HOT_OPERATIONS
    top: int = 5
    enough: float = 0.0
    enough_steps: int = 0
    reason: str = ""
    _settled: int = 0
    _waiting: list[StepProfile] = field(default_factory=list)
    _spent: dict[int, float] = field(default_factory=dict)
    _operations: dict[int, dict[str, float]] = field(default_factory=dict)

    def observe(self, step: StepProfile) -> bool:
        """Take the next step; True once the run has entered its critical phase (`reason` says why)."""
        self._waiting.append(step)
        for label in self.scan.observe(step):
            settled = self._waiting.pop(0)
            self._settled += 1
            self._spent[label] = self._spent.get(label, 0.0) + settled.duration
            times = self._operations.setdefault(label, {})
            for name, operation in settled.operations.items():
                times[name] = times.get(name, 0.0) + operation.time
        total = sum(self._spent.values())
        if self.reason or not self._spent or total < self.enough or self._settled < self.enough_steps:
            return bool(self.reason)
        longest = max(self._spent, key=self._spent.__getitem__)
        times = self._operations[longest]
        first = sorted(times, key=times.__getitem__, reverse=True)[: self.top]
        hot = [name for name in first if times[name] > 0 and any(word in name.lower() for word in self.hot)]
        if hot:
            self.reason = f"hot operation {hot[0]!r} in the longest phase"
        elif self._spent[longest] > total / 2:
            self.reason = f"phase {longest} has taken {self._spent[longest] / total:.0%} of the time"
        return bool(self.reason)


@dataclass(frozen=True)
class Start:
    """Whether a job was found worth tuning: after how many steps, and why; no reason where it never was."""

    steps: int
    reason: str


def watch(trigger: Trigger, steps: Iterable[StepProfile]) -> Start:
    """Watch a job under its defaults until the trigger fires, or it ends."""
    seen = 0
    for step in steps:
        seen += 1
        if trigger.observe(step):
            break
    return Start(seen, trigger.reason)
