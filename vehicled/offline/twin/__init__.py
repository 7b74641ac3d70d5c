"""Commands on twins: validate, predict, calibrate and show the simulator's vehicle models."""
