"""Several vehicles in one simulated world: they see each other and collide."""
