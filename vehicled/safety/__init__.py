"""What must hold whoever commands the vehicle: modes, arming, reactions, and the gate before the actuators. Pure."""
