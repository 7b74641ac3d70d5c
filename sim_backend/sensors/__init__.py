"""Sensor models: ground truth in, messages out. Each noise has its own stream, which advances with
simulated time only."""
