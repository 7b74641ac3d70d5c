"""A daemon that drives small autonomous ground vehicles: a pure machine driven by a thin runtime."""

__version__ = "0.1.0"
