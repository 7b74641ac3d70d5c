"""Composition root: builds the machine from a profile and a course."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, structs

from vehicled.control.interface import Controller
from vehicled.core import messages
from vehicled.core.attribution import EvidenceSource
from vehicled.core.errors import SetupError
from vehicled.core.executive import DeclaredStopwatch, Stopwatch
from vehicled.core.journal import Sink
from vehicled.core.messages import (
    GearReport,
    GnssFix,
    GroundTruth,
    Message,
    ObstacleContact,
    ReferenceState,
)
from vehicled.core.mixing import Mixing
from vehicled.core.observers import Observers
from vehicled.core.ports import Device
from vehicled.core.tasks import PIPELINE
from vehicled.daemon.actuation import Actuation, ActuatorRole
from vehicled.daemon.live_changes import ControllerBuilder
from vehicled.daemon.machine import Machine, RateRow
from vehicled.daemon.pipeline import MEASUREMENTS, RANGES, Pipeline
from vehicled.daemon.recognition import UnreadBytes
from vehicled.daemon.reference import ReferenceFrame
from vehicled.estimation.interface import Estimator
from vehicled.maps.grid import OccupancyGrid
from vehicled.maps.localiser import MapLocaliser
from vehicled.paths.course import Course
from vehicled.profile.mixing import mixings_of
from vehicled.profile.rc import rc_map
from vehicled.profile.registry import resolve
from vehicled.profile.schema import DeviceTable as DeviceTable
from vehicled.profile.schema import Profile, TaskRate
from vehicled.safety.fence import Fence
from vehicled.safety.gate import Gate
from vehicled.safety.matrix import CAPABILITIES, substitutes
from vehicled.safety.monitors.inertial import Mounting
from vehicled.safety.monitors.scans import MotionHistory
from vehicled.safety.monitors.sources import MonitoredSource
from vehicled.safety.supervisor import Supervisor

COMMAND_LIFETIME_NS = 50_000_000
"""An actuator command that has not left within this time is dropped, because the next one is
due."""

MESSAGE_DRIVER = "msglink"
"""Driver of every device on the message link."""

OWN_WIRE = frozenset(
    {"OperatorCommand", "TeleopCommand", "Heartbeat", "ObstacleRange", "LaserScan"}
)
"""Messages that have no device protocol and pass a port as they are, also with ``--link wires``."""

TRUTH_PORT = "truth"
"""Port of the simulator's ground truth, which is logged and scored, never given to a task. On a
vehicle it stays closed."""


class Wiring(Struct, frozen=True, kw_only=True):
    """Result of the composition, for the runtime and the log's header."""

    link: str
    """``messages`` or ``wires``."""
    ports: list[str]
    actuators: list[str]
    """Devices that drive and steer, in the order of the profile."""
    rates: dict[str, RateRow]


def rate_row(task: TaskRate) -> RateRow:
    """Convert a task table of the profile to a row of the rate table."""
    return RateRow(
        rate_hz=task.rate_hz,
        deadline_ns=round(task.deadline_ms * 1e6),
        phase_ns=round(task.phase_ms * 1e6),
        catch_up=task.policy == "catch_up",
        declared_ns=round(task.declared_us * 1e3),
    )


def wire(profile: Profile, link: str) -> Wiring:
    """Return ports and rates of a profile. ``link`` is ``messages`` or ``wires``. Raises
    :class:`SetupError`."""
    if link == "wires":
        # Simulated persons and some obstacle sensors have no device protocol.
        lacking = [
            name
            for name, d in profile.devices.items()
            if d.driver.name == MESSAGE_DRIVER and not OWN_WIRE.issuperset(d.messages)
        ]
        if lacking:
            raise SetupError(
                f"profile {profile.name!r} names no wire driver for {', '.join(lacking)} "
                f'(driver = "{MESSAGE_DRIVER}"), '
                "so it cannot run with --link wires: use --link messages"
            )
    actuators = [
        name for name, device in profile.devices.items() if device.capabilities is not None
    ]
    if not actuators:
        raise SetupError(
            f"profile {profile.name!r} has no device with [capabilities]: one at least must be "
            "the actuator"
        )
    ports = [*profile.devices, TRUTH_PORT]
    rows = structs.asdict(profile.tasks)
    return Wiring(
        link=link,
        ports=ports,
        actuators=actuators,
        rates={name: rate_row(rows[name]) for name in PIPELINE},
    )


def declared_stopwatch(wiring: Wiring) -> DeclaredStopwatch:
    """Return a stopwatch of virtual time with the declared task costs of the profile."""
    return DeclaredStopwatch([wiring.rates[name].declared_ns for name in PIPELINE])


def build(
    profile: Profile,
    course: Course,
    wiring: Wiring,
    stopwatch: Stopwatch,
    sink: Sink,
    evidence_source: EvidenceSource | None = None,
    *,
    fence: Fence | None = None,
    around: Callable[[Estimator, Controller], tuple[Estimator, Controller]] | None = None,
    setup_fault: str = "",
    virtual: bool,
    observers: Observers | None = None,
    grid: OccupancyGrid | None = None,
) -> Machine:
    """Build the machine of a vehicle. ``around`` may replace estimator and controller.

    ``setup_fault`` is the reason why this profile must not be armed on this computer; empty if it
    may. ``observers`` counts the failures of what only explains the run. ``grid``: the map of
    ``[localisation]``. Raises :class:`SetupError` and MapError.
    """
    estimator_class = resolve("estimator", profile.estimator.name)
    identifier = None
    if profile.identifier is not None:
        identifier = resolve("identifier", profile.identifier.name)(
            profile.identifier.selected, profile.vehicle
        )
    controller_class = resolve("controller", profile.controller.name)
    period_s = 1.0 / profile.tasks.control.rate_hz

    def make_controller(params: Any, course: Course) -> Controller:
        made: Controller = controller_class(
            params, profile.vehicle, profile.limits, course, period_s
        )
        return made

    antenna_m = profile.lever_arm_m(GnssFix.__name__) or (0.0, 0.0, 0.0)
    estimator = estimator_class(
        profile.estimator.selected, profile.vehicle, course.datum, antenna_m
    )
    controller = make_controller(profile.controller.selected, course)
    if around is not None:
        estimator, controller = around(estimator, controller)
    pipeline = Pipeline(
        sources=sources(profile),
        vehicle=profile.vehicle,
        limits=profile.limits,
        estimator=estimator,
        identifier=identifier,
        course=course if controller_class.follows_course else None,
        fence=fence,
        antenna_m=antenna_m[:2],
        alignment=profile.alignment,
        datum=course.datum,
        speed=getattr(profile.controller.selected, "speed", None),
        telemetry="telemetry" not in lacking(profile),
        mounting=imu_mounting(profile),
        rc=rc_map(profile),
        control_frame=profile.control_frame,
        controller=controller,
        builder=ControllerBuilder(
            make_controller,
            controller_class,
            profile.controller.selected,
            course,
            profile.vehicle,
            profile.limits,
            fence,
        ),
        supervisor=Supervisor(),
        gate=Gate(profile.vehicle, profile.limits),
        sink=sink,
        observers=observers,
        localiser=_localiser(profile, grid),
    )
    stop = profile.safety.independent_stop
    pipeline.setup_fault = setup_fault or stop.refusal
    pipeline.independent_stop = stop.described
    pipeline.substitutes = (
        *substitutes(lacking(profile)),
        *unseen_steering(profile),
        *([stop.notice] if stop.notice else []),
    )
    mixings = mixings_of(profile)
    devices = {
        port: make_device(
            port, profile.devices, wiring.link, mixings.get(port), noisy=profile.inject_noise
        )
        for port in wiring.ports
    }
    return Machine(
        devices=devices,
        actuator=Actuation(devices, actuator_roles(profile)),
        pipeline=pipeline,
        rates=wiring.rates,
        stopwatch=stopwatch,
        sink=sink,
        evidence_source=evidence_source,
        virtual=virtual,
        corrections=corrections_routes(profile.devices, devices),
        references={
            name: ReferenceFrame(course.datum, table.lever_arm_m).truth
            for name, table in profile.devices.items()
            if ReferenceState.__name__ in table.messages
        },
        truth_port=TRUTH_PORT,
        unread=_unread(profile, devices, pipeline.observers),
    )


def _localiser(profile: Profile, grid: OccupancyGrid | None) -> MapLocaliser | None:
    params = profile.localisation
    if params is None:
        return None
    if grid is None:
        raise SetupError(
            f"profile {profile.name!r} is located on the map {params.map}, which was not read"
        )
    arm = (
        profile.devices[params.scanner].lever_arm_m
        if params.scanner
        else profile.lever_arm_m(messages.LaserScan.__name__)
    )
    return MapLocaliser(params, grid, MotionHistory(), None if arm is None else (arm[0], arm[1]))


def _unread(
    profile: Profile, devices: Mapping[str, Device], observers: Observers
) -> dict[str, UnreadBytes]:
    """Return what describes the bytes of each port that carries a stream."""
    drivers = {
        name: table.driver.name
        for name, table in profile.devices.items()
        if devices[name].transport == "stream"
    }
    return {
        name: UnreadBytes(
            driver, {each: other for other, each in drivers.items() if other != name}, observers
        )
        for name, driver in drivers.items()
    }


def corrections_routes(
    tables: Mapping[str, DeviceTable], devices: Mapping[str, Device]
) -> dict[str, frozenset[str]]:
    """Ports of the sources of corrections by the port of each receiver that takes any."""
    sources = frozenset(name for name, table in tables.items() if "Corrections" in table.messages)
    # A receiver that takes corrections and sends some is a moving base: they hold for the rovers
    # beside it and for nobody else.
    bases = frozenset(name for name in sources if messages.Corrections in devices[name].consumes)
    routes = {}
    for name, table in tables.items():
        if messages.Corrections not in devices[name].consumes:
            continue
        if table.corrections_from is not None:
            routes[name] = frozenset(table.corrections_from)
        else:
            routes[name] = bases - {name} if devices[name].moving_base_rover else sources - bases
    return routes


def lacking(profile: Profile) -> frozenset[str]:
    """Return the capabilities that an actuator of a profile lacks. Telemetry and brake are those of
    the motors."""
    mixings = mixings_of(profile)
    found = {
        port: device.capabilities
        for port, device in profile.devices.items()
        if device.capabilities is not None
    }
    steers_only = {port for port, mixing in mixings.items() if not mixing.drives}
    return frozenset(
        name
        for name in CAPABILITIES
        for port, have in found.items()
        if not getattr(have, name) and (name == "readable_timeout" or port not in steers_only)
    )


def unseen_steering(profile: Profile) -> list[str]:
    """Return one text per device that steers apart from the motors and sends no telemetry: what its
    loss shows by."""
    mixings = mixings_of(profile)
    return [
        f'row 17, "{port}" sends no telemetry: only a port that goes away is noticed; a servo '
        "that stays where it is, ends at "
        "row 19"
        for port, device in profile.devices.items()
        if device.capabilities is not None
        and port in mixings
        and not mixings[port].drives
        and not device.capabilities.telemetry
    ]


def imu_mounting(profile: Profile) -> Mounting:
    """Return the mounting of the first IMU of a profile, and where the profile states it."""
    for name, device in profile.devices.items():
        params = device.driver.selected
        if messages.ImuSample.__name__ in device.messages and hasattr(params, "mounting_roll_rad"):
            return Mounting(
                table=f"devices.{name}.driver.{device.driver.name}",
                roll_rad=params.mounting_roll_rad,
                pitch_rad=params.mounting_pitch_rad,
                yaw_rad=params.mounting_yaw_rad,
            )
    return Mounting()


def sources(profile: Profile) -> list[MonitoredSource]:
    """Return the sensor streams of a profile with their timeouts: the profile's for GNSS and IMU,
    else ten periods."""
    explicit = {
        messages.GnssFix: profile.limits.gnss_silence_s,
        messages.ImuSample: profile.limits.imu_silence_s,
    }
    found = []
    for name, device in profile.devices.items():
        if device.capabilities is not None or device.rate_hz is None:
            continue
        for message in _types(device):
            if message not in MEASUREMENTS | RANGES:
                # The drive does not wait for corrections, the ground, pulses or who judges it.
                continue
            silence_s = explicit.get(message, 10.0 / device.rate_hz)
            found.append(
                MonitoredSource(
                    name=name,
                    message=message,
                    silence_ns=round(silence_s * 1e9),
                    rate_hz=device.rate_hz,
                )
            )
    return found


def actuator_roles(profile: Profile) -> dict[str, ActuatorRole]:
    """Return the part of each actuator in the vehicle's motion, in the order of the profile."""
    mixings = mixings_of(profile)
    return {
        name: ActuatorRole(
            drives=name not in mixings or mixings[name].drives, reports=frozenset(_types(table))
        )
        for name, table in profile.devices.items()
        if table.capabilities is not None
    }


def make_device(
    port: str,
    tables: Mapping[str, DeviceTable],
    link: str,
    mixing: Mixing | None = None,
    *,
    noisy: bool = False,
) -> Device:
    """Return the driver of a port. ``link``: ``messages`` in place of its own protocol, or
    ``wires``. ``mixing``: rows of its outputs, None for a driver that has none. ``noisy``: with the
    noise of its table.
    """
    table = tables.get(port)
    accepts = [GroundTruth, ObstacleContact, GearReport] if table is None else _types(table)
    if table is None or link == "messages":
        driver = resolve("driver", MESSAGE_DRIVER)
        params = driver.Params()
    else:
        driver, params = resolve("driver", table.driver.name), table.driver.selected
    device: Device = driver(params, accepts, COMMAND_LIFETIME_NS)
    if table is not None and noisy and table.noise is not None:
        from vehicled.daemon.noise import NoisyDevice

        device = NoisyDevice(device, table.noise, port)
    if table is not None:
        device.mount(table.lever_arm_m)
        if mixing is not None and link == "wires":
            device.mix(mixing)
    return device


def _types(table: DeviceTable) -> list[type[Message]]:
    return [getattr(messages, name) for name in table.messages]
