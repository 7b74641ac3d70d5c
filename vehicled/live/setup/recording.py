"""Samples of one step of the set-up, as arrays in SI units; times in seconds from the first
sample."""

from collections.abc import Mapping, Sequence
from math import hypot, isfinite, sqrt
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field, structs

from vehicled.core.messages import (
    ActuatorCommand,
    ActuatorStatus,
    CarrierSolution,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    MotorStatus,
    WheelSpeed,
)
from vehicled.paths.datum import Datum

Array = npt.NDArray[np.float64]


class StepRecording(Struct, frozen=True):
    """Samples in time order. A sensor that the vehicle does not have has none."""

    imu_s: Array
    """Times of the inertial samples (n,)."""
    force_mps2: Array
    """Specific force (n, 3), axes of the body as the profile has them."""
    rate_radps: Array
    """Angular rate (n, 3), same axes."""
    speed_s: Array
    """Times of the speeds (n,)."""
    speed_mps: Array
    """Speed by wheel or motor, by the numbers of the profile; positive forward."""
    gnss_s: Array
    """Times of the fixes (n,)."""
    east_north_m: Array
    """Antenna from its first place (n, 2)."""
    gnss_sigma_m: float
    """Largest stated standard deviation per axis; NaN if one is unknown, infinite unless all are
    fixed."""
    heading_s: Array
    """Times of the headings (n,)."""
    yaw_rad: Array
    """Yaw by the heading device (n,)."""
    magnetic: bool
    """True if the headings are those of a compass."""
    command_s: Array
    """Times of the commands (n,)."""
    commands: Array
    """Throttle, brake, steering (n, 3)."""

    motors: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    """Times and speeds of each of several motors, by its own numbers in the profile."""

    def of_motor(self, name: str) -> "StepRecording":
        """Return the recording with the speed of one of several motors for that of the vehicle."""
        times, speeds = self.motors[name]
        return structs.replace(self, speed_s=times, speed_mps=speeds)

    @property
    def has_imu(self) -> bool:
        """True if an inertial unit sent samples."""
        return len(self.imu_s) > 0


class SampleRecorder:
    """Collects the messages of one step."""

    def __init__(
        self,
        mps_per_motor_radps: float | None,
        source: str = "MotorStatus",
        motors: Mapping[str, float] = MappingProxyType({}),
        motor: str = "",
    ) -> None:
        """``source``: type of the messages that give the speed; ``mps_per_motor_radps`` converts
        that of a motor. ``motors``: the same factor of each of several actuators that drive;
        ``motor``: the one of them whose speed is taken for that of the vehicle."""
        self._scale = mps_per_motor_radps
        self._source = source
        self._motors = motors
        self._motor = motor
        self._own: dict[str, list[tuple[float, float]]] = {name: [] for name in motors}
        self._imu: list[tuple[float, ...]] = []
        self._speeds: list[tuple[float, float]] = []
        self._fixes: list[GnssFix] = []
        self._headings: list[Heading] = []
        self._commands: list[tuple[float, ...]] = []
        self.speed_mps: float | None = None
        """Newest speed by wheel or motor."""
        self.voltage_v: float | None = None
        """Newest voltage of the supply."""
        self.rate_radps: tuple[float, ...] | None = None
        """Newest angular rate."""

    def add(self, message: Message) -> None:
        """Take a message of a device, or a command that was sent."""
        match message:
            case ImuSample() if isfinite(
                sum(message.specific_force_mps2) + sum(message.angular_rate_radps)
            ):
                self.rate_radps = message.angular_rate_radps
                self._imu.append(
                    (message.t_ns, *message.specific_force_mps2, *message.angular_rate_radps)
                )
            case MotorStatus():
                if isfinite(message.input_voltage_v):
                    self.voltage_v = message.input_voltage_v
                if (
                    not self._motor
                    and self._source == "MotorStatus"
                    and self._scale is not None
                    and isfinite(message.motor_speed_radps)
                ):
                    self._speed(message.t_ns, self._scale * message.motor_speed_radps)
            case ActuatorStatus() if message.device in self._motors and isfinite(
                message.motor_speed_radps
            ):
                own_mps = self._motors[message.device] * message.motor_speed_radps
                self._own[message.device].append((message.t_ns, own_mps))
                if message.device == self._motor:
                    self._speed(message.t_ns, own_mps)
            case WheelSpeed() if self._source == "WheelSpeed" and isfinite(message.speed_mps):
                self._speed(message.t_ns, message.speed_mps)
            case GnssFix() if isfinite(message.latitude_rad + message.longitude_rad):
                self._fixes.append(message)
                east, north, _ = message.velocity_enu_mps
                if self._source == "GnssFix" and isfinite(east + north):
                    self._speed(message.t_ns, hypot(east, north))
            case Heading():
                self._headings.append(message)
            case ActuatorCommand():
                self._commands.append(
                    (message.t_ns, message.throttle, message.brake, message.steering)
                )
            case _:
                pass

    def _speed(self, t_ns: int, speed_mps: float) -> None:
        self.speed_mps = speed_mps
        self._speeds.append((t_ns, speed_mps))

    def recording(self) -> StepRecording:
        """Return what was collected."""
        rows: Sequence[Sequence[Sequence[float]]] = (self._imu, self._speeds, self._commands)
        starts = [each[0][0] for each in rows if each] + [
            each[0].t_ns for each in (self._fixes, self._headings) if each
        ]
        zero_ns = min(starts, default=0)
        imu, speeds, commands = (
            _table(each, width, zero_ns) for each, width in zip(rows, (7, 2, 4), strict=True)
        )
        return StepRecording(
            imu_s=imu[:, 0],
            force_mps2=imu[:, 1:4],
            rate_radps=imu[:, 4:7],
            speed_s=speeds[:, 0],
            speed_mps=speeds[:, 1],
            gnss_s=_times([fix.t_ns for fix in self._fixes], zero_ns),
            east_north_m=_places(self._fixes),
            gnss_sigma_m=_sigma_m(self._fixes),
            heading_s=_times([heading.t_ns for heading in self._headings], zero_ns),
            yaw_rad=np.array([heading.yaw_rad for heading in self._headings], float),
            magnetic=any(heading.kind is HeadingKind.MAGNETIC for heading in self._headings),
            command_s=commands[:, 0],
            commands=commands[:, 1:],
            motors={
                name: (table[:, 0], table[:, 1])
                for name, rows in self._own.items()
                for table in [_table(rows, 2, zero_ns)]
            },
        )


def _times(t_ns: Sequence[float], zero_ns: float) -> Array:
    return np.array([(t - zero_ns) * 1e-9 for t in t_ns], float)


def _table(rows: Sequence[Sequence[float]], width: int, zero_ns: float) -> Array:
    # Integer nanoseconds since the boot lose their last digits in a float: subtract first.
    table = np.array([((row[0] - zero_ns) * 1e-9, *row[1:]) for row in rows], float).reshape(
        -1, width
    )
    return table[np.argsort(table[:, 0], kind="stable")]


def _places(fixes: Sequence[GnssFix]) -> Array:
    if not fixes:
        return np.empty((0, 2))
    first = fixes[0]
    datum = Datum(first.latitude_rad, first.longitude_rad, first.height_m)
    return np.array(
        [datum.to_enu(fix.latitude_rad, fix.longitude_rad, fix.height_m)[:2] for fix in fixes]
    )


def _sigma_m(fixes: Sequence[GnssFix]) -> float:
    if not fixes or any(fix.carrier is not CarrierSolution.FIXED for fix in fixes):
        return float("inf")
    return sqrt(
        float(
            np.max(
                [(fix.position_covariance_m2[0], fix.position_covariance_m2[4]) for fix in fixes]
            )
        )
    )
