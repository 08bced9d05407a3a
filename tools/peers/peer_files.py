"""Cases in, predictions out: all that a peer's script needs besides the peer."""

from __future__ import annotations

import csv
import json
import math
import sys
import time
import warnings
from collections.abc import Callable


def numbers(text: str) -> list[float]:
    """A row of numbers as the cases' file writes it."""
    return [float(value) for value in json.loads(text)]


def predict_all(cases: str, predictions: str, predict: Callable[[dict[str, str]], float]) -> None:
    """Write case, time_s of every case that the peer answers with a positive finite time; say how many it does not."""
    warnings.simplefilter("ignore")
    with open(cases, newline="") as stream:
        rows = list(csv.DictReader(stream))
    start, refused = time.process_time(), {}
    with open(predictions, "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["case", "time_s"])
        for row in rows:
            try:
                seconds = predict(row)
                if not (math.isfinite(seconds) and seconds > 0):
                    raise ValueError(f"{seconds} s")
                writer.writerow([row["case"], repr(seconds)])
            except Exception as error:  # the peer's: counted, and the reasons are told
                reason = f"{type(error).__name__}: {error}"[:100]
                refused[reason] = refused.get(reason, 0) + 1
    spent = time.process_time() - start
    print(
        f"{len(rows)} cases, {sum(refused.values())} unanswered, {1e3 * spent / len(rows):.2f} CPU ms a case",
        file=sys.stderr,
    )
    for reason, count in sorted(refused.items(), key=lambda item: -item[1])[:5]:
        print(f"  {count} x {reason}", file=sys.stderr)
