"""How long it takes: operation models, schedules and run models put together, calibrated and explained."""

if __name__ == "estimators":  # two copies of a class are never equal: one import name only
    raise ImportError("import slipstick.estimators: 'estimators' alone is not this package's name")
