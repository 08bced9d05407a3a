"""One score engine for all scoreboards: rows, baselines, coverage, refits, other predictors."""
