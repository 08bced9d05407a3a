"""Estimators that ship by name because they need more than their parts: data of a study, or a calibration."""
