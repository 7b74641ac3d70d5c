"""Capabilities of the vehicle's computer: its settings, its measured lateness, and the rates that
it can sustain."""
