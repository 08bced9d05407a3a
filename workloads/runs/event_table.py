"""The events of a trace as columns, and what a reading met beside them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MAX_BROKEN = 100_000
"""Events without a phase, a name or a usable time that are passed over; more, and more than half of all, are no
trace."""


@dataclass
class TraceNotes:
    """What a reading met beside the events: filled while the events stream."""

    metadata: dict[str, Any] = field(default_factory=dict)
    """Values beside `traceEvents`, such as `deviceProperties` and `schemaVersion`."""
    repaired_escapes: int = 0
    """Backslashes that started no JSON escape and were taken as themselves."""
    truncated: bool = False
    """The file ended inside the events."""
    skipped: int = 0
    """Complete events without a usable start or duration: missing, not finite, or a duration below 0."""
    phases: Counter[str] = field(default_factory=Counter)
    """Events by their `ph` letter (X complete, i instant, s/f flow, M metadata, C counter ...), "?" without one."""
    broken: int = 0
    """Events without a phase, or without a name where their phase needs one (all but E), of those read one by one."""

    def count(self, event: Any, source: str) -> None:
        """Count an event that was read alone.

        Raises InputError where more than `MAX_BROKEN` events, and more than half of all so far, are broken or skipped.
        """
        phase = event.get("ph") if isinstance(event, dict) else None
        whole = isinstance(phase, str) and len(phase) == 1
        self.phases[phase if whole else "?"] += 1  # type: ignore[index]
        if not (whole and (phase == "E" or "name" in event)):
            self.broken += 1
        useless = self.broken + self.skipped
        if useless > MAX_BROKEN and 2 * useless > (seen := self.phases.total()):
            raise InputError(
                f"{source}: {useless:,} of the first {seen:,} events have no phase `ph`, no name or no usable start "
                f"`ts` and duration `dur` (at most {MAX_BROKEN:,}, or half of all, are passed over); not a trace, or "
                "a damaged one"
            )

    def words(self) -> tuple[str, ...]:
        """What is missing of a trace that is not whole, for the user; empty where nothing is."""
        counts = {
            f"{self.skipped:,} events without a usable start or duration (none, or an end before it) are left out": (
                self.skipped
            ),
            f"{self.broken:,} events without a phase or a name are left out": self.broken,
            "the file ends in the middle of an event: those before it are read": self.truncated,
        }
        return tuple(text for text, is_so in counts.items() if is_so)


@dataclass(frozen=True, eq=False)
class EventTable:
    """Complete events (`ph` X, and matched B/E pairs) of a trace as columns, in file order.

    `name`, `category`, `process` and `thread` are codes into `names`, `categories`, `processes` and `threads`;
    `start` and `duration` are seconds, `start` from `origin` (seconds on the trace's own clock). `arguments` holds
    the wanted numeric arguments, NaN where absent. `text` are codes into `texts`, the wanted arguments that are lists,
    as they are written; -1 where an event has none of them, and None where none were wanted.
    """

    names: tuple[str, ...]
    categories: tuple[str, ...]
    processes: tuple[str, ...]
    threads: tuple[str, ...]
    name: npt.NDArray[np.int32]
    category: npt.NDArray[np.int32]
    process: npt.NDArray[np.int32]
    thread: npt.NDArray[np.int32]
    start: npt.NDArray[np.float64]
    duration: npt.NDArray[np.float64]
    arguments: dict[str, npt.NDArray[np.float64]]
    origin: float
    notes: TraceNotes
    texts: tuple[tuple[str, ...], ...] = ()
    text: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.start)

    def to_frame(self) -> pd.DataFrame:
        """One row an event; times in seconds, labels as categoricals."""
        import pandas as pd

        labels = {
            "name": (self.name, self.names),
            "category": (self.category, self.categories),
            "process": (self.process, self.processes),
            "thread": (self.thread, self.threads),
        }
        columns: dict[str, Any] = {
            key: pd.Categorical.from_codes(codes, categories=pd.Index(known)) for key, (codes, known) in labels.items()
        }
        return pd.DataFrame(columns | {"start_s": self.start, "duration_s": self.duration} | self.arguments)
