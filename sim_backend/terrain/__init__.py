"""The ground under the vehicle: heights and friction out of point clouds and rasters."""
