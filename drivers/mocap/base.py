"""Common part of the drivers of motion capture: frames of reference, checks of each pose, faults,
and the messages that a pose becomes.

A protocol is a codec and a subclass of :class:`MocapDevice` that yields sightings of one body. A
pose that contradicts itself or the one before is withheld and named: a body that flips by half a
turn, an exchanged body, one that repeats itself, one that tilts because an axis is wrong.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from math import acos, asin, atan2, cos, degrees, hypot, isfinite, pi, remainder, sin, tau
from typing import Annotated, ClassVar, Literal, NamedTuple

from msgspec import Meta, Struct

from drivers.counted import CountedDevice
from drivers.mocap.plane import LocalPlane
from vehicled.core.messages import (
    NAN,
    CarrierSolution,
    Event,
    Fault,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    MapMatch,
    MapPose,
    Message,
    PortState,
    Reaction,
    ReferenceState,
)
from vehicled.core.ports import NEVER_NS, Action, Send
from vehicled.core.wire.episodes import FaultEpisode
from vehicled.core.wire.usage import MessageUsage, Unused

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
Angle = Annotated[float, Meta(ge=-pi, le=pi)]
Place = Annotated[float, Meta(ge=-1000.0, le=1000.0)]
Up = Literal["y", "z"]

CHECK_NS = 100_000_000
"""Period of the check for silence."""
MOST_TILT_RAD = 0.6
"""Tilt beyond which a ground vehicle is not believed."""
FIRST_S = 2.0
"""Time after the port opens in which a server is connected and asked for names, s."""
BODY_SIGHTINGS = 200
"""Frames over which lost ones are counted."""
LOST_SHARE = 0.05
"""Share of lost frames that is reported."""
LATE_FRAMES = 1000
"""Frames by which a number may go back as a late frame; by more the server began anew."""
LEAST_GATE_M = 0.05
MOST_GATE_M = 1.0
TURN_GATE_RAD = 0.3
FLIP_RAD = 2.0
"""Largest turn that is believed at once. Symmetric markers flip a body by half a turn, or by a
quarter."""
VELOCITY_NS = 80_000_000
"""Time over which a velocity is a difference of two poses."""
PAUSE_NS = 500_000_000
"""Time between two poses over which no velocity is computed."""


class MocapParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of every motion capture system."""

    body: Annotated[str, Meta(max_length=120)] = ""
    """Name or number of the vehicle's rigid body; empty if the system tracks one body alone."""
    x_m: Place = 0.0
    """Origin of the capture volume, east in the map."""
    y_m: Place = 0.0
    """Origin of the capture volume, north in the map."""
    yaw_rad: Angle = 0.0
    """Bearing of the capture volume's x axis, counter-clockwise from east."""
    mounting_yaw_rad: Angle = 0.0
    """Bearing of the rigid body's x axis on the vehicle, counter-clockwise from forward."""
    position_sigma_m: Annotated[float, Meta(ge=1e-4, le=10.0)] = 0.003
    """Standard deviation of a position per axis, markers and calibration included."""
    yaw_sigma_rad: Annotated[float, Meta(ge=1e-4, le=1.0)] = 0.01
    """Standard deviation of a yaw."""
    latency_s: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.004
    """Least time from the exposure to the arrival that the protocol does not state."""
    every: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Passes on every n-th pose."""
    max_marker_error_m: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.02
    """Mean marker error beyond which a pose is not believed, where the system states one."""
    max_acceleration_mps2: Annotated[float, Meta(gt=0.0, le=1000.0)] = 15.0
    """Acceleration by which a pose may differ from the motion before it."""
    max_turn_radps: Annotated[float, Meta(gt=0.0, le=100.0)] = 8.0
    """Fastest turn of the vehicle."""
    same_poses: Annotated[int, Meta(ge=2, le=1000)] = 5
    """Equal poses in a row from which on they count as frozen: noise changes the last digits."""
    reacquire_s: Annotated[float, Meta(ge=0.1, le=600.0)] = 3.0
    """Time for which a body that has jumped must move steadily to be believed again."""
    forget_s: Annotated[float, Meta(ge=0.5, le=600.0)] = 10.0
    """Time without tracking after which any pose is believed."""
    lost_cap_s: Annotated[float, Meta(ge=0.01, le=60.0)] = 0.2
    """Time without a believed pose after which the speed is capped."""
    lost_stop_s: Annotated[float, Meta(ge=0.05, le=600.0)] = 1.0
    """Time without a believed pose after which the vehicle stops."""
    latitude_deg: Annotated[float, Meta(ge=-90.0, le=90.0)] = 43.0705
    """Latitude of the map's origin, for ``GnssFix`` and ``ReferenceState``: that of the course.
    The default is that of courses which name no place."""
    longitude_deg: Annotated[float, Meta(ge=-180.0, le=180.0)] = -89.4090
    """Longitude of the map's origin."""
    height_m: Annotated[float, Meta(ge=-1000.0, le=10000.0)] = 230.0
    """Height of the map's origin above the ellipsoid."""


class BodySighting(NamedTuple):
    """The vehicle's body in one frame, in the axes of the system, z up."""

    name: str
    """Name of the message in the account."""
    t_ns: int
    """Time of exposure."""
    number: int | None = None
    """Number of the frame; None if the protocol has none."""
    position_m: Vector | None = None
    """Pivot; None if the body is not in the frame."""
    attitude: Quaternion = (0.0, 0.0, 0.0, 1.0)
    """Quaternion x, y, z, w."""
    tracked: bool = True
    marker_error_m: float = 0.0
    missing: str = ""
    """Text that says why the body is not there."""


class PoseFault(StrEnum):
    """Code of the fault by which a withheld pose is named."""

    LOST = "mocap_lost"
    JUMPED = "mocap_jumped"
    FLIPPED = "mocap_flipped"
    FROZEN = "mocap_frozen"
    TILTED = "mocap_tilted"


class PoseProblem(NamedTuple):
    """Reason why a pose is withheld."""

    refusal: PoseFault
    unused: Unused
    text: str


class BodyPose(NamedTuple):
    """Pose of the body's pivot in the map, with the attitude of the vehicle."""

    t_ns: int
    x_m: float
    y_m: float
    z_m: float
    roll_rad: float
    pitch_rad: float
    yaw_rad: float


class _Track(NamedTuple):
    """Newest pose of a continuous motion."""

    pose: BodyPose
    vx_mps: float
    vy_mps: float
    since_ns: int


def z_up(vector: Vector, up: Up) -> Vector:
    """Return a vector of a system whose ``up`` axis is vertical in axes with z up."""
    x, y, z = vector
    return (x, -z, y) if up == "y" else vector


def from_z_up(vector: Vector, up: Up) -> Vector:
    """Return a vector of axes with z up in those of a system; the inverse of :func:`z_up`."""
    x, y, z = vector
    return (x, z, -y) if up == "y" else vector


class MocapDevice(CountedDevice):
    """Driver of a motion capture system. A subclass provides a reader and :meth:`sightings`."""

    name: ClassVar[str] = "mocap"
    """Origin of its faults and events."""
    cure: ClassVar[str] = "look at the network and at the streaming settings of the system"
    """Advice where nothing arrives."""
    Params: ClassVar[type[MocapParams]] = MocapParams
    produces: ClassVar[tuple[type[Message], ...]] = (
        MapPose, GnssFix, Heading, ReferenceState, Fault, Event,
    )  # fmt: skip
    consumes: tuple[type[Message], ...] = ()

    def __init__(
        self, params: MocapParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Produce those of MapPose, GnssFix, Heading and ReferenceState that are in
        ``messages``."""
        self.params = params
        self.usage = MessageUsage()
        self._wanted = frozenset(messages)
        self._measures = bool(self._wanted & {MapPose, GnssFix, Heading})
        self._lifetime_ns = command_lifetime_ns
        self._latency_ns = round(params.latency_s * 1e9)
        self._plane = LocalPlane(params.latitude_deg, params.longitude_deg, params.height_m)
        self._axes = cos(params.yaw_rad), sin(params.yaw_rad)
        self._arm: Vector = (0.0, 0.0, 0.0)
        self._tx: list[Action] = []
        self._faults = {code: FaultEpisode(code.value, self.name) for code in PoseFault}
        self._drops = FaultEpisode("mocap_frames_lost", self.name)
        self.lost_frames = 0
        """Frames that the numbers show to be missing."""
        self.withheld = 0
        """Poses that were not believed."""
        self._due_ns = NEVER_NS
        self._open = True
        self._since_ns: int | None = None
        self._believed_ns: int | None = None
        self._why: PoseProblem | None = None
        self._track: _Track | None = None
        self._candidate: _Track | None = None
        self._number: int | None = None
        self._begin()

    # ---------------------------------------------------------------- for subclasses

    @abstractmethod
    def sightings(self, data: bytes, t_rx_ns: int) -> Sequence[BodySighting]:
        """Return the sightings that the bytes complete. Never raises."""

    @property
    def advice(self) -> str:
        """Advice where nothing arrives."""
        return self.cure

    def restart(self, now_ns: int) -> None:
        """Begin anew, because the port has opened."""

    def keep_up(self, now_ns: int) -> None:
        """Send what is due; called ten times a second while the port is open."""

    def send(self, data: bytes, now_ns: int) -> None:
        """Queue bytes for the port."""
        self._tx.append(Send(data, now_ns + self._lifetime_ns))

    # ---------------------------------------------------------------- Device

    def mount(self, lever_arm_m: Sequence[float]) -> None:
        """Set the place of the body's pivot, forward, left and up of the rear axle."""
        self._arm = (lever_arm_m[0], lever_arm_m[1], lever_arm_m[2])

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Forget the motion; ask the server when the port opens. While it is closed the time
        without a pose goes on."""
        self._tx.clear()
        self._begin()
        self._open = state is PortState.OPENED
        if self._open:
            self._since_ns = now_ns
            self._due_ns = now_ns
            self.restart(now_ns)
        elif self._believed_ns is None:
            self._due_ns = NEVER_NS
        else:
            self._due_ns = now_ns
            text = f"the port is closed: {detail}"
            self._why = PoseProblem(PoseFault.LOST, Unused.NO_SOLUTION, text)
        return ()

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        messages: list[Message] = []
        if self._since_ns is None:
            self._since_ns = t_rx_ns
        for sighting in self.sightings(data, t_rx_ns):
            self._take(sighting, t_rx_ns, messages)
        if self.usage.news:
            messages += self.usage.take_events(t_rx_ns, self.name)
        return messages

    def next_due_ns(self) -> int:
        return self._due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Look for silence, and keep the connection alive."""
        if now_ns < self._due_ns:
            return ()
        self._due_ns = now_ns + CHECK_NS
        messages: list[Message] = []
        if self._open:
            self.keep_up(now_ns)
        if self._open and now_ns - self._arrived_ns > self._silence_ns:
            text = f"nothing arrives: {self.advice}"
            self._why = PoseProblem(PoseFault.LOST, Unused.NO_SOLUTION, text)
        self._judge(now_ns, messages)
        return messages

    def take_tx(self) -> Sequence[Action]:
        tx, self._tx = self._tx, []
        return tx

    # ---------------------------------------------------------------- sightings

    def _begin(self) -> None:
        self._since_ns = None
        self._silence_ns = round(self.params.lost_cap_s * 1e9)
        self._arrived_ns = -NEVER_NS
        self._seen_ns = -NEVER_NS
        self._track = None
        self._candidate = None
        self._number = None
        self._lost: deque[int] = deque(maxlen=BODY_SIGHTINGS)
        self._same = 0
        self._raw: tuple[object, ...] = ()
        self._why = None
        self._count = 0
        self._past: deque[BodyPose] = deque()

    def _take(self, s: BodySighting, t_rx_ns: int, messages: list[Message]) -> None:
        if not self._in_order(s, t_rx_ns, messages):
            return
        self._arrived_ns = t_rx_ns
        pose, problem = self._checked(s)
        if problem is None and pose is not None:
            problem = self._against_motion(pose, t_rx_ns, messages)
        if problem is not None or pose is None:
            assert problem is not None
            self.withheld += 1
            self._why = problem
            self.usage.refuse(s.name, problem.unused)
            self._judge(t_rx_ns, messages)
            return
        self._why = None
        self._believed_ns = t_rx_ns
        for fault in self._faults.values():
            messages += fault.set("", t_rx_ns)
        self._publish(s, pose, t_rx_ns, messages)

    def _in_order(self, s: BodySighting, t_rx_ns: int, messages: list[Message]) -> bool:
        """Count lost frames; return False for one that came before."""
        if s.number is None:
            return True
        step = 1 if self._number is None else s.number - self._number
        if -LATE_FRAMES < step <= 0:
            self.usage.refuse(s.name, Unused.REPEATED)
            return False
        self._number = s.number
        lost = step - 1 if 0 < step <= LATE_FRAMES else 0
        self.lost_frames += lost
        self._lost.append(lost)
        total = sum(self._lost)
        share = total / (total + len(self._lost))
        reason = (
            f"{100.0 * share:.0f} % of the frames are lost: use a cable, and switch off what else "
            "the system streams"
            if share > LOST_SHARE and len(self._lost) == self._lost.maxlen
            else ""
        )
        messages += self._drops.set(reason, t_rx_ns)
        return True

    def _checked(self, s: BodySighting) -> tuple[BodyPose | None, PoseProblem | None]:
        """Return the pose of a sighting, or why it is none by itself."""

        def lost(unused: Unused, text: str) -> tuple[None, PoseProblem]:
            return None, PoseProblem(PoseFault.LOST, unused, text)

        if s.position_m is None:
            return lost(Unused.FOREIGN, s.missing)
        raw = (s.position_m, s.attitude)
        self._same = self._same + 1 if raw == self._raw else 0
        self._raw = raw
        if not s.tracked:
            return lost(Unused.NO_SOLUTION, "the system does not see the body")
        square = sum(each * each for each in s.attitude)
        if not isfinite(sum(s.position_m) + square) or max(map(abs, s.position_m)) > 1e4:
            return lost(Unused.NOT_FINITE, "its pose is no number")
        if s.position_m == (0.0, 0.0, 0.0):
            return lost(Unused.ALL_ZERO, "the system does not see the body (zeros)")
        if abs(square - 1.0) > 0.05:
            return lost(Unused.NOT_A_ROTATION, "its attitude is no rotation")
        if not s.marker_error_m <= self.params.max_marker_error_m:
            return lost(
                Unused.TOO_INACCURATE,
                f"its markers are off by {1e3 * s.marker_error_m:.1f} mm in the mean: calibrate "
                "the cameras, or look for a marker that has moved",
            )
        if self._same + 1 >= self.params.same_poses:
            return None, PoseProblem(
                PoseFault.FROZEN,
                Unused.STUCK,
                f"the system repeats one pose ({self._same + 1} frames): it has lost the body "
                "and does not say so, or it is paused",
            )
        pose, tilt_rad = self._in_map(s.t_ns, s.position_m, s.attitude)
        if tilt_rad > MOST_TILT_RAD:
            return None, PoseProblem(
                PoseFault.TILTED,
                Unused.CONTRADICTION,
                f"the body tilts by {degrees(tilt_rad):.0f} degrees: look whether up_axis is that "
                "of the system, and define the body while the vehicle stands level",
            )
        return pose, None

    def _in_map(self, t_ns: int, p: Vector, q: Quaternion) -> tuple[BodyPose, float]:
        """Return the pose of the pivot in the map, and the vehicle's tilt."""
        x, y, z, w = q
        norm = x * x + y * y + z * z + w * w
        s = 2.0 / norm
        c, n = cos(self.params.mounting_yaw_rad), -sin(self.params.mounting_yaw_rad)
        # Columns of the rotation matrix: the body's axes in those of the system.
        ax, ay, az = 1.0 - s * (y * y + z * z), s * (x * y + z * w), s * (x * z - y * w)
        bx, by, bz = s * (x * y - z * w), 1.0 - s * (x * x + z * z), s * (y * z + x * w)
        fx, fy, fz = c * ax + n * bx, c * ay + n * by, c * az + n * bz
        lz = -n * az + c * bz
        up = 1.0 - s * (x * x + y * y)
        cy, sy = self._axes
        pose = BodyPose(
            t_ns,
            self.params.x_m + cy * p[0] - sy * p[1],
            self.params.y_m + sy * p[0] + cy * p[1],
            p[2],
            atan2(lz, up),
            -asin(max(-1.0, min(1.0, fz))),
            remainder(atan2(fy, fx) + self.params.yaw_rad, tau),
        )
        return pose, acos(max(-1.0, min(1.0, up)))

    # ---------------------------------------------------------------- motion

    def _against_motion(
        self, pose: BodyPose, t_rx_ns: int, messages: list[Message]
    ) -> PoseProblem | None:
        """Compare a pose with the motion before it; return why it is not believed."""
        unseen_ns, self._seen_ns = t_rx_ns - self._seen_ns, t_rx_ns
        track = self._track
        if track is None or unseen_ns > self.params.forget_s * 1e9:
            self._accept(pose, anew=True)
            return None
        off_m, turn_rad = self._apart(track, pose)
        candidate = self._candidate
        followed = candidate is not None and self._follows(candidate, pose)
        # The gate grows with time, and would let in whoever was refused at first.
        nearer = followed and candidate is not None and self._apart(candidate, pose)[0] < off_m
        near = off_m <= self._gate_m(track, pose)
        if near and turn_rad <= self._turn_gate_rad(track, pose) and not nearer:
            self._accept(pose)
            return None
        if candidate is None or not followed:
            self._candidate = _Track(pose, 0.0, 0.0, pose.t_ns)
        else:
            self._candidate = self._advanced(candidate, pose)
        flipped = turn_rad > FLIP_RAD or (near and turn_rad > self._turn_gate_rad(track, pose))
        steady_s = (pose.t_ns - self._candidate.since_ns) * 1e-9
        if flipped:
            return PoseProblem(
                PoseFault.FLIPPED,
                Unused.CONTRADICTION,
                f"the body has turned by {degrees(turn_rad):.0f} degrees at once: its markers look "
                "alike from two sides, place one unlike the others; cover the body for "
                f"{self.params.forget_s:g} s if it did turn",
            )
        if steady_s < self.params.reacquire_s:
            return PoseProblem(
                PoseFault.JUMPED,
                Unused.CONTRADICTION,
                f"the body has jumped by {off_m:.2f} m: another body has been taken for it, or a "
                "reflection",
            )
        messages.append(
            Event.of(
                t_rx_ns, "warning", "mocap_reacquired", device=self.name, off_m=off_m,
                turned_rad=turn_rad,
            )
        )  # fmt: skip
        self._accept(pose, anew=True)
        return None

    def _apart(self, track: _Track, pose: BodyPose) -> tuple[float, float]:
        """Return how far a pose is from where the motion leads, and its turn."""
        dt = min((pose.t_ns - track.pose.t_ns) * 1e-9, 1.0)
        off_m = hypot(
            pose.x_m - track.pose.x_m - track.vx_mps * dt,
            pose.y_m - track.pose.y_m - track.vy_mps * dt,
        )
        return off_m, abs(remainder(pose.yaw_rad - track.pose.yaw_rad, tau))

    def _gate_m(self, track: _Track, pose: BodyPose) -> float:
        dt = (pose.t_ns - track.pose.t_ns) * 1e-9
        return min(LEAST_GATE_M + 0.5 * self.params.max_acceleration_mps2 * dt * dt, MOST_GATE_M)

    def _turn_gate_rad(self, track: _Track, pose: BodyPose) -> float:
        dt = (pose.t_ns - track.pose.t_ns) * 1e-9
        return min(TURN_GATE_RAD + self.params.max_turn_radps * dt, FLIP_RAD)

    def _follows(self, track: _Track, pose: BodyPose) -> bool:
        off_m, turn_rad = self._apart(track, pose)
        return (
            pose.t_ns - track.pose.t_ns < PAUSE_NS
            and off_m <= self._gate_m(track, pose)
            and turn_rad <= self._turn_gate_rad(track, pose)
        )

    @staticmethod
    def _advanced(track: _Track, pose: BodyPose) -> _Track:
        dt = (pose.t_ns - track.pose.t_ns) * 1e-9
        if dt <= 0.0:
            return track._replace(pose=pose)
        # A mean over some poses: the difference of two is mostly noise.
        share = min(1.0, dt / 0.05)
        vx = track.vx_mps + share * ((pose.x_m - track.pose.x_m) / dt - track.vx_mps)
        vy = track.vy_mps + share * ((pose.y_m - track.pose.y_m) / dt - track.vy_mps)
        return _Track(pose, vx, vy, track.since_ns)

    def _accept(self, pose: BodyPose, *, anew: bool = False) -> None:
        self._candidate = None
        if anew or self._track is None:
            self._past.clear()
            self._track = _Track(pose, 0.0, 0.0, pose.t_ns)
        else:
            self._track = self._advanced(self._track, pose)

    # ---------------------------------------------------------------- faults

    def _judge(self, now_ns: int, messages: list[Message]) -> None:
        """Report what is wrong, the harder the longer no pose is believed."""
        problem, begun_ns = self._why, self._believed_ns
        if begun_ns is None:
            begun_ns = self._since_ns
        if problem is None or begun_ns is None:
            return
        lost_s = (now_ns - begun_ns) * 1e-9
        grace_s = FIRST_S if self._believed_ns is None else self.params.lost_cap_s
        if lost_s < grace_s and problem.refusal is PoseFault.LOST:
            return
        reaction = Reaction.WARN
        if self._measures and lost_s >= self.params.lost_stop_s:
            reaction = Reaction.CONTROLLED_STOP
        elif self._measures and lost_s >= self.params.lost_cap_s:
            reaction = Reaction.CAP_SPEED
        for code, fault in self._faults.items():
            if code is not problem.refusal:
                messages += fault.set("", now_ns)
        messages += self._faults[problem.refusal].set(problem.text, now_ns, reaction)

    # ---------------------------------------------------------------- messages

    def _publish(
        self, s: BodySighting, pose: BodyPose, t_rx_ns: int, messages: list[Message]
    ) -> None:
        velocity = self._velocity(pose)
        self.usage.use(s.name)
        self._count += 1
        if self._count % self.params.every:
            return
        sigma_m, sigma_rad = self.params.position_sigma_m, self.params.yaw_sigma_rad
        if MapPose in self._wanted:
            messages.append(self._map_pose(pose, t_rx_ns))
        if {GnssFix, ReferenceState} & self._wanted:
            place = self._plane.to_geodetic(pose.x_m, pose.y_m, pose.z_m)
            speed_sigma_mps = sigma_m * 2.0**0.5 / (VELOCITY_NS * 1e-9)
        if GnssFix in self._wanted:
            variance, spread = sigma_m * sigma_m, speed_sigma_mps * speed_sigma_mps
            messages.append(
                GnssFix(
                    pose.t_ns, t_rx_ns, *place, velocity,
                    (variance, 0.0, 0.0, 0.0, variance, 0.0, 0.0, 0.0, variance),
                    (spread, 0.0, 0.0, 0.0, spread, 0.0, 0.0, 0.0, spread),
                    FixType.FIX_3D, CarrierSolution.NONE,
                )
            )  # fmt: skip
        if Heading in self._wanted:
            messages.append(
                Heading(pose.t_ns, t_rx_ns, pose.yaw_rad, sigma_rad, HeadingKind.MOVING_BASE)
            )
        if ReferenceState in self._wanted and isfinite(velocity[0]):
            messages.append(
                ReferenceState(
                    pose.t_ns, t_rx_ns, *place, velocity, pose.roll_rad, pose.pitch_rad,
                    pose.yaw_rad, NAN, (sigma_m,) * 3, (speed_sigma_mps,) * 3, sigma_rad,
                )
            )  # fmt: skip

    def _map_pose(self, pose: BodyPose, t_rx_ns: int) -> MapPose:
        forward, left, up = self._arm
        sr, cr, sp, cp = (
            sin(pose.roll_rad), cos(pose.roll_rad), sin(pose.pitch_rad), cos(pose.pitch_rad)
        )  # fmt: skip
        s, c = sin(pose.yaw_rad), cos(pose.yaw_rad)
        upright = sr * left + cr * up
        ahead, aside = cp * forward + sp * upright, cr * left - sr * up
        dx, dy = c * ahead - s * aside, s * ahead + c * aside
        sigma_m, sigma_rad = self.params.position_sigma_m, self.params.yaw_sigma_rad
        variance, turn = sigma_m * sigma_m, sigma_rad * sigma_rad
        # The axle is the pivot less the arm: an error of the yaw moves it by (dy, -dx).
        return MapPose(
            pose.t_ns, t_rx_ns, pose.x_m - dx, pose.y_m - dy, pose.yaw_rad,
            (
                variance + turn * dy * dy, -turn * dx * dy, turn * dy,
                -turn * dx * dy, variance + turn * dx * dx, -turn * dx,
                turn * dy, -turn * dx, turn,
            ),
            1.0, MapMatch.MATCHED,
        )  # fmt: skip

    def _velocity(self, pose: BodyPose) -> Vector:
        past = self._past
        if past and not 0 < pose.t_ns - past[-1].t_ns < PAUSE_NS:
            past.clear()
        past.append(pose)
        while len(past) > 2 and pose.t_ns - past[1].t_ns >= VELOCITY_NS:
            past.popleft()
        before = past[0]
        dt = (pose.t_ns - before.t_ns) * 1e-9
        if dt < 0.5e-9 * VELOCITY_NS:
            return NAN, NAN, NAN
        return (
            (pose.x_m - before.x_m) / dt,
            (pose.y_m - before.y_m) / dt,
            (pose.z_m - before.z_m) / dt,
        )
