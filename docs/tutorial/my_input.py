"""An input pipeline such as a user has: storage that waits, decoding, batches from a pool of threads."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np


def decode(index: int = 0) -> np.ndarray:
    """One example, as it goes to the device."""
    pixels = np.random.default_rng(index).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    return (pixels.astype(np.float32) - 118) / 58


def fetch(index: int) -> np.ndarray:
    time.sleep(0.003)  # object storage
    return decode(index)


def batches(start: int = 0, prefetch: int = 1) -> Iterator[np.ndarray]:
    with ThreadPoolExecutor(max_workers=1) as pool:
        number, waiting = start, []
        while True:
            while len(waiting) < prefetch:
                waiting.append([pool.submit(fetch, 8 * number + i) for i in range(8)])
                number += 1
            yield np.stack([each.result() for each in waiting.pop(0)])
