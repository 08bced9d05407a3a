"""How long it takes: operation models, schedules and run models put together, calibrated and explained.

Import from the modules (``from estimators.composite import Composite``), or use the facade ``slipstick``.
"""
