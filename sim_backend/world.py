"""The world: plant, sensors and scenario on one fixed grid. Pure: it is handed times and bytes, and gives back bytes with times.

Order of causes. The step that begins at grid point k uses the commands stamped up to k, and is made only once all of those are
known: ``advance(to_ns)`` steps while the grid is before ``to_ns``. So nothing depends on the instants at which it is called.
"""

from heapq import heappop, heappush

from drivers.msglink.codec import Decoder, encode
from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import Motion, Pose, interpolate
from sim_backend.plant.registry import plant_class
from sim_backend.sensors.gnss import Gnss
from sim_backend.sensors.heading import HeadingSensor
from sim_backend.sensors.imu import Imu
from sim_backend.sensors.interface import Sensor
from sim_backend.sensors.motor_status import MotorStatusSensor
from sim_backend.sensors.truth import Truth
from vehicled.messages import ActuatorCommand, Message, OperatorAction, OperatorCommand
from vehicled.paths.course import Course
from vehicled.profile.schema import Device, Profile

OPERATOR_PORT = "operator"
TRUTH_PORT = "truth"
SIMULATED_UTC_NS = 1_767_225_600_000_000_000
"""UTC at which a lockstep run begins: 2026-01-01T00:00:00Z. Fixed, because the same seed must give the same bytes."""
ARM_AFTER_NS = 300_000_000
DRIVE_AFTER_NS = 500_000_000
_NEVER_NS = 2**63 - 1

Arrival = tuple[int, int, bytes]
"""t_rx_ns, port number, bytes."""


def port_names(profile: Profile) -> list[str]:
    """Names by port number: the devices of the profile in its order, then operator and truth where they are not among them."""
    return list(dict.fromkeys((*profile.devices, OPERATOR_PORT, TRUTH_PORT)))


class _Channel:
    """A sensor on its port, and when it samples next. The first sample is one interval after the start."""

    __slots__ = ("_count", "_interval_ns", "_start_ns", "due_ns", "port", "sensor")

    def __init__(self, sensor: Sensor, port: int, start_ns: int) -> None:
        self.sensor = sensor
        self.port = port
        self._start_ns = start_ns
        self._interval_ns = 1e9 / sensor.rate_hz
        self._count = 0
        self.due_ns = start_ns
        self.next()

    def next(self) -> None:
        """Rounded from the start each time, so that a rate which does not divide a second does not drift."""
        self._count += 1
        self.due_ns = self._start_ns + round(self._count * self._interval_ns)


class World:
    """One vehicle on one course, at rest on its first point, with a scenario that arms it and lets it drive."""

    def __init__(self, profile: Profile, course: Course, seed: int, start_ns: int, utc_ns: int = SIMULATED_UTC_NS) -> None:
        """``utc_ns`` is the UTC at ``start_ns``. Raises :class:`sim_backend.plant.registry.UnknownPlantError`."""
        sim = profile.sim
        self._step_ns = round(sim.step_ms * 1e6)
        self._grid_ns = start_ns
        pose = Pose(float(course.x_m[0]), float(course.y_m[0]), float(course.yaw_rad[0]))
        self._plant = plant_class(sim.plant)(sim, pose, self._step_ns * 1e-9)
        self._actuators = Actuators(sim, start_ns, self._step_ns)
        self._pending: list[tuple[int, int, int, bytes]] = []
        self._queued = 0
        self._decoders: dict[int, Decoder] = {}
        self._channels: list[_Channel] = []
        self.unexpected_messages = 0
        """Messages of the daemon that no device here understands."""
        self.unexpected_bytes = 0
        """Bytes for ports that take no commands."""
        names = port_names(profile)
        for port, (name, device) in enumerate(profile.devices.items()):
            if device.capabilities is not None:
                self._decoders[port] = Decoder()
            for sensor in _sensors(name, device, profile, course, self._actuators, seed, start_ns, utc_ns):
                self._channels.append(_Channel(sensor, port, start_ns))
        self._channels.append(_Channel(Truth(self._actuators), names.index(TRUTH_PORT), start_ns))
        self._due_ns = min(channel.due_ns for channel in self._channels)
        operator = names.index(OPERATOR_PORT)
        for after_ns, action in ((ARM_AFTER_NS, OperatorAction.ARM), (DRIVE_AFTER_NS, OperatorAction.DRIVE)):
            self._queue(start_ns + after_ns, operator, OperatorCommand(start_ns + after_ns, 0, action, "scenario"))

    @property
    def actuators(self) -> Actuators:
        """The actuators, with their counters."""
        return self._actuators

    @property
    def motion(self) -> Motion:
        """True motion at the newest grid point."""
        return self._plant.motion()

    @property
    def grid_ns(self) -> int:
        """Newest grid point; up to one step ahead of the time advanced to."""
        return self._grid_ns

    @property
    def dropped_bytes(self) -> int:
        """Bytes of the daemon that belonged to no sound frame."""
        return sum(decoder.dropped_bytes for decoder in self._decoders.values())

    def advance(self, to_ns: int) -> list[Arrival]:
        """Everything that arrives at the daemon up to and including ``to_ns``, in order. A ``to_ns`` earlier than before changes
        nothing: time never goes back."""
        grid_ns, step_ns = self._grid_ns, self._step_ns
        plant, actuators = self._plant, self._actuators
        while grid_ns < to_ns:
            after_ns = grid_ns + step_ns
            # Sensors see the motion between two grid points, so the one before is kept while a sample lies inside the step.
            before = plant.motion() if self._due_ns < after_ns else None
            actuators.step(grid_ns, plant.motor_speed_radps)
            plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
            if self._due_ns <= after_ns:
                self._sample(before, grid_ns, after_ns)
            self._grid_ns = grid_ns = after_ns
        pending, arrivals = self._pending, []
        while pending and pending[0][0] <= to_ns:
            t_rx_ns, port, _, data = heappop(pending)
            arrivals.append((t_rx_ns, port, data))
        return arrivals

    def next_wake_ns(self) -> int:
        """No bytes arrive before this time."""
        first_ns = self._pending[0][0] if self._pending else _NEVER_NS
        return min(first_ns, min(channel.due_ns + channel.sensor.least_latency_ns for channel in self._channels))

    def on_frame(self, port: int, t_ns: int, data: bytes) -> None:
        """Bytes of the daemon reached ``port`` at ``t_ns``. Never raises: what is no sound command for an actuator is counted."""
        decoder = self._decoders.get(port)
        if decoder is None:
            self.unexpected_bytes += len(data)
            return
        for message in decoder.feed(data):
            if isinstance(message, ActuatorCommand):
                self._actuators.command(t_ns, message.throttle, message.brake, message.steering)
            else:
                self.unexpected_messages += 1

    def _sample(self, before: Motion | None, before_ns: int, after_ns: int) -> None:
        """Take every sample valid after ``before_ns`` and up to ``after_ns``."""
        after = self._plant.motion()
        next_due_ns = _NEVER_NS
        for channel in self._channels:
            while channel.due_ns <= after_ns:
                t_ns = channel.due_ns
                if t_ns == after_ns or before is None:
                    motion = after
                else:
                    motion = interpolate(before, after, (t_ns - before_ns) / (after_ns - before_ns))
                t_rx_ns, message = channel.sensor.sample(t_ns, motion)
                self._queue(t_rx_ns, channel.port, message)
                channel.next()
            if channel.due_ns < next_due_ns:
                next_due_ns = channel.due_ns
        self._due_ns = next_due_ns

    def _queue(self, t_rx_ns: int, port: int, message: Message) -> None:
        self._queued += 1
        heappush(self._pending, (t_rx_ns, port, self._queued, encode(message)))


def _sensors(
    name: str, device: Device, profile: Profile, course: Course, actuators: Actuators, seed: int, start_ns: int, utc_ns: int
) -> list[Sensor]:
    """Models of what a device sends, by the message types that the profile gives it. Messages without a model stay silent."""
    sim, sensors = profile.sim, list[Sensor]()
    forward, left, up = device.lever_arm_m
    for message in device.messages:
        entity = f"{name}/{message}"
        if message == "GnssFix":
            sensors.append(Gnss(sim.gnss, (forward, left, up), course.datum, seed, entity, start_ns, utc_ns))
        elif message == "ImuSample":
            sensors.append(Imu(sim.imu, (forward, left, up), seed, entity))
        elif message == "Heading" and sim.heading is not None:
            sensors.append(HeadingSensor(sim.heading, seed, entity))
        elif message == "MotorStatus" and sim.motor_status is not None:
            sensors.append(MotorStatusSensor(sim.motor_status, actuators))
    return sensors
