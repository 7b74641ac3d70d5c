"""Paths are planned, and courses of clients are read and checked, in a process of its own: neither
may hold the loop."""
