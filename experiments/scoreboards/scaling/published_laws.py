"""Run-time laws of two and three parameters from text books and papers, as measurements with known truth.

Those of part "tuning" served to choose the weights of the band and the bars of surfaces; those of "held out" did not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slipstick.estimators.symbolic.lambdified import FloatArray


@dataclass(frozen=True)
class PublishedLaw:
    """A law, the levels of its grid, and where it stands.

    `seconds`: points of shape (n, parameters) -> seconds; constants are ours, of the size that machines have.
    """

    name: str
    part: str
    source: str
    parameters: tuple[str, ...]
    levels: tuple[tuple[float, ...], ...]
    seconds: Callable[[FloatArray], FloatArray]

    def points(self) -> FloatArray:
        """The full grid, shape (n, parameters)."""
        mesh = np.meshgrid(*self.levels, indexing="ij")
        return np.asarray(np.array(mesh, dtype=np.float64).reshape(len(self.levels), -1).T)


_P = (1, 2, 4, 8, 16)
_N = (1000, 2000, 4000, 8000, 16000)
_log = np.log2

LAWS = (
    PublishedLaw(
        *("all pairs n^2/p", "tuning", "Grama et al. 2003, Introduction to Parallel Computing, Section 5"),
        ("threads", "n"),
        (_P, _N),
        lambda x: 1e-9 * x[:, 1] ** 2 / x[:, 0],
    ),
    PublishedLaw(
        *("Amdahl x linear", "tuning", "Amdahl 1967"),
        ("threads", "n"),
        (_P, _N),
        lambda x: 1e-6 * x[:, 1] * (0.02 + 0.98 / x[:, 0]),
    ),
    PublishedLaw(
        *("FFT by binary exchange", "tuning", "Grama et al. 2003, Section 13.2"),
        ("processes", "n"),
        (_P, (2**14, 2**16, 2**18, 2**20, 2**22)),
        lambda x: 1e-9 * x[:, 1] * _log(x[:, 1]) / x[:, 0] + 4e-5 * _log(x[:, 0]) + 2e-9 * x[:, 1] / x[:, 0] + 1e-6,
    ),
    PublishedLaw(
        *("dense products n^3/p", "tuning", "Grama et al. 2003, Section 8.2"),
        ("threads", "n"),
        (_P, (256, 512, 1024, 2048, 4096)),
        lambda x: 1e-10 * x[:, 1] ** 3 / x[:, 0] + 1e-3,
    ),
    PublishedLaw(
        *("Kripke sweep d g p^(1/3)", "tuning", "Calotoiu et al. 2016, Fast Multi-Parameter Performance Modeling"),
        ("processes", "directions", "groups"),
        ((8, 64, 512, 4096), (4, 8, 12, 16, 20), (8, 16, 24, 32, 40)),
        lambda x: 1e-3 * x[:, 1] * x[:, 2] * (1 + 0.1 * x[:, 0] ** (1 / 3)),
    ),
    PublishedLaw(
        *("SUMMA n^3/p + n^2/sqrt p", "held out", "van de Geijn, Watts 1997, Section 4"),
        ("processes", "n"),
        ((4, 16, 64, 256, 1024), (1024, 2048, 4096, 8192, 16384)),
        lambda x: 1e-10 * x[:, 1] ** 3 / x[:, 0] + 5e-9 * x[:, 1] ** 2 / np.sqrt(x[:, 0]),
    ),
    PublishedLaw(
        *("conjugate gradients n/p + log p", "held out", "Grama et al. 2003, Section 11.2"),
        ("processes", "n"),
        ((1, 2, 4, 8, 16, 32), (1e5, 2e5, 4e5, 8e5, 16e5)),
        lambda x: 5e-9 * x[:, 1] / x[:, 0] + 2e-5 * _log(x[:, 0]) + 3e-5,
    ),
    PublishedLaw(
        *("sample sort n log n/p + p", "held out", "Grama et al. 2003, Section 9.5"),
        ("processes", "n"),
        ((2, 4, 8, 16, 32), (1e5, 4e5, 16e5, 64e5)),
        lambda x: 2e-9 * x[:, 1] * _log(x[:, 1]) / x[:, 0] + 1e-5 * x[:, 0],
    ),
    PublishedLaw(
        *("ring all-reduce", "held out", "Thakur, Rabenseifner, Gropp 2005, Section 4"),
        ("processes", "bytes"),
        ((2, 4, 8, 16, 32), (1e4, 1e5, 1e6, 1e7)),
        lambda x: 2e-10 * x[:, 1] * (x[:, 0] - 1) / x[:, 0] + 1e-6 * x[:, 0],
    ),
    PublishedLaw(
        *("time steps of all pairs", "held out", "Grama et al. 2003, Section 5"),
        ("threads", "n", "steps"),
        ((1, 2, 4, 8), (500, 1000, 2000, 4000), (10, 20, 40, 80)),
        lambda x: 1e-9 * x[:, 1] ** 2 * x[:, 2] / x[:, 0] + 1e-3,
    ),
    PublishedLaw(
        *("LULESH-like weak scaling", "held out", "Calotoiu et al. 2013 (form: s^3 (1 + log p) + s^2)"),
        ("processes", "size"),
        ((1, 8, 27, 64, 125), (10, 15, 20, 25, 30)),
        lambda x: 1e-7 * x[:, 1] ** 3 * (1 + 0.05 * _log(x[:, 0])) + 1e-6 * x[:, 1] ** 2,
    ),
    PublishedLaw(
        *("a transformer layer", "held out", "Vaswani et al. 2017, Table 1: s^2 d + s d^2"),
        ("seq_len", "batch", "width"),
        ((128, 256, 512, 1024), (1, 2, 4, 8), (256, 512, 1024, 2048)),
        lambda x: 1e-12 * (4 * x[:, 0] ** 2 * x[:, 1] * x[:, 2] + 24 * x[:, 0] * x[:, 1] * x[:, 2] ** 2),
    ),
)
