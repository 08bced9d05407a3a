"""What a machine is: frozen, validated descriptions in SI units, read from files with their sources."""

if __name__ == "hwmodels":  # two copies of a class are never equal: one import name only
    raise ImportError("import slipstick.hwmodels: 'hwmodels' alone is not this package's name")
