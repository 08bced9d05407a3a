"""A language model's server: a deployment under requests, as one run and as an estimator."""
