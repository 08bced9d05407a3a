"""Operations and kernels that workloads are made of, and formulas of their sizes."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("slipstick", __file__)
