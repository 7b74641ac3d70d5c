"""Inertial navigation filter: position, velocity, attitude and IMU biases in three dimensions."""
