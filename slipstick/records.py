"""Types of answers and of their parts, for annotations."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("slipstick", __file__)
