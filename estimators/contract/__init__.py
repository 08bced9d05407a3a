"""What callers may ask of every estimator, and a base that answers all but `estimate`."""
