"""Laws of growth: surfaces, many regions, what to measure next and whether more threads gain."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("slipstick", __file__)
