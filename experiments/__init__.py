"""Questions and their evaluation: studies, measuring, papers reproduced, validation, the command line."""

if __name__ == "experiments":  # two copies of a class are never equal: one import name only
    raise ImportError("import slipstick.experiments: 'experiments' alone is not this package's name")
