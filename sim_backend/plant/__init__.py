"""Plants: the vehicle as it really is. Actuators stand before every plant, see :mod:`sim_backend.plant.actuators`."""
