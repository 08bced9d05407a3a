"""A numpy pipeline of your own on any number of threads, timed by `slipstick measure scaling own_program:run`."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

threads = int(os.environ.get("SLIPSTICK_THREADS", "1"))  # `measure scaling` sets it
pool = ThreadPoolExecutor(threads)  # lives as long as the program: threads that end take their clocks with them


def part(values: np.ndarray) -> float:
    """Roots of exponentials, sorted and summed."""
    roots = np.sqrt(np.exp(values))
    roots.sort()
    return float(np.cumsum(roots)[-1])


def run(n: int) -> float:
    """One pass over n random numbers, in as many parts as there are threads."""
    return sum(pool.map(part, np.array_split(np.random.default_rng(0).random(n), threads)))


if __name__ == "__main__":
    print(
        f"the mean of sqrt(exp(x)) is {run(100_000) / 100_000:.2f}, exactly 2 (sqrt(e) - 1) = {2 * (np.e**0.5 - 1):.2f}"
    )
