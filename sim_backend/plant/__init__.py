"""Plants: models of the vehicle's true motion. The actuators precede every plant, see
:mod:`sim_backend.plant.actuators`."""
