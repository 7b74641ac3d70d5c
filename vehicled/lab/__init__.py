"""Experiments, recordings, published replicas, calibration, validation and the failsafe harness; only commands import it."""
