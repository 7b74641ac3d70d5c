"""Sensors of the twin: truth in, messages out. Each noise has a stream of its own that advances in time, never with the reader."""
