"""Detectors of the failsafe matrix: what they need of the past, in constant memory. The rules ask them; they decide nothing."""
