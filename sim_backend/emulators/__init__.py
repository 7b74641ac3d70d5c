"""Device emulators: the simulated far ends of the daemon's wires."""
