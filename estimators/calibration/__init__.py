"""Fitting parameters of an estimator to measurements; the result is again an estimator."""
