"""Identification of the vehicle's steering and drive parameters while it drives."""
