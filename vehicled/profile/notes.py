"""Notes of ``vehicled check`` about a valid profile: settings to check, and settings that cannot
work on this machine."""

from collections.abc import Iterator
from math import isfinite

from msgspec import structs

from vehicled.core.messages import Corrections
from vehicled.profile.mixing import mixings_of
from vehicled.profile.noise import injected
from vehicled.profile.problems import Level, Note
from vehicled.profile.rc import rc_device
from vehicled.profile.registry import resolve
from vehicled.profile.schema import Profile
from vehicled.profile.sim_defaults import SENSORS

_REACHABLE = 1.05
"""A speed limit a little above the top speed is no mistake, it only never acts."""
SLOW_STOP_S = 1.0
LEAST_IMU_SAMPLES = 5
"""Samples that may be missing before an inertial sensor counts as silent."""
ALIGNMENT_MARGIN = 1.2
"""Speed of an alignment over the speed from which on the estimator uses the course over ground:
GNSS velocity has noise."""


def check(profile: Profile) -> list[Note]:
    """Return all remarks on a valid profile; reads its course."""
    return [
        *_vehicle(profile),
        *_estimator(profile),
        *noise_of(profile),
        *devices_of(profile),
        *_corrections(profile),
        *_receiver_inputs(profile),
        *_tasks(profile),
        *_twin(profile),
        *_course(profile),
        *_stop(profile),
        *_rc(profile),
    ]


def _rc(profile: Profile) -> Iterator[Note]:
    """Note what an RC receiver leaves open: how the loss of its handset is seen, and what no switch
    of it can do."""
    rc, name = profile.rc, rc_device(profile)
    if rc is None or not name:
        return
    driver = profile.devices[name].driver.name
    if driver == "ibus" and rc.failsafe is None and not rc.still_s:
        yield Note(
            "rc.failsafe",
            "an iBUS receiver does not say that it has lost its handset, and as delivered "
            "repeats the last frame for ever: set its failsafe to a throttle below the lowest, "
            "and write it here; docs/rc.md",
            level="warning",
        )
    if not rc.failsafe_tested:
        yield Note(
            "rc.failsafe_tested",
            "no test is recorded: with the wheels off the ground switch the handset off while it "
            "drives, see the stop, and write the date",
            level="warning",
        )
    if rc.kill is None:
        yield Note(
            "rc.kill",
            "the handset has no kill switch: its operator can stop the vehicle by driving it only",
        )
    if (
        rate_hz := profile.devices[name].rate_hz
    ) is not None and rate_hz * profile.limits.teleop_silence_s <= 2.0:
        silence_s = profile.limits.teleop_silence_s
        yield Note(
            f"devices.{name}.rate_hz",
            f"at {rate_hz:g} Hz one lost frame may stop the operator's drive, which ends after "
            f"{silence_s:g} s without one (limits.teleop_silence_s): choose a higher packet rate",
            level="warning",
        )


def _vehicle(profile: Profile) -> Iterator[Note]:
    vehicle, limits = profile.vehicle, profile.limits
    top = vehicle.drive.top_speed_mps
    if limits.max_speed_mps > _REACHABLE * top:
        yield Note(
            "limits.max_speed_mps",
            (
                f"{limits.max_speed_mps:g} m/s is never reached: [vehicle.drive] tops out at "
                f"{top:.2f} m/s"
            ),
        )
    if limits.capped_speed_mps > limits.max_speed_mps:
        yield Note(
            "limits.capped_speed_mps",
            f"never acts: it is above max_speed_mps = {limits.max_speed_mps:g}",
        )
    steering = vehicle.steering
    reach = steering.gain_rad + abs(steering.offset_rad)
    if reach < steering.max_wheel_rad:
        yield Note(
            "vehicle.steering.max_wheel_rad",
            (
                f"{steering.max_wheel_rad:g} rad is never reached: full command turns the wheel by "
                f"{reach:.3f} rad at most"
            ),
        )
    brakes = vehicle.drive.brake_deceleration_mps2 > 0.0
    mixings = mixings_of(profile)
    for name, device in profile.devices.items():
        if name in mixings and not mixings[name].drives:
            continue
        if device.capabilities is not None and device.capabilities.brake != brakes:
            says = "has a brake" if device.capabilities.brake else "has no brake"
            yield Note(
                f"devices.{name}.capabilities.brake",
                (
                    f"the device {says}, but vehicle.drive.brake_deceleration_mps2 = "
                    f"{vehicle.drive.brake_deceleration_mps2:g}"
                ),
            )


def _estimator(profile: Profile) -> Iterator[Note]:
    if profile.estimator.name in ("ekf4_published", "ekf4_paper"):
        yield Note(
            "estimator.name",
            (
                f"{profile.estimator.name} repeats a published filter, whose sigma is too small: "
                "drive with ekf4, planar or ins"
            ),
            level="warning",
        )


def noise_of(profile: Profile) -> Iterator[Note]:
    """Warn of noise that is injected, and refuse to inject what is not stated."""
    if not profile.inject_noise:
        return
    text = injected(profile)
    if not text:
        yield Note(
            "inject_noise",
            "no device has a table [devices.NAME.noise] that adds anything: write one, or leave "
            "--noise out",
            level="error",
        )
        return
    yield Note("inject_noise", f"noise is added to what sensors measure: {text}", level="warning")


def devices_of(profile: Profile, *, simulated: bool = False) -> Iterator[Note]:
    """Iterate over what the devices lack. ``simulated`` judges a simulation, whose operator arms by
    a device."""
    carried = {message for device in profile.devices.values() for message in device.messages}
    needs = {
        "GnssFix": ("the estimator can never start", "a GNSS receiver"),
        "ImuSample": (
            "the estimator has no measured yaw rate and the vehicle may never drive (imu_silent)",
            "an inertial sensor",
        ),
    }
    if "MapPose" in carried:
        del needs["GnssFix"]
    elif "LaserScan" in carried and profile.localisation is None and "GnssFix" not in carried:
        del needs["GnssFix"]
        yield Note(
            "localisation",
            "no device gives GnssFix, and no map is named: the vehicle can only be driven by "
            "hand; build a map of such a drive (vehicled map build), and name it: "
            "localisation.map",
        )
    elif profile.localisation is not None:
        del needs["GnssFix"]
    for message, (consequence, device) in needs.items():
        if message not in carried:
            yield Note(
                "devices",
                (
                    f"no device gives {message}: {consequence}; add {device}, or write messages = "
                    f'["{message}"] for the one that is it'
                ),
                level="error",
            )
    if "Heading" not in carried and "GnssFix" in carried:
        yield from _no_heading(profile)
    if "OperatorCommand" not in carried:
        yield Note(
            "devices",
            "no device gives OperatorCommand: the simulator's operator cannot arm the vehicle, "
            "and a run does not start; add "
            '[devices.operator] with driver = "msglink" and messages = ["OperatorCommand"] '
            "(on the vehicle itself 'vehicled arm' or the page arm it without)",
            level="error" if simulated else "warning",
        )
    silence_s = profile.limits.imu_silence_s
    for name, table in profile.devices.items():
        if (
            "ImuSample" in table.messages
            and table.rate_hz
            and silence_s * table.rate_hz < LEAST_IMU_SAMPLES
        ):
            yield Note(
                "limits.imu_silence_s",
                f"{silence_s:g} s are less than {LEAST_IMU_SAMPLES} samples of devices.{name} "
                f"({table.rate_hz:g} Hz): a few that are lost stop the vehicle; write "
                f"{LEAST_IMU_SAMPLES / table.rate_hz:g} or more",
            )


def _corrections(profile: Profile) -> Iterator[Note]:
    takers = {
        name
        for name, table in profile.devices.items()
        if Corrections in resolve("driver", table.driver.name).consumes
    }
    stations = [
        name
        for name, table in profile.devices.items()
        if "Corrections" in table.messages and name not in takers
    ]
    for name in sorted(takers):
        table = profile.devices[name]
        if len(stations) > 1 and table.corrections_from is None and "GnssFix" in table.messages:
            yield Note(
                f"devices.{name}.corrections_from",
                (
                    f"takes the corrections of {' and of '.join(stations)}, but a receiver "
                    "computes from one station: name one here"
                ),
            )


def _receiver_inputs(profile: Profile) -> Iterator[Note]:
    """Note what a receiver is sent and cannot read, and what it waits for in vain."""
    spartn = {
        name
        for name, table in profile.devices.items()
        if getattr(table.driver.selected, "protocol", "") in ("spartn", "pmp")
    }
    given = {message for table in profile.devices.values() for message in table.messages}
    for name, table in profile.devices.items():
        params = table.driver.selected
        sources = spartn if table.corrections_from is None else spartn & set(table.corrections_from)
        takes = (
            Corrections in resolve("driver", table.driver.name).consumes
            and "GnssFix" in table.messages
        )
        if sources and takes and not getattr(params, "spartn", False):
            yield Note(
                f"devices.{name}.driver",
                f"gets SPARTN of {' and of '.join(sorted(sources))}, which it does not read: a "
                "u-blox receiver that can needs spartn = true; for others write corrections_from",
                level="warning",
            )
        needed = (
            "MotorStatus" if getattr(params, "metres_per_motor_radian", 0.0) > 0.0 else "WheelSpeed"
        )
        if getattr(params, "wheel_speed_hz", 0.0) > 0.0 and needed not in given:
            yield Note(
                f"devices.{name}.driver.{table.driver.name}.wheel_speed_hz",
                f"no device gives {needed}, so that no speed is sent; for a motor controller "
                "with MotorStatus state metres_per_motor_radian",
                level="warning",
            )


def _no_heading(profile: Profile) -> Iterator[Note]:
    """Note the needs of a vehicle without a heading device."""
    others = "push it 3 m forward or drive it by hand"
    how = f"vehicled mode align, or {others}" if profile.alignment.allowed else others
    yield Note(
        "devices",
        (
            "no device gives Heading: the vehicle learns it by moving, so align it before it is "
            f"armed ({how})"
        ),
    )
    tuning = profile.estimator.selected
    least_mps = getattr(getattr(tuning, "gnss", tuning), "course_min_speed_mps", 0.0)
    speed_mps = min(profile.alignment.speed_mps, profile.limits.max_speed_mps)
    if profile.alignment.allowed and speed_mps < ALIGNMENT_MARGIN * least_mps:
        yield Note(
            "alignment.speed_mps",
            f"at {speed_mps:g} m/s the estimator may take no course over ground "
            f"(course_min_speed_mps = {least_mps:g}): write {ALIGNMENT_MARGIN * least_mps:g} or "
            "more, and allow as much in limits.max_speed_mps",
            level="warning",
        )


def _tasks(profile: Profile) -> Iterator[Note]:
    free = [name for name, task in structs.asdict(profile.tasks).items() if not task.declared_us]
    if free:
        yield Note(
            "tasks",
            f"{', '.join(free)}: declared_us is missing or 0, so lockstep charges nothing and a "
            "deadline is always met there; write what the task takes on your computer, or "
            "measure it: vehicled doctor --measure-board FILE",
        )
    for name, task in structs.asdict(profile.tasks).items():
        if task.declared_us > 1000.0 * task.deadline_ms:
            yield Note(
                f"tasks.{name}.declared_us",
                (
                    f"{task.declared_us:g} us is more than the deadline of {task.deadline_ms:g} "
                    "ms: in lockstep every release misses"
                ),
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
    for name, device in profile.devices.items():
        for message in device.messages:
            sensor = SENSORS.get(message)
            if sensor is None or device.rate_hz is None:
                continue
            sends_hz = getattr(sim, sensor).rate_hz
            if sends_hz != device.rate_hz:
                text = (
                    f"{device.rate_hz:g} Hz, but the twin sends at sim.{sensor}.rate_hz = "
                    f"{sends_hz:g}"
                )
                yield Note(f"devices.{name}.rate_hz", text)


def _differences(key: str, believed: float, true: float) -> Iterator[Note]:
    if believed != true:
        yield Note(f"sim.{key}", f"the twin has {true:g} where [vehicle] believes {believed:g}")


def _course(profile: Profile) -> Iterator[Note]:
    from vehicled.paths import CourseError
    from vehicled.paths.catalog import load_course

    try:
        load_course(profile.course)
    except CourseError as error:
        yield Note("course", str(error), level="error")


def _stop(profile: Profile) -> Iterator[Note]:
    """Note if no independent stop covers faults that no command can."""
    stop = profile.safety.independent_stop
    key = "safety.independent_stop"
    top_mps = profile.limits.max_speed_mps
    if stop.kind == "none":
        level: Level = "warning" if stop.required else "note"
        yield Note(key, stop.refusal or stop.notice, level=level)
        return
    distance_m = stop.stop_distance_m(profile.vehicle.drive, top_mps)
    how = f"{stop.deceleration_mps2:g} m/s2" if stop.deceleration_mps2 else "coasting"
    reach = (
        f"{distance_m:.1f} m"
        if isfinite(distance_m)
        else "no distance: without deceleration_mps2 and friction it rolls on"
    )
    yield Note(
        key,
        (
            f"from {top_mps:g} m/s the vehicle stops within {reach} ({stop.reaction_s:g} s to the "
            f"cut, then {how})"
        ),
    )
    if stop.reaction_s > SLOW_STOP_S:
        yield Note(
            f"{key}.reaction_s",
            f"{stop.reaction_s:g} s is slow: {top_mps * stop.reaction_s:.1f} m pass before it cuts",
            level="warning",
        )
    if not stop.last_tested:
        yield Note(
            f"{key}.last_tested",
            "no test is recorded: test it with the wheels off the ground and write the date",
            level="warning",
        )
