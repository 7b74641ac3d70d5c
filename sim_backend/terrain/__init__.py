"""Terrain under the vehicle: heights and friction from point clouds and rasters."""
