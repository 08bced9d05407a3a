"""Anybody's predictor on the cases of a scoreboard, beside ours and plain baselines."""
