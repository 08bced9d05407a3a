"""Series extrapolated a second on one core, with and without bands (a script, no test): thread CPU time."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import numpy as np

from slipstick.estimators.extrapolation import Series, extrapolate, extrapolate_many

COUNT = 2000


def series(kind: str, points: int) -> list[Series]:
    """Noisy Amdahl or linear series."""
    generator = np.random.default_rng(0)
    x = 2.0 ** np.arange(points)
    law = 1 + 100 / x if kind == "strong" else 1 + 0.1 * x
    return [Series.of(x, law * generator.lognormal(sigma=0.05, size=points), "x", str(i)) for i in range(COUNT)]


def main() -> None:
    """Print one line a case."""
    for kind in ("strong", "weak", "problem_size"):
        for points in (5, 8, 12):
            some = series(kind, points)
            for level, said in ((None, "no bands"), (0.80, "with bands")):
                start = time.thread_time()
                extrapolate_many(some, [2.0**points], kind, level=level)
                together = COUNT / (time.thread_time() - start)
                start = time.thread_time()
                for one in some[:200]:
                    extrapolate(one, [2.0**points], kind, level=level)
                alone = 200 / (time.thread_time() - start)
                case = f"{kind:13s} {points:3d} points, {said:10s}"
                print(f"{case}: {together:7.0f} /s together, {alone:6.0f} /s one by one")


if __name__ == "__main__":
    main()
