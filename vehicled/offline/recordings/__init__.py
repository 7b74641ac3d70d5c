"""Recorded drives from public data sets and our logs: run any estimator on them and compare it with
ground truth."""
