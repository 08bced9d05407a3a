"""The operations' shares of an answer: columns, of which records are made when somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from slipstick.common.array_types import FloatArray


@dataclass(frozen=True)
class OperationTime:
    """One operation's share: `times` executions of `time` seconds each, and what bounds it.

    `elapsed` is what it adds to the time of the whole under the schedule (seconds); None where the schedule cannot say,
    and its work, time x times, stands for it.
    """

    name: str
    kind: str
    time: float
    times: float = 1.0
    bound_by: str | None = None
    elapsed: float | None = None

    @property
    def contribution(self) -> float:
        """Seconds of the whole that this operation accounts for, or its work where the schedule cannot say."""
        return self.time * self.times if self.elapsed is None else self.elapsed


class Parts(Sequence[OperationTime]):
    """The shares of many operations, in their order; equal to any sequence of the same records.

    `names`, `kinds`: of the operations, shape (operations,).
    `seconds`: of one execution, shape (operations,).
    `times`: how often each is done, shape (operations,).
    `elapsed`: see `OperationTime`, shape (operations,); None where the schedule cannot say.
    `bounds`: says what bounds each, shape (operations,); asked when somebody reads the records.

    Examples
    --------
    >>> parts = Parts(("a", "b"), ("gemm", "gemm"), np.array([1.0, 2.0]), np.array([3.0, 1.0]))
    >>> parts[0].contribution, parts.contributions.tolist()
    (3.0, [3.0, 2.0])
    """

    def __init__(
        self,
        names: Sequence[str],
        kinds: Sequence[str],
        seconds: FloatArray,
        times: FloatArray,
        elapsed: Sequence[float] | None = None,
        bounds: Callable[[], Sequence[str | None]] | None = None,
    ) -> None:
        self.seconds = seconds
        self.contributions = seconds * times if elapsed is None else np.array(elapsed, dtype=float)
        self.names, self.kinds, self._times, self._elapsed, self._bounds = names, kinds, times, elapsed, bounds

    @classmethod
    def of(cls, records: Sequence[OperationTime]) -> Parts:
        """The columns of records."""
        if isinstance(records, Parts):
            return records
        columns = np.array([(part.time, part.times, part.contribution) for part in records]).reshape(-1, 3)
        made = cls([part.name for part in records], [part.kind for part in records], columns[:, 0], columns[:, 1])
        made.contributions, made._records = columns[:, 2], tuple(records)
        made.bound_by = [part.bound_by for part in records]
        return made

    @cached_property
    def bound_by(self) -> Sequence[str | None]:
        """What bounds each operation, shape (operations,); None where unknown."""
        bounds, self._bounds = self._bounds, None  # it holds the operations
        return bounds() if bounds else [None] * len(self.names)

    @cached_property
    def _records(self) -> tuple[OperationTime, ...]:
        nothing: list[None] = [None] * len(self.names)
        columns = self.names, self.kinds, self.seconds.tolist(), self._times.tolist(), self.bound_by
        return tuple(map(OperationTime, *columns, self._elapsed or nothing))

    @overload
    def __getitem__(self, index: int) -> OperationTime: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[OperationTime, ...]: ...
    def __getitem__(self, index: int | slice) -> OperationTime | tuple[OperationTime, ...]:
        return self._records[index]

    def __iter__(self) -> Iterator[OperationTime]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._records == tuple(other)

    def __hash__(self) -> int:
        return hash(self._records)

    def __repr__(self) -> str:
        return repr(self._records)

    def __reduce__(self) -> tuple[Callable[[Sequence[OperationTime]], Parts], tuple[tuple[OperationTime, ...]]]:
        return Parts.of, (self._records,)
