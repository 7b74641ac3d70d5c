"""Drivers of inertial navigation systems by SBG Systems."""
