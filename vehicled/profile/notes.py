"""What ``vehicled check`` says of a profile that is valid: things that may be meant so, and things that cannot work here."""

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from vehicled.profile.problems import Problem
from vehicled.profile.schema import Profile

_REACHABLE = 1.05
"""A speed limit a little above the top speed is no mistake, it only never acts."""
LEAST_IMU_SAMPLES = 5
"""That may be missing before an inertial sensor counts as silent."""


class Note(Problem, frozen=True):
    """A remark on one key. ``serious``: the vehicle would not drive with it."""

    serious: bool = False


def check(profile: Profile) -> list[Note]:
    """Every remark on a valid profile; reads the course it names."""
    return [*_vehicle(profile), *_estimator(profile), *_devices(profile), *_tasks(profile), *_twin(profile), *_course(profile)]


def _vehicle(profile: Profile) -> Iterator[Note]:
    vehicle, limits = profile.vehicle, profile.limits
    top = vehicle.drive.top_speed_mps
    if limits.max_speed_mps > _REACHABLE * top:
        yield Note(
            "limits.max_speed_mps", f"{limits.max_speed_mps:g} m/s is never reached: [vehicle.drive] tops out at {top:.2f} m/s"
        )
    if limits.capped_speed_mps > limits.max_speed_mps:
        yield Note("limits.capped_speed_mps", f"never acts: it is above max_speed_mps = {limits.max_speed_mps:g}")
    steering = vehicle.steering
    reach = steering.gain_rad + abs(steering.offset_rad)
    if reach < steering.max_wheel_rad:
        yield Note(
            "vehicle.steering.max_wheel_rad",
            f"{steering.max_wheel_rad:g} rad is never reached: full command turns the wheel by {reach:.3f} rad at most",
        )
    brakes = vehicle.drive.brake_deceleration_mps2 > 0.0
    for name, device in profile.devices.items():
        if device.capabilities is not None and device.capabilities.brake != brakes:
            says = "has a brake" if device.capabilities.brake else "has no brake"
            yield Note(
                f"devices.{name}.capabilities.brake",
                f"the device {says}, but vehicle.drive.brake_deceleration_mps2 = {vehicle.drive.brake_deceleration_mps2:g}",
            )


def _estimator(profile: Profile) -> Iterator[Note]:
    if profile.estimator.name == "ekf4_published":
        yield Note(
            "estimator.name",
            "ekf4_published repeats the errors of a published filter, and its sigma is too small: drive with ekf4, planar or ins",
        )


def _devices(profile: Profile) -> Iterator[Note]:
    carried = {message for device in profile.devices.values() for message in device.messages}
    needs = {
        "GnssFix": ("the estimator can never start", "a GNSS receiver"),
        "ImuSample": ("the estimator has no measured yaw rate and the vehicle may never drive (imu_silent)", "an inertial sensor"),
    }
    for message, (consequence, device) in needs.items():
        if message not in carried:
            yield Note(
                "devices",
                f'no device gives {message}: {consequence}; add {device}, or write messages = ["{message}"] for the one that is it',
                serious=True,
            )
    silence_s = profile.limits.imu_silence_s
    for name, table in profile.devices.items():
        if "ImuSample" in table.messages and table.rate_hz and silence_s * table.rate_hz < LEAST_IMU_SAMPLES:
            yield Note(
                "limits.imu_silence_s",
                f"{silence_s:g} s are less than {LEAST_IMU_SAMPLES} samples of devices.{name} ({table.rate_hz:g} Hz): "
                f"a few that are lost stop the vehicle; write {LEAST_IMU_SAMPLES / table.rate_hz:g} or more",
            )


def _tasks(profile: Profile) -> Iterator[Note]:
    for name, task in structs.asdict(profile.tasks).items():
        if task.declared_us > 1000.0 * task.deadline_ms:
            yield Note(
                f"tasks.{name}.declared_us",
                f"{task.declared_us:g} us is more than the deadline of {task.deadline_ms:g} ms: in lockstep every release misses",
            )


def _twin(profile: Profile) -> Iterator[Note]:
    vehicle, sim = profile.vehicle, profile.sim
    if sim.wheelbase_m is not None:
        yield from _differences("wheelbase_m", vehicle.wheelbase_m, sim.wheelbase_m)
    for table in ("steering", "drive"):
        if (truth := getattr(sim, table)) is None:
            continue
        believed, true = structs.asdict(getattr(vehicle, table)), structs.asdict(truth)
        for key, value in believed.items():
            yield from _differences(f"{table}.{key}", value, true[key])
    models: dict[str, Any] = {
        "GnssFix": ("gnss", sim.gnss), "ImuSample": ("imu", sim.imu), "Heading": ("heading", sim.heading),
        "MotorStatus": ("motor_status", sim.motor_status), "WheelSpeed": ("wheel_encoders", sim.wheel_encoders),
        "SteeringFeedback": ("steering_feedback", sim.steering_feedback), "LaserScan": ("lidar", sim.lidar),
    }  # fmt: skip
    for name, device in profile.devices.items():
        for message in device.messages:
            table, model = models.get(message, ("", device))
            if model is None:
                yield Note(f"devices.{name}", f"silent in simulation: there is no [sim.{table}] to make its {message}")
            elif device.rate_hz is not None and model.rate_hz != device.rate_hz:
                yield Note(
                    f"devices.{name}.rate_hz",
                    f"{device.rate_hz:g} Hz, but the twin sends at sim.{table}.rate_hz = {model.rate_hz:g}",
                )


def _differences(key: str, believed: float, true: float) -> Iterator[Note]:
    if believed != true:
        yield Note(f"sim.{key}", f"the twin has {true:g} where [vehicle] believes {believed:g}")


def _course(profile: Profile) -> Iterator[Note]:
    from vehicled.paths import CourseError
    from vehicled.paths.catalog import load_course

    try:
        load_course(profile.course)
    except CourseError as error:
        yield Note("course", str(error), serious=True)
