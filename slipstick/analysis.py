"""What explanations and studies are made of: sensitivities, crossovers, cheapest changes, fronts."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("slipstick", __file__)
