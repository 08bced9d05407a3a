"""One part of a study for one task of an array job: part i of n."""

from __future__ import annotations

from dataclasses import dataclass

from slipstick.common.errors import InputError
from slipstick.common.readers import whole_number


@dataclass(frozen=True)
class Share:
    """Every n-th chunk of a study from the i-th on: which chunks a part has does not depend on who computes them.

    `part`, `parts`: 1 <= part <= parts.
    """

    part: int = 1
    parts: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.part <= self.parts <= 1_000_000:
            raise InputError(f"part {self.part}/{self.parts}: want I/N with 1 <= I <= N <= 1,000,000")

    def of(self, chunks: int) -> range:
        """Numbers of the chunks of this part."""
        return range(self.part - 1, chunks, self.parts)

    def __str__(self) -> str:
        return f"{self.part}-of-{self.parts}"


WHOLE = Share()


def share_of(text: str | None) -> Share:
    """``3/64`` as a share; None is the whole study.

    Raises InputError where the text is no I/N.
    """
    if text is None:
        return WHOLE
    part, _, parts = text.partition("/")
    numbers = whole_number(part.strip()), whole_number(parts.strip())
    if numbers[0] is None or numbers[1] is None:
        raise InputError(f"part {text[:30]!r}: want I/N, such as 3/64")
    return Share(numbers[0], numbers[1])
