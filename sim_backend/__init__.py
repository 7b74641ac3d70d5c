"""The simulator: a process of its own that plays the vehicle, its sensors and its operator over one link."""
