"""The device side of each wire: what the simulated devices send, and what they make of what they are sent."""
