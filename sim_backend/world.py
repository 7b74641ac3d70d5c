"""World of the simulator: plant, sensors and scenario on one fixed grid. Pure: takes times and
bytes, returns bytes with times.

Causality: the step that begins at grid point k uses the commands stamped up to k, and runs only
when all of them are known: ``advance(to_ns)`` steps while the grid is before ``to_ns``. So the
result does not depend on the call instants.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from math import prod

from msgspec import Struct

from sim_backend.contact.fit import check_start
from sim_backend.contact.geometry import Obstacles
from sim_backend.contact.plant import ContactPlant, ContactPoint
from sim_backend.emulators.failing import FailingEmulator
from sim_backend.emulators.failures import Failure
from sim_backend.emulators.interface import NEVER_NS, Emulator
from sim_backend.emulators.lidar import sweep
from sim_backend.emulators.mocap import driver_of as mocap_driver_of
from sim_backend.emulators.msglink import MsgLinkEmulator
from sim_backend.emulators.point_lidar import point_sweep
from sim_backend.emulators.registry import emulator
from sim_backend.emulators.v2v import V2vRadio
from sim_backend.hand import HandError, HandledPlant
from sim_backend.latency import delayed
from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import (
    Motion,
    Plant,
    RigidPlant,
    VehicleLostError,
    gear_of,
    interpolate,
    pushable,
)
from sim_backend.plant.joint import JointActuators
from sim_backend.plant.registry import plant_class
from sim_backend.scenario import PUSH_AFTER_NS, AlignmentOperator, PushedPlant, Start, default_start
from sim_backend.scene.reading import load_scene
from sim_backend.scene.scene import Scene, ScenePose
from sim_backend.scene.traffic import Traffic, TrafficClock, traffic_of
from sim_backend.sensors.drive_train import MotorStatusSensor, SteeringFeedbackSensor, WheelEncoders
from sim_backend.sensors.gnss import Gnss
from sim_backend.sensors.gnss_zones import with_zones
from sim_backend.sensors.handset import HandsetSensor
from sim_backend.sensors.imu_detailed import imu_sensor
from sim_backend.sensors.interface import Sensor
from sim_backend.sensors.lidar import Lidar
from sim_backend.sensors.magnetometer import heading_sensor
from sim_backend.sensors.mocap import Mocap
from sim_backend.sensors.obstacle import ObstacleSensor
from sim_backend.sensors.point_lidar import PointLidarSensor
from sim_backend.sensors.reference import Reference
from sim_backend.sensors.time_pulse import TimePulseSensor
from sim_backend.sensors.truth import GearSensor, Truth
from sim_backend.terrain.reading import load_terrain
from vehicled.core.messages import (
    Gear,
    Message,
    NeighbourState,
    ObstacleContact,
    OperatorAction,
    OperatorCommand,
)
from vehicled.paths.course import Course
from vehicled.profile.mixing import mixings_of
from vehicled.profile.rc import rc_map
from vehicled.profile.registry import resolve
from vehicled.profile.schema import DeviceTable, Profile

OPERATOR_PORT = "operator"
TRUTH_PORT = "truth"
SIMULATED_UTC_NS = 1_767_225_600_000_000_000
"""UTC at the start of a lockstep run: 2026-01-01T00:00:00Z. Fixed, so that equal seeds give equal
bytes."""
ARM_AFTER_NS = 300_000_000
DRIVE_AFTER_NS = 500_000_000

Arrival = tuple[int, int, bytes]
"""Tuple of t_rx_ns, port number, bytes."""


def port_names(profile: Profile) -> list[str]:
    """Return the port names by number: the profile's devices in order, then operator and truth if
    not among them."""
    return list(dict.fromkeys((*profile.devices, OPERATOR_PORT, TRUTH_PORT)))


class _Channel:
    """Sensor on its port with its next sample time. The first sample is one interval after the
    start."""

    __slots__ = ("_count", "_interval_ns", "_start_ns", "due_ns", "port", "sensor")

    def __init__(
        self, sensor: Sensor | AlignmentOperator | TrafficClock, port: int, start_ns: int
    ) -> None:
        self.sensor = sensor
        self.port = port
        self._start_ns = start_ns
        self._interval_ns = 1e9 / sensor.rate_hz
        self._count = 0
        self.due_ns = start_ns
        self.next()

    def next(self) -> None:
        """Set the next sample time. Computed from the start, so that rates which do not divide a
        second do not drift."""
        self._count += 1
        self.due_ns = self._start_ns + round(self._count * self._interval_ns)


def contact_message(contact: ContactPoint, start_ns: int) -> ObstacleContact:
    """Return a contact as a message; scene times count from ``start_ns``."""
    t_ns = start_ns + round(contact.time_s * 1e9)
    return ObstacleContact(
        t_ns,
        t_ns,
        contact.x_m,
        contact.y_m,
        contact.bearing_rad,
        contact.speed_mps,
        contact.impulse_ns,
        contact.what,
    )


class WorldSetup(Struct, frozen=True, kw_only=True):
    """Settings of a run, from which its world is made once the clock is known; see
    :class:`World`."""

    profile: Profile
    course: Course
    seed: int
    wires: bool
    failures: Sequence[Failure]
    scenario: bool
    start: Start | None

    @property
    def named(self) -> dict[str, str]:
        """Names of the simulated parts, for the greeting."""
        profile = self.profile
        world = {
            "profile": profile.name,
            "plant": profile.sim.plant,
            "course": self.course.name,
            "seed": str(self.seed),
            "link": "wires" if self.wires else "messages",
        }
        if latency := str(profile.sim.latency):
            world["latency"] = latency
        return world

    def world(self, start_ns: int, utc_ns: int, traffic: Traffic | None = None) -> "World":
        """Return the world that begins at ``start_ns``, when it is ``utc_ns``. ``traffic``: that of
        a fleet, which lets it decide."""
        return World(
            self.profile, self.course, self.seed, start_ns, utc_ns,
            wires=self.wires, failures=self.failures, scenario=self.scenario, start=self.start,
            traffic=traffic,
        )  # fmt: skip


class World:
    """One vehicle on one course, at standstill on its first point or behind it, with a scenario
    that arms it and starts AUTO."""

    def __init__(
        self,
        profile: Profile,
        course: Course,
        seed: int,
        start_ns: int,
        utc_ns: int = SIMULATED_UTC_NS,
        *,
        wires: bool = False,
        failures: Sequence[Failure] = (),
        scenario: bool = True,
        start: Start | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """``start`` says how the vehicle finds its heading; None: as the profile asks.
        ``traffic``: see :meth:`WorldSetup.world`; None: that of the profile.

        ``utc_ns`` is the UTC at ``start_ns``. With ``wires`` every device uses the protocol of its
        driver, else messages.

        Without ``scenario`` the vehicle is not armed until :meth:`begin_scenario`.

        Raises :class:`sim_backend.plant.registry.UnknownPlantError`,
        :class:`sim_backend.emulators.registry.UnknownEmulatorError`,
        :class:`sim_backend.scene.errors.SceneError` and
        :class:`sim_backend.emulators.failures.FailureError`.
        """
        sim = profile.sim
        self._step_ns = round(sim.step_ms * 1e6)
        self._drive = sim.drive or profile.vehicle.drive
        self._start_ns = self._grid_ns = start_ns
        self._start: Start = start or default_start(profile)
        self.scene: Scene = load_scene(sim.scene, course)
        """Obstacles that the vehicle's scanners see."""
        pose = check_start(self.scene, profile, course, self._start)
        own_traffic = None
        if traffic is None:
            place = ScenePose(pose.x_m, pose.y_m, pose.yaw_rad)
            own_traffic = traffic_of(sim.traffic, sim.scene, course.datum, seed, [place])
        cars = traffic or own_traffic
        for number, body in enumerate(cars.bodies if cars is not None else (), start=1):
            self.scene.add_moving(body, f"car {number}")
        self._plant: Plant = plant_class(sim.plant)(sim, pose, self._step_ns * 1e-9)
        # Contact and pushes wrap the plant, and have no gear.
        self._gear = partial(gear_of, self._plant)
        self._turn_rear: Callable[[float], None] = getattr(
            self._plant, "turn_rear", lambda factor: None
        )
        self._contact = (
            self._in_scene(profile) if not self.scene.empty and sim.contact != "none" else None
        )
        self._ends_on_contact = sim.contact == "end"
        self._lost: VehicleLostError | None = None
        if self._start == "push":
            self._plant = PushedPlant(self._plant, profile, self._step_ns * 1e-9)
        self._actuators = Actuators(sim, start_ns, self._step_ns)
        self._joint = JointActuators(profile, wires=wires)
        self._names = port_names(profile)
        self._steering = 0.0
        """Steering that acts; kept where the wheels are stuck."""
        self._rears = [1.0] * len(self._names)
        self._pending: list[tuple[int, int, int, bytes]] = []
        self._queued = 0
        self._emulators: list[Emulator] = []
        self._channels: list[_Channel] = []
        names = self._names
        if own_traffic is not None:
            # Before the sensors that look at the same time.
            clock = TrafficClock(own_traffic, profile.vehicle.outline, start_ns)
            self._channels.append(_Channel(clock, names.index(TRUTH_PORT), start_ns))
        for name in names:
            device = profile.devices.get(name)
            self._emulators.append(
                emulator(name, device, seed, start_ns, wires=wires, failures=failures)
            )
        for port, (name, device) in enumerate(profile.devices.items()):
            own = partial(self._failures, port)
            for sensor in _sensors(
                name,
                device,
                profile,
                course,
                self._actuators,
                seed,
                start_ns,
                utc_ns,
                self.scene,
                own,
                wires=wires,
            ):
                self._channels.append(_Channel(sensor, port, start_ns))
        self._channels.append(_Channel(Truth(self._actuators), names.index(TRUTH_PORT), start_ns))
        if self._gear() is not Gear.UNKNOWN:
            self._channels.append(
                _Channel(GearSensor(self._gear), names.index(TRUTH_PORT), start_ns)
            )
        # Of the operator's requests and of the truth nothing is delayed: they pass no sensor and no
        # actuator.
        self._sensing = [
            delayed(sim.latency, "sensing", seed, name)
            if name in profile.devices and name != OPERATOR_PORT
            else None
            for name in names
        ]
        self._actuation = [
            delayed(sim.latency, "actuation", seed, name)
            if device is not None and device.capabilities is not None
            else None
            for name, device in ((name, profile.devices.get(name)) for name in names)
        ]
        self._late: deque[tuple[int, int, bytes | int]] = deque()
        self._due_ns = min(channel.due_ns for channel in self._channels)
        self._duty_ns = NEVER_NS
        for port in range(len(names)):
            self._collect(port)
        self._radios = [
            port
            for port, device in enumerate(profile.devices.values())
            if NeighbourState.__name__ in device.messages
        ]
        self._operator, self._truth = names.index(OPERATOR_PORT), names.index(TRUTH_PORT)
        if scenario:
            self.begin_scenario(start_ns)

    def _in_scene(self, profile: Profile) -> ContactPlant:
        """Put the plant into the scene, which then pushes it back."""
        assert pushable(self._plant), "check_scene sees to it"
        obstacles = Obstacles(self.scene, profile.vehicle.outline)
        found = ContactPlant(self._plant, obstacles, profile.vehicle.mass_kg, self._step_ns * 1e-9)
        self._plant = found
        return found

    def by_hand(self) -> HandledPlant:
        """Return the vehicle as a person moves it. Raises :class:`sim_backend.hand.HandError` for a
        plant that cannot be moved."""
        plant = self._plant
        if not isinstance(plant, HandledPlant):
            if not pushable(plant):
                raise HandError(
                    "this vehicle cannot be moved by hand: use another plant, --start stand "
                    "and no scene"
                )
            drive = self._drive
            plant = self._plant = HandledPlant(
                plant, drive.wheel_radius_m, drive.gear_ratio, self._step_ns * 1e-9
            )
        return plant

    def begin_scenario(self, now_ns: int) -> None:
        """Let the operator arm the vehicle and start AUTO from now on, after an alignment or a push
        if required."""
        if self._start != "stand":
            operator = AlignmentOperator(now_ns, aligns=self._start == "align")
            self._channels.append(_Channel(operator, self._operator, now_ns))
            self._due_ns = min(self._due_ns, self._channels[-1].due_ns)
            if isinstance(self._plant, PushedPlant):
                self._plant.begin((now_ns - self._grid_ns + PUSH_AFTER_NS) * 1e-9)
            return
        for after_ns, action in (
            (ARM_AFTER_NS, OperatorAction.ARM),
            (DRIVE_AFTER_NS, OperatorAction.DRIVE),
        ):
            self._send(
                self._operator,
                OperatorCommand(now_ns + after_ns, 0, action, "scenario"),
                now_ns + after_ns,
            )

    @property
    def rigid(self) -> RigidPlant | None:
        """Plant that contact with other vehicles pushes back; None for one that cannot be
        pushed."""
        plant = self._plant if self._contact is None else self._contact
        return plant if pushable(plant) else None

    def take_broadcasts(self) -> list[tuple[int, NeighbourState]]:
        """Drain what the vehicle's radio has broadcast, with the times."""
        found: list[tuple[int, NeighbourState]] = []
        for port in self._radios:
            device = self._emulators[port]
            radio = device.emulator if isinstance(device, FailingEmulator) else device
            if isinstance(radio, MsgLinkEmulator | V2vRadio) and radio.broadcasts:
                found += radio.broadcasts
                radio.broadcasts = []
        return found

    def receive(self, state: NeighbourState, t_ns: int) -> None:
        """Let the vehicle's radio receive the state of another at ``t_ns``."""
        for port in self._radios:
            self._send(port, state, t_ns)

    @property
    def actuators(self) -> Actuators:
        """Actuators, with their counters."""
        return self._actuators

    @property
    def motion(self) -> Motion:
        """True motion at the newest grid point."""
        return self._plant.motion()

    @property
    def gear(self) -> Gear:
        """Gear at the newest grid point; UNKNOWN for a vehicle without a selector."""
        return self._gear()

    @property
    def grid_ns(self) -> int:
        """Newest grid point; up to one step ahead of the time advanced to."""
        return self._grid_ns

    def emulator(self, port: int) -> Emulator:
        """Return the device on a port, with its counters."""
        return self._emulators[port]

    def advance(self, to_ns: int) -> list[Arrival]:
        """Return all arrivals at the daemon up to and including ``to_ns``, in order. An earlier
        ``to_ns`` than before changes nothing: time never goes back. Raises
        :class:`VehicleLostError` if the run must end.
        """
        if self._lost is not None:
            raise self._lost
        grid_ns, step_ns = self._grid_ns, self._step_ns
        plant, actuators = self._plant, self._actuators
        sags = actuators.sags
        while grid_ns < to_ns:
            # Devices run before the step, because a decoded command acts from its instant on.
            while self._duty_ns <= grid_ns:
                self._run_duties(self._duty_ns)
            # Most steps end before the next sample or duty.
            quiet_ns = self._due_ns - step_ns
            if quiet_ns > to_ns:
                quiet_ns = to_ns
            if quiet_ns > self._duty_ns:
                quiet_ns = self._duty_ns
            while grid_ns < quiet_ns:
                actuators.step(grid_ns, plant.motor_speed_radps if sags else 0.0)
                plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
                self._grid_ns = grid_ns = grid_ns + step_ns
            if grid_ns >= to_ns or self._duty_ns <= grid_ns:
                continue
            after_ns = grid_ns + step_ns
            # Sensors interpolate between two grid points, so keep the previous one if a sample lies
            # inside the step.
            before = plant.motion() if self._due_ns < after_ns else None
            actuators.step(grid_ns, plant.motor_speed_radps if sags else 0.0)
            plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
            if self._due_ns <= after_ns:
                self._sample(before, grid_ns, after_ns)
            self._grid_ns = grid_ns = after_ns
        if self._contact is not None and self._contact.contacts:
            self.report_contacts(self._contact.contacts)
            self._contact.contacts.clear()
        while self._duty_ns <= to_ns:
            self._run_duties(self._duty_ns)
        pending, arrivals = self._pending, []
        while pending and pending[0][0] <= to_ns:
            t_rx_ns, port, _, data = heappop(pending)
            arrivals.append((t_rx_ns, port, data))
        return arrivals

    def report_contacts(self, contacts: Sequence[ContactPoint]) -> None:
        """Send contacts with the truth, and end the run before the next advance if the user wants
        that."""
        for each in contacts:
            message = contact_message(each, self._start_ns)
            self._send(self._truth, message, self._grid_ns)
        if self._ends_on_contact:
            first = contacts[0]
            self._lost = VehicleLostError(
                f"contact with {first.what or 'the scene'} at ({first.x_m:.2f}, "
                f"{first.y_m:.2f}) m, {first.speed_mps:.2f} m/s"
            )

    def next_wake_ns(self) -> int:
        """Return a time before which no bytes arrive."""
        first_ns = self._pending[0][0] if self._pending else NEVER_NS
        return min(
            first_ns,
            self._duty_ns,
            min(channel.due_ns + channel.sensor.least_latency_ns for channel in self._channels),
        )

    def on_frame(self, port: int, t_ns: int, data: bytes) -> None:
        """Take the daemon's bytes for ``port`` at ``t_ns``. Never raises."""
        if port < len(self._emulators):
            self._deliver(port, t_ns, data)

    def on_line(self, port: int, t_ns: int, baud: int) -> None:
        """Handle a new line rate of ``port``, or its reopening (0)."""
        if port < len(self._emulators):
            self._deliver(port, t_ns, baud)

    def _deliver(self, port: int, t_ns: int, what: bytes | int) -> None:
        """Give a device bytes or a line rate, now or after the latency of its port."""
        latency = self._actuation[port]
        if latency is None:
            self._arrive(port, t_ns, what)
            return
        due_ns = latency.at_ns(t_ns)
        insort(self._late, (due_ns, port, what), key=lambda late: late[0])
        if due_ns < self._duty_ns:
            self._duty_ns = due_ns

    def _arrive(self, port: int, t_ns: int, what: bytes | int) -> None:
        if isinstance(what, int):
            self._emulators[port].on_line(what, t_ns)
        else:
            self._emulators[port].on_rx(what, t_ns)
        self._collect(port)

    def _run_duties(self, now_ns: int) -> None:
        late = self._late
        self._duty_ns = NEVER_NS
        while late and late[0][0] <= now_ns:
            due_ns, port, what = late.popleft()
            self._arrive(port, due_ns, what)
        if late and late[0][0] < self._duty_ns:
            self._duty_ns = late[0][0]
        for port, device in enumerate(self._emulators):
            if device.next_due_ns() <= now_ns:
                device.on_time(now_ns)
            self._collect(port)
        if self._joint:
            for command in self._joint.on_time(now_ns):
                self._actuators.command(*command[:4])
            self._duty_ns = min(self._duty_ns, self._joint.due_ns)

    def _collect(self, port: int) -> None:
        """Collect the bytes and commands of a device, and its next wake time."""
        device, latency = self._emulators[port], self._sensing[port]
        for t_rx_ns, data in device.take_tx():
            if latency is not None:
                t_rx_ns = latency.at_ns(t_rx_ns)
            self._queued += 1
            heappush(self._pending, (t_rx_ns, port, self._queued, data))
        for command in device.take_commands():
            if command.rear != self._rears[port]:
                self._rears[port] = command.rear
                self._turn_rear(prod(self._rears))
            steered = command.steered
            if self._joint:
                command = self._joint.command(self._names[port], command)
                self._duty_ns = min(self._duty_ns, self._joint.due_ns)
            if steered > 0.0:
                self._steering = command.steering
            elif steered < 0.0:
                self._steering = -command.steering
            self._actuators.command(*command[:3], self._steering)
        due_ns = device.next_due_ns()
        if due_ns < self._duty_ns:
            self._duty_ns = due_ns

    def _sample(self, before: Motion | None, before_ns: int, after_ns: int) -> None:
        """Take every sample valid after ``before_ns`` and up to ``after_ns``."""
        after = self._plant.motion()
        next_due_ns = NEVER_NS
        for channel in self._channels:
            while channel.due_ns <= after_ns:
                t_ns = channel.due_ns
                if t_ns == after_ns or before is None:
                    motion = after
                else:
                    motion = interpolate(before, after, (t_ns - before_ns) / (after_ns - before_ns))
                ready_ns, message = channel.sensor.sample(t_ns, motion)
                if message is not None:
                    self._send(channel.port, message, ready_ns)
                channel.next()
            if channel.due_ns < next_due_ns:
                next_due_ns = channel.due_ns
        self._due_ns = next_due_ns

    def _failures(self, port: int) -> Sequence[Failure]:
        emulator = self._emulators[port]
        return emulator.failures if isinstance(emulator, FailingEmulator) else ()

    def _send(self, port: int, message: Message, ready_ns: int) -> None:
        self._emulators[port].on_message(message, ready_ns)
        self._collect(port)


def _sensors(
    name: str,
    device: DeviceTable,
    profile: Profile,
    course: Course,
    actuators: Actuators,
    seed: int,
    start_ns: int,
    utc_ns: int,
    scene: Scene,
    failures: Callable[[], Sequence[Failure]],
    *,
    wires: bool,
) -> list[Sensor]:
    """Return sensor models for the message types that the profile assigns to a device. Types
    without a model are not sent.

    ``failures`` returns those of the device; a handset's are in the operator's hands.
    """
    sim, sensors = profile.sim, list[Sensor]()
    forward, left, up = device.lever_arm_m
    if wires and mocap_driver_of(device) is not None:
        # Whatever its messages, on its wire are poses alone.
        return [Mocap(sim.mocap, seed, f"{name}/MapPose")]
    for message in device.messages:
        entity = f"{name}/{message}"
        if message == "GnssFix":
            receiver = with_zones(sim.gnss, course.datum)
            sensors.append(
                Gnss(receiver, (forward, left, up), course.datum, seed, entity, start_ns, utc_ns)
            )
        elif message == "ImuSample":
            sensors.append(imu_sensor(sim.imu, (forward, left, up), seed, entity))
        elif message == "Heading" and sim.heading is not None:
            sensors.append(
                heading_sensor(sim.heading, actuators, course.datum, seed, entity, utc_ns)
            )
        elif message == "MotorStatus" and sim.motor_status is not None:
            sensors.append(
                MotorStatusSensor(sim.motor_status, actuators, mixings_of(profile).get(name))
            )
        elif message == "WheelSpeed" and sim.wheel_encoders is not None:
            sensors.append(WheelEncoders(sim.wheel_encoders, seed, entity))
        elif message == "SteeringFeedback" and sim.steering_feedback is not None:
            sensors.append(SteeringFeedbackSensor(sim.steering_feedback, actuators, seed, entity))
        elif message == "MapPose":
            sensors.append(Mocap(sim.mocap, seed, entity))
        elif message == "ReferenceState":
            sensors.append(
                Reference(sim.reference, (forward, left, up), course.datum, seed, entity)
            )
        elif message == "ObstacleRange":
            sensors.append(ObstacleSensor(device.rate_hz, profile.vehicle, course, scene, start_ns))
        elif message == "TimePulse":
            sensors.append(TimePulseSensor(start_ns, utc_ns))
        elif message == "RcChannels" and (channels := rc_map(profile)) is not None:
            count = getattr(resolve("driver", device.driver.name), "channels", 16)
            sensors.append(
                HandsetSensor(channels, count, device.rate_hz, seed, entity, start_ns, failures)
            )
        elif message == "LaserScan" and wires and (points := point_sweep(device, sim.lidar)):
            arm, terrain = (forward, left, up), load_terrain(sim.terrain)
            sensors.append(PointLidarSensor(points, arm, scene, terrain, seed, entity, start_ns))
        elif message == "LaserScan":
            model, parts = sweep(device, sim.lidar) if wires else (sim.lidar, 1)
            sensors.append(Lidar(model, (forward, left, up), scene, seed, entity, start_ns, parts))
    return sensors
