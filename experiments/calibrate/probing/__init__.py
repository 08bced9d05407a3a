"""A minute on the device at hand: a machine file, and a calibration for what is asked of it later."""
