"""Actuator commands as every driver takes them: within their limits, and a brake where a number is
none."""

from math import isfinite

from vehicled.core.messages import ActuatorCommand


def bounded(command: ActuatorCommand, steering: float) -> tuple[float, float, float]:
    """Return throttle (-1 to 1), brake (0 to 1) and steering (-1 to 1). A throttle or brake that is
    not finite is a full brake; a steering that is not finite stays at ``steering``, the last one.
    """
    if isfinite(command.steering):
        steering = min(1.0, max(-1.0, command.steering))
    if not (isfinite(command.throttle) and isfinite(command.brake)):
        return 0.0, 1.0, steering
    return min(1.0, max(-1.0, command.throttle)), min(1.0, max(0.0, command.brake)), steering
