"""Inertial sensors: one module per device, each with its codec in both directions and its host side, over one small base."""
