"""Recorded drives: read from the files of others and from our own logs, run through any estimator, and judged against the truth."""
