"""The double-track family: one set of equations, one vehicle on floats or many on arrays. ``docs/vehicle_model.md`` explains it."""
