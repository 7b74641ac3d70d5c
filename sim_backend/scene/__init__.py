"""Planar scene around the vehicle: walls, bodies, moving objects, and ray casting against them."""
