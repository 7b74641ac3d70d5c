"""Double-track vehicle model: one set of equations for one vehicle on floats or many on arrays. See
``docs/vehicle_model.md``."""
