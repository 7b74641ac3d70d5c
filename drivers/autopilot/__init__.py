"""ArduPilot and PX4 autopilots over MAVLink: the vehicle's motor and servo, and its sensors."""
