"""Several actuator devices of one vehicle: what their outputs together make of throttle, brake and
steering.

Each device has a time-out of its own: outputs of one that is silent go to neutral, and the others
keep theirs.
"""

from math import atan

from msgspec import Struct

from sim_backend.emulators.interface import NEVER_NS, DriveCommand
from sim_backend.plant.twin_file import load_twin
from sim_backend.plant.wiring import wiring
from vehicled.core.mixing import Mixing
from vehicled.profile.mixing import half_track_ratio, mixings_of
from vehicled.profile.schema import Profile, Sim

_STANDS = 1e-3
"""Sum of the sides below which their difference says nothing about the curve."""


class _Outputs(Struct):
    """Present outputs of one device."""

    mixing: Mixing
    mixed: bool
    """True if its emulator gives outputs, False if it gives the command before the mixing."""
    values: tuple[float, ...]
    brake: float = 0.0
    expiry_ns: int = NEVER_NS


class JointActuators:
    """Outputs of all actuators, and the command of a vehicle with one that moves the plant alike.

    A motor pulls in proportion to its number: of four, one that stands still leaves three quarters
    of the throttle.
    """

    def __init__(self, profile: Profile, *, wires: bool) -> None:
        self._timeout_ns = round(profile.sim.command_timeout_s * 1e9)
        self._devices: dict[str, _Outputs] = {}
        for name, mixing in mixings_of(profile).items():
            mixed = wires and profile.devices[name].driver.name != "msglink"
            self._devices[name] = _Outputs(mixing, mixed, (0.0,) * len(mixing.rows))
        self._steering_of = _Curve(profile.sim, half_track_ratio(profile.vehicle))

    def __bool__(self) -> bool:
        """True if the profile mixes."""
        return bool(self._devices)

    def command(self, name: str, command: DriveCommand) -> DriveCommand:
        """Take the outputs of a device; return the command of the whole vehicle."""
        device = self._devices[name]
        if device.mixed:
            device.values = command.outputs or (command.throttle, command.steering)
        else:
            device.values = device.mixing.outputs(command.throttle, command.steering)
        device.brake, device.expiry_ns = command.brake, command.t_ns + self._timeout_ns
        return self._joined(command.t_ns)

    @property
    def due_ns(self) -> int:
        """Time at which the first device times out."""
        return min((device.expiry_ns for device in self._devices.values()), default=NEVER_NS)

    def on_time(self, now_ns: int) -> list[DriveCommand]:
        """Return the command that a time-out leaves, if one is due."""
        due = [device for device in self._devices.values() if device.expiry_ns <= now_ns]
        for device in due:
            device.values = (0.0,) * len(device.mixing.rows)
            device.brake = 0.0
            device.expiry_ns = NEVER_NS
        return [self._joined(now_ns)] if due else []

    def _joined(self, t_ns: int) -> DriveCommand:
        motors = list[float]()
        left = list[float]()
        right = list[float]()
        servos = list[float]()
        brakes = list[float]()
        for device in self._devices.values():
            for row, value in zip(device.mixing.rows, device.values, strict=False):
                for gain, side in ((row.throttle, None), (row.left, left), (row.right, right)):
                    if gain:
                        motors.append(value / gain)
                        brakes.append(device.brake)
                        if side is not None:
                            side.append(value / gain)
                if row.steering:
                    servos.append(value / row.steering)
        steering = _mean(servos)
        if not servos and left and right:
            on_left, on_right = _mean(left), _mean(right)
            # Sides that nothing drives roll alike.
            together = on_left + on_right
            steering = self._steering_of.command(
                (on_right - on_left) / together if abs(together) > _STANDS else 0.0
            )
        return DriveCommand(t_ns, _mean(motors), _mean(brakes), steering)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


class _Curve:
    """Steering command at which the plant drives the curve of two sides."""

    def __init__(self, sim: Sim, ratio: float) -> None:
        wired = wiring(sim)
        self._zero_rad, full_rad = wired.angle_rad(0.0), wired.angle_rad(1.0)
        self._gain_rad = full_rad - self._zero_rad
        self._ratio = ratio
        line = (
            None
            if sim.twin is None
            else load_twin(sim.twin.vehicle, sim.twin.changes).parameters.powertrain.driveline
        )
        self._side_gain_prad = (
            line.side_gain_prad if line is not None and line.layout == "sides" else 0.0
        )

    def command(self, difference: float) -> float:
        """Return the command for half of the difference of the sides over their mean."""
        side = self._side_gain_prad
        angle_rad = difference / side if side else atan(difference / self._ratio)
        return (angle_rad - self._zero_rad) / self._gain_rad if self._gain_rad else 0.0
