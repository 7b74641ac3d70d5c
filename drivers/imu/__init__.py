"""Inertial sensor drivers: one module per device, with its codec in both directions and its device
class over a common base."""
