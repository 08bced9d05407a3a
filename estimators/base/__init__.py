"""What an estimate and an estimator are: records of answers, and the protocol that callers ask."""
