"""Validation of the vehicle model against reference simulators: same commands, same start,
differences of the motion."""
