"""Pairs of measurements in which one part of the machine, the run or the workload changed."""
