"""Values of ``[sim]`` that a profile leaves out: the twin is then what the profile says of the
vehicle itself."""

from typing import Any

from vehicled.profile.problems import KeyPath

SENSORS = {
    "GnssFix": "gnss",
    "ImuSample": "imu",
    "Heading": "heading",
    "MotorStatus": "motor_status",
    "WheelSpeed": "wheel_encoders",
    "SteeringFeedback": "steering_feedback",
    "LaserScan": "lidar",
    "ReferenceState": "reference",
    "MapPose": "mocap",
}
"""Table of ``[sim]`` with the sensor of each message."""
UNMODELLED = frozenset({"WheelSpeed", "SteeringFeedback", "MotorStatus"})
"""Messages that the twin sends only if the profile states the table of their sensor."""


def complete(data: dict[str, Any]) -> dict[KeyPath, KeyPath]:
    """Write the missing values into parsed data. Return the key path of each, with that of its
    source.

    A plant without a twin file takes wheelbase, steering and drive of ``[vehicle]``, a twin the
    rear steering, and each sensor the rate of its device.
    """
    derived: dict[KeyPath, KeyPath] = {}
    if "sim" not in data:
        derived["sim",] = ()
    sim, vehicle = data.setdefault("sim", {}), data.get("vehicle")
    if not isinstance(sim, dict):
        return derived
    ratio = vehicle.get("rear_steering_ratio", 0.0) if isinstance(vehicle, dict) else 0.0
    twin = sim.get("twin")
    if ratio and isinstance(twin, dict) and isinstance(twin.get("changes", {}), dict):
        changes = twin.setdefault("changes", {})
        steering = changes.get("steering")
        nested = isinstance(steering, dict) and "rear_ratio" in steering
        if "steering.rear_ratio" not in changes and not nested:
            changes["steering.rear_ratio"] = ratio
            derived["sim", "twin", "changes"] = ("vehicle", "rear_steering_ratio")
    if sim.get("plant") != "double_track" and "twin" not in sim and isinstance(vehicle, dict):
        if "wheelbase_m" in vehicle and "wheelbase_m" not in sim:
            base_m = vehicle["wheelbase_m"]
            turns = isinstance(ratio, int | float) and ratio < 1 and isinstance(base_m, int | float)
            sim["wheelbase_m"] = base_m / (1.0 - ratio) if ratio and turns else base_m
            derived["sim", "wheelbase_m"] = ("vehicle", "wheelbase_m")
        for table in ("steering", "drive"):
            believed, truth = vehicle.get(table), sim.get(table, {})
            if not isinstance(believed, dict) or not isinstance(truth, dict):
                continue
            if table not in sim:
                derived["sim", table] = ("vehicle", table)
            sim[table] = believed | truth
            derived |= {
                ("sim", table, key): ("vehicle", table, key) for key in believed if key not in truth
            }
    devices = data.get("devices")
    for name, device in devices.items() if isinstance(devices, dict) else ():
        messages = device.get("messages") if isinstance(device, dict) else None
        for message in messages if isinstance(messages, list) else ():
            if not isinstance(message, str) or message not in SENSORS:
                continue
            sensor = SENSORS[message]
            if sensor not in sim:
                if message in UNMODELLED:
                    continue
                derived["sim", sensor] = ("devices", name)
            if not isinstance(model := sim.setdefault(sensor, {}), dict):
                continue
            if "rate_hz" in device and "rate_hz" not in model:
                model["rate_hz"] = device["rate_hz"]
                derived["sim", sensor, "rate_hz"] = ("devices", name, "rate_hz")
    return derived
