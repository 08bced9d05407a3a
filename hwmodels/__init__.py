"""What a machine is: frozen, validated descriptions in SI units, read from files with their sources.

Import from the modules (``from hwmodels.machine import Machine``, ``from hwmodels.catalog import machine``), or use
the facade ``slipstick``.
"""
