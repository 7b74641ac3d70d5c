"""Occupancy grids, and where a vehicle is on one by its scans: files, surfaces, scan matching,
global search. Pure."""
