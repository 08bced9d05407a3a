"""Recorded and simulated runs: representative iterations, traces, jobs and queues."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub("slipstick", __file__)
