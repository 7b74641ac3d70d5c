"""Calibration of a twin's parameters from recorded drives, with their uncertainty."""
