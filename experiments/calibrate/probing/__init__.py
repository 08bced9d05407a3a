"""A minute on the device at hand: a machine file, and a calibration for later questions."""
