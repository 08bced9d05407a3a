"""A question: workload, machine, estimator, run, what varies; and the text that becomes one."""
