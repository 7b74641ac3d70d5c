"""A person who lifts, turns and pushes the simulated vehicle, or puts it on a block with its wheels
off the ground.

While it is held, its pose is that of the moves; the plant underneath goes on with its motor and
wheels, which a push turns. Each move is smooth, with no jump of the acceleration. Between moves it
lies still.
"""

from collections import deque
from math import cos, pi, sin
from typing import NamedTuple

from msgspec.structs import replace

from sim_backend.plant.interface import Motion, RigidPlant, StartPose
from vehicled.core.errors import UserError

PUSH_MPS = 1.0
"""Mean speed of a push."""
TURN_RADPS = 0.45
"""Mean rate of a turn on the spot."""
TILT_S = 1.2
"""Time of a tilt."""
REST_S = 1.5
"""Rest before each move."""
MOVES = ("push", "turn", "pitch", "roll", "block", "floor", "wait")


class HandError(UserError, ValueError):
    """A line that is no move."""


class Move(NamedTuple):
    """One move."""

    kind: str
    amount: float = 0.0
    """Metres of a push, degrees of a turn, angle in degrees to which it is tilted, seconds of a
    wait."""


def parse_move(text: str) -> Move:
    """Return the move of a line such as ``push 5``, ``turn 90``, ``pitch -25`` (front up), ``roll
    90``, ``block``, ``floor``.

    Raises :class:`HandError`.
    """
    kind, _, amount = text.strip().partition(" ")
    try:
        found = Move(kind, float(amount) if amount.strip() else 0.0)
    except ValueError:
        found = Move("")
    needs_amount = {"push": True, "turn": True, "wait": True, "block": False, "floor": False}.get(
        found.kind, bool(found.amount)
    )
    if (
        found.kind not in MOVES
        or not abs(found.amount) <= 1e4
        or bool(found.amount) is not needs_amount
    ):
        raise HandError(
            f'"{text.strip()}" is no move: use push M, turn DEG, pitch DEG, roll DEG, block, '
            "floor or wait S"
        )
    return found


class HandledPlant:
    """A plant that a person moves, and puts down after the last move."""

    def __init__(
        self, inside: RigidPlant, wheel_radius_m: float, gear_ratio: float, step_s: float
    ) -> None:
        self._inside = inside
        self._wheel_radius_m, self._gear_ratio, self._step_s = wheel_radius_m, gear_ratio, step_s
        self._moves: deque[Move] = deque()
        self._time_s = 0.0
        self._pose: StartPose | None = None
        self._pitch = self._roll = 0.0
        self._on_block = False
        self._motion: Motion | None = None

    def do(self, move: Move) -> None:
        """Add a move after those that wait."""
        self._moves.append(move)

    @property
    def busy(self) -> bool:
        """True until the last move is done."""
        return bool(self._moves)

    @property
    def motor_speed_radps(self) -> float:
        return (
            self._inside.motor_speed_radps
            if self._motion is None
            else self._motion.motor_speed_radps
        )

    def rigid_body(self, mass_kg: float) -> tuple[float, float, float]:
        """Return what the wrapped plant says of its body."""
        return self._inside.rigid_body(mass_kg)

    def strike(
        self, pose: StartPose, speed_mps: float, lateral_speed_mps: float, yaw_rate_radps: float
    ) -> None:
        """Pass on a contact of a vehicle that nobody holds."""
        if self._pose is None:
            self._inside.strike(pose, speed_mps, lateral_speed_mps, yaw_rate_radps)

    def motion(self) -> Motion:
        return self._inside.motion() if self._motion is None else self._motion

    def step(self, throttle: float, brake: float, wheel_angle_rad: float) -> None:
        """Advance one grid step."""
        self._inside.step(throttle, brake, wheel_angle_rad)
        if not self._moves and not self._held:
            if self._pose is not None:
                # Put down where the last move ended.
                self._inside.strike(self._pose, 0.0, 0.0, 0.0)
                self._pose = self._motion = None
            return
        if self._pose is None:
            at = self._inside.motion()
            self._pose = StartPose(at.x_m, at.y_m, at.yaw_rad)
        self._motion = self._moved(self._pose)

    @property
    def _held(self) -> bool:
        return self._on_block or self._pitch != 0.0 or self._roll != 0.0

    def _moved(self, pose: StartPose) -> Motion:
        """Return the motion at this step of the first move."""
        self._time_s += self._step_s
        kind, amount = self._moves[0] if self._moves else Move("wait", 0.0)
        target, before = 0.0, 0.0
        match kind:
            case "push":
                target, seconds = amount, abs(amount) / PUSH_MPS
            case "turn":
                target = amount * pi / 180.0
                seconds = abs(target) / TURN_RADPS
            case "pitch" | "roll":
                before = self._pitch if kind == "pitch" else self._roll
                target, seconds = amount * pi / 180.0 - before, TILT_S
            case _:
                seconds = amount
        share, rate, acceleration = _eased(max(0.0, self._time_s - REST_S) / max(seconds, 1e-6))
        way = target * share
        speed = target * rate / max(seconds, 1e-6)
        push = target * acceleration / max(seconds, 1e-6) ** 2
        motion = self._still(pose)
        c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
        match kind:
            case "push":
                wheel = speed / self._wheel_radius_m
                motion = replace(
                    motion, x_m=pose.x_m + c * way, y_m=pose.y_m + s * way, speed_mps=speed,
                    acceleration_mps2=push, motor_speed_radps=wheel / self._gear_ratio,
                    wheel_speeds_radps=(wheel,) * 4,
                )  # fmt: skip
            case "turn":
                motion = replace(
                    motion,
                    yaw_rad=pose.yaw_rad + way,
                    yaw_rate_radps=speed,
                    yaw_acceleration_radps2=push,
                )
            case "pitch":
                motion = replace(
                    motion,
                    pitch_rad=before + way,
                    pitch_rate_radps=speed,
                    pitch_acceleration_radps2=push,
                )
            case "roll":
                motion = replace(
                    motion,
                    roll_rad=before + way,
                    roll_rate_radps=speed,
                    roll_acceleration_radps2=push,
                )
            case _:
                pass
        if self._moves and self._time_s >= REST_S + seconds:
            self._end(kind, motion)
        return motion

    def _still(self, pose: StartPose) -> Motion:
        """Return the vehicle held at rest; only its motor and wheels may turn, and only off the
        ground."""
        inside = self._inside.motion()
        free = inside.motor_speed_radps if self._on_block else 0.0
        return Motion(
            pose.x_m, pose.y_m, pose.yaw_rad, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, free, inside.z_m,
            self._roll, self._pitch,
            wheel_speeds_radps=inside.wheel_speeds_radps if self._on_block else (0.0,) * 4,
        )  # fmt: skip

    def _end(self, kind: str, motion: Motion) -> None:
        self._moves.popleft()
        self._time_s = 0.0
        if kind in ("pitch", "roll"):
            self._pitch = motion.pitch_rad if abs(motion.pitch_rad) > 1e-9 else 0.0
            self._roll = motion.roll_rad
            self._roll = self._roll if abs(self._roll) > 1e-9 else 0.0
        if kind in ("block", "floor"):
            self._on_block = kind == "block"
        self._pose = StartPose(motion.x_m, motion.y_m, motion.yaw_rad)


def _eased(u: float) -> tuple[float, float, float]:
    """Return the way of the smoothest move at a fraction of its time, with its first and second
    derivative."""
    if not 0.0 < u < 1.0:
        return float(u >= 1.0), 0.0, 0.0
    return (
        u**3 * (10.0 - 15.0 * u + 6.0 * u * u),
        30.0 * u * u * (1.0 - u) ** 2,
        60.0 * u * (1.0 - u) * (1.0 - 2.0 * u),
    )
