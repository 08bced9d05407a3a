"""What is to be done: operations and their costs as graphs, symbolic until bound.

Import from the modules (``from workloads.workload import Workload``, ``from workloads.catalog import workload``), or
use the facade ``slipstick``.
"""
