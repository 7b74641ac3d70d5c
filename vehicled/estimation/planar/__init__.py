"""Planar filter: position, yaw, velocity and sensor errors on the plane."""
