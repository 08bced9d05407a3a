"""What is to be done: operations and their costs as graphs, symbolic until bound."""

if __name__ == "workloads":  # two copies of a class are never equal: one import name only
    raise ImportError("import slipstick.workloads: 'workloads' alone is not this package's name")
