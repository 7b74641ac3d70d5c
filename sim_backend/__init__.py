"""Simulator: a separate process that plays the vehicle, its sensors and its operator over one
link."""
