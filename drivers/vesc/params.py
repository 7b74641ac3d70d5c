"""Parameters of a VESC in the profile, and the conversion from normalised commands to
set-points."""

from math import isfinite, pi
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from drivers.vesc.comm import Comm, SetCommand
from vehicled.core.messages.units import ZERO_CELSIUS_K

Id = Annotated[int, Meta(ge=0, le=254)]
Amperes = Annotated[float, Meta(gt=0.0, le=500.0)]
_SERVO_GAIN = (
    "the change of servo position at full steering, -1 to 1: a gain per radian times "
    "vehicle.steering.gain_rad"
)
ServoPosition = Annotated[float, Meta(ge=0.0, le=1.0)]


class VescParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Calibration and required settings, common to both wires."""

    control: Literal["duty", "current", "speed"] = "duty"
    """Quantity of throttle: 1 means ``max_duty``, ``max_current_a`` or ``max_speed_mps``, -1 the
    same in reverse."""
    max_duty: Annotated[float, Meta(gt=0.0, le=0.95)] = 0.2
    """Duty cycle at full throttle, of 1."""
    max_current_a: Amperes = 20.0
    """Motor current at full throttle, A."""
    max_speed_mps: Annotated[float, Meta(gt=0.0, le=30.0)] = 3.0
    """Speed at full throttle, m/s."""
    max_brake_current_a: Amperes = 20.0
    """Current of brake 1, A. Regenerative: it does not hold a stopped vehicle."""
    erpm_per_mps: Annotated[float, Meta(ge=-1e6, le=1e6)] = 4614.0
    """Electrical revolutions per minute at 1 m/s; negative if the motor turns backwards to drive
    forwards."""
    erpm_offset: Annotated[float, Meta(ge=-1e5, le=1e5)] = 0.0
    """Electrical speed at standstill, 1/min."""
    pole_pairs: Annotated[int, Meta(ge=1, le=100)] = 2
    """Pole pairs of the motor: electrical over mechanical speed."""
    speed_sigma_mps: Annotated[float, Meta(gt=0.0, le=10.0)] = 0.05
    """Sigma of the speed, m/s."""
    odometry: Literal["speed", "tachometer"] = "speed"
    """Source of ``WheelSpeed``: the speed that the controller estimates, or the counts of its
    tachometer, six per electrical turn, which stay exact where a motor without sensors turns
    slowly. On CAN the tachometer is in STATUS_5."""
    steering: bool = True
    """True if the steering servo is connected to this controller."""
    servo_center: ServoPosition = 0.5
    """Servo position of straight wheels, 0..1."""
    servo_gain: Annotated[float, Meta(ge=-1.0, le=1.0, description=_SERVO_GAIN)] = -0.35
    """Servo position per unit of steering; negative if a larger position turns right."""
    servo_min: ServoPosition = 0.15
    """Least servo position, 0..1."""
    servo_max: ServoPosition = 0.85
    """Largest servo position, 0..1."""
    timeout_ms: Annotated[int, Meta(ge=20, le=10_000)] = 200
    """Longest command timeout accepted in the controller, ms; it must have one."""
    timeout_brake_current_a: Annotated[float, Meta(ge=0.0, le=500.0)] = 5.0
    """Least brake current at the command timeout, A; the controller's default is 0, which
    coasts."""
    accept_unreadable_timeout: bool = False
    """Drive although the firmware's configuration cannot be read back. Check it by hand first."""
    silence_s: Annotated[float, Meta(ge=0.02, le=5.0)] = 0.1
    """Age of telemetry that raises a fault, s."""
    latency_ms: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0
    """Age of telemetry on arrival, ms."""
    poll_hz: Annotated[float, Meta(ge=1.0, le=200.0)] = 20.0
    """Rate of GET_VALUES, Hz, the only source of fault codes; it delays them by one period."""

    def __post_init__(self) -> None:
        if abs(self.erpm_per_mps) < 1.0:
            raise ValueError("erpm_per_mps must not be zero")
        if not self.servo_min <= self.servo_center <= self.servo_max:
            raise ValueError("servo_center must lie between servo_min and servo_max")


class CanParams(VescParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a VESC on CAN."""

    controller_id: Id = 1
    """CAN identifier of the controller."""
    host_id: Id = 254
    """Id of the host, to which replies are addressed; it must be unique on the bus."""

    def __post_init__(self) -> None:
        VescParams.__post_init__(self)
        if self.controller_id == self.host_id:
            raise ValueError("controller_id and host_id must differ")


class UartParams(VescParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a VESC on a serial line or USB, polled faster because polling is the only
    telemetry."""

    poll_hz: Annotated[float, Meta(ge=1.0, le=200.0)] = 50.0


class ForwardedParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Controller on the CAN bus behind the one on the line."""

    controller_id: Id
    """CAN identifier of the controller."""
    erpm_per_mps: Annotated[float, Meta(ge=-1e6, le=1e6)] = 4614.0
    """Electrical revolutions per minute at 1 m/s; negative if the motor turns backwards to drive
    forwards."""
    pole_pairs: Annotated[int, Meta(ge=1, le=100)] = 2
    """Pole pairs of the motor."""


class ForwardingParams(UartParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a VESC on a serial line or USB that forwards for others on its CAN bus; what is
    not theirs alone holds for all."""

    controller_id: Id = 1
    """CAN identifier of the controller on the line."""
    behind: Annotated[list[ForwardedParams], Meta(min_length=1, max_length=3)] = field(
        default_factory=lambda: [ForwardedParams(controller_id=2)]
    )
    """Controllers behind it, for the outputs ``motor_2`` to ``motor_4``."""

    def __post_init__(self) -> None:
        UartParams.__post_init__(self)
        ids = [self.controller_id, *(each.controller_id for each in self.behind)]
        if len(set(ids)) < len(ids):
            raise ValueError("each controller_id must be another one")

    @property
    def one_by_one(self) -> list[tuple[int, UartParams]]:
        """Identifier and parameters of each controller, that on the line first."""
        values = {name: getattr(self, name) for name in UartParams.__struct_fields__}
        first = self.controller_id, UartParams(**values)
        return [
            first,
            *(
                (
                    each.controller_id,
                    UartParams(
                        **values
                        | {
                            "erpm_per_mps": each.erpm_per_mps,
                            "pole_pairs": each.pole_pairs,
                            "steering": False,
                        }
                    ),
                )
                for each in self.behind
            ),
        ]


def forward(params: VescParams) -> float:
    """Return the sign of electrical speed and duty when driving forwards: 1 or -1."""
    return 1.0 if params.erpm_per_mps > 0.0 else -1.0


def motor_setpoint(params: VescParams, throttle: float, brake: float) -> SetCommand:
    """Return the motor command for a throttle of -1 to 1 (negative in reverse) and a brake of 0 to
    1; the brake wins.

    Every input gives a frame. Without throttle and brake it is SET_CURRENT 0 in every mode, which
    releases the motor; SET_DUTY 0 would short it and SET_RPM 0 would brake.
    """
    if brake > 0.0:
        return SetCommand(Comm.SET_CURRENT_BRAKE, brake * params.max_brake_current_a)
    if throttle == 0.0:
        return SetCommand(Comm.SET_CURRENT, 0.0)
    match params.control:
        case "duty":
            return SetCommand(Comm.SET_DUTY, forward(params) * throttle * params.max_duty)
        case "current":
            return SetCommand(Comm.SET_CURRENT, forward(params) * throttle * params.max_current_a)
        case "speed":
            return SetCommand(
                Comm.SET_RPM,
                throttle * params.max_speed_mps * params.erpm_per_mps + params.erpm_offset,
            )


def servo_setpoint(params: VescParams, steering: float) -> SetCommand:
    """Return the servo position for a steering command of -1 to 1, within the limits of the
    linkage."""
    position = params.servo_center + params.servo_gain * steering
    return SetCommand(Comm.SET_SERVO_POS, min(params.servo_max, max(params.servo_min, position)))


def speed_mps(params: VescParams, erpm: float) -> float:
    """Return the ground speed at an electrical speed."""
    return (erpm - params.erpm_offset) / params.erpm_per_mps


def motor_radps(params: VescParams, erpm: float) -> float:
    """Return the mechanical speed of the motor shaft, positive when driving forwards."""
    return forward(params) * erpm / params.pole_pairs * pi / 30.0


def kelvin(celsius: float, *, motor: bool = False) -> float:
    """Return a temperature in K; NaN for a missing motor thermistor, which gives -90 to -99 C."""
    if not isfinite(celsius) or (motor and celsius < -80.0):
        return float("nan")
    return celsius + ZERO_CELSIUS_K
