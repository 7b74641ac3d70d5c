"""Common part of the drivers of planar laser scanners: mounting, set-up, health, speed, and scans
that repeat.

A family of scanners is a codec, a table of its models, and a subclass of :class:`LidarDevice`.
Silence is judged by the daemon (row 23 of the failsafe matrix), which stops the vehicle. So the
faults here only say why no scan comes.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf, isfinite, pi, tau
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta, Struct

from drivers.counted import CountedDevice
from drivers.lidar.scan import MOST_RAYS, Revolutions, ScanGeometry
from drivers.set_up import Script, SetUpResult, SetUpRunner
from vehicled.core.messages import Event, Fault, LaserScan, Message, PortState, Reaction
from vehicled.core.ports import Action, Send, Transport
from vehicled.core.wire.episodes import FaultEpisode
from vehicled.core.wire.usage import MessageUsage, Unused

Angle = Annotated[float, Meta(ge=-pi, le=pi)]
Range = Annotated[float, Meta(gt=0.0, le=500.0)]

STOPPED_S = 1.0
"""Time without a whole turn, while measurements arrive, after which the scanner counts as
stopped."""
STUCK_SCANS = 10
LEAST_RETURNS_STUCK = 16
"""Returns that a scan must have so that a repetition can be recognised; noise changes some of
them."""
SPEED_TOLERANCE = 0.25
"""Relative difference from the set speed that is reported. Motors without control differ by 10
%."""


FASTEST = 2.5
"""Speed over the set one beyond which the angles of a frame are not believed: they belong to two
turns, or the motor stands."""


class ScannerModel(NamedTuple):
    """One model of a family."""

    range_min_m: float
    range_max_m: float
    rate_hz: float
    """Turns per second as delivered."""
    samples_hz: float
    """Measurements per second, those that a blind sector leaves out included."""
    baud: int = 0
    """Line rate as delivered; 0 for USB and networks."""
    first_rad: float = 0.0
    """Angle of the first ray of a scan, in the direction of rotation."""
    last_rad: float = tau
    """Angle of the last ray; a whole turn for a scanner that sends as it turns."""

    front_rad: float = 0.0
    """Angle of the device's front."""

    @property
    def streams(self) -> bool:
        """True if measurements leave the device as it turns, and not in whole scans."""
        return self.last_rad - self.first_rad > tau - 1e-6


class LidarParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of every scanner. Bearings are those of the body: counter-clockwise from forward,
    in rad."""

    rate_hz: Annotated[float, Meta(gt=0.0, le=100.0)] | None = None
    """Turns per second, set in the device if it can be. Default: as the model is delivered."""
    latency_s: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.002
    """Least time from a measurement to the arrival of its last byte, s."""
    mounting_yaw_rad: Angle = 0.0
    """Bearing of the device's zero."""
    upside_down: bool = False
    """True if the device's top is below: it then turns the other way."""
    angle_min_rad: Angle = -pi
    """First bearing of the sector that is used."""
    angle_max_rad: Angle = pi
    """Last bearing of the sector that is used."""
    masked_rad: list[tuple[Angle, Angle]] = []
    """Sectors, from bearing to bearing counter-clockwise, in which the vehicle's own parts
    stand."""
    range_min_m: Range | None = None
    """Returns nearer than this are reported as too near. Default: the model's."""
    range_max_m: Range | None = None
    """Returns beyond are reported as none. Default: the model's."""
    least_returns: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    """Fraction of the rays that must have a return. Below it those without one count as blind: a
    covered window. 0: never."""
    configure: bool = True
    """Start and set up the device when the port opens; false only listens and never sends."""
    answer_timeout_s: Annotated[float, Meta(ge=0.01, le=10)] = 0.5
    """Time to wait for the answer to a request, s."""
    tries: Annotated[int, Meta(ge=1, le=20)] = 3
    """Attempts per request before the set-up fails."""
    retry_s: Annotated[float, Meta(ge=0.1, le=600)] = 2.0
    """Pause between a failed set-up and the next, s."""
    silence_s: Annotated[float, Meta(ge=0.1, le=60)] = 1.0
    """Time without measurements after which the device is set up again, s."""

    def __post_init__(self) -> None:
        if not self.angle_max_rad > self.angle_min_rad:
            raise ValueError(
                "angle_max_rad must be above angle_min_rad: bearings count counter-clockwise"
            )
        if (
            self.range_min_m is not None
            and self.range_max_m is not None
            and self.range_min_m >= self.range_max_m
        ):
            raise ValueError("range_max_m must be above range_min_m")
        hidden = sum((high - low) % tau for low, high in self.masked_rad)
        if hidden > 0.4 * (self.angle_max_rad - self.angle_min_rad):
            raise ValueError(
                "masked_rad hides more than 40 % of the sector, which counts as blind: narrow "
                "the sector"
            )


class Health(Struct, frozen=True):
    """State that a device reports of itself; ``reason`` is empty if it is well."""

    reason: str


class LidarDevice(CountedDevice):
    """Driver of a planar scanner. A subclass names its models and provides a reader,
    :meth:`decode`, and perhaps a set-up."""

    name: ClassVar[str] = "lidar"
    """Origin of its faults and events."""
    models: ClassVar[Mapping[str, ScannerModel]] = {}
    clockwise: ClassVar[bool] = False
    """True if it turns clockwise seen from its top."""

    Params: ClassVar[type[LidarParams]] = LidarParams
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (LaserScan, Fault, Event)
    consumes: tuple[type[Message], ...] = ()

    def __init__(
        self, params: LidarParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Produce LaserScan if it is in ``messages``; queued bytes expire after
        ``command_lifetime_ns``."""
        self.params = params
        self.model = self.models[getattr(params, "model", next(iter(self.models)))]
        self.rate_hz = params.rate_hz or self.model.rate_hz
        self._wanted = LaserScan in messages
        self._lifetime_ns = command_lifetime_ns
        self._latency_ns = round(params.latency_s * 1e9)
        self.usage = MessageUsage()
        self._tx: list[Action] = []
        self._set_up = SetUpRunner(params, self.script, self.send)
        self.scans = 0
        """Scans decoded, including those not passed on."""
        self.stuck_scans = 0
        """Scans withheld because they repeat the one before."""
        self._health, self._motor = (
            FaultEpisode("lidar_health", self.name),
            FaultEpisode("lidar_speed", self.name),
        )
        self._stuck = FaultEpisode("lidar_stuck", self.name)
        self._arm_m = 0.0, 0.0
        self._place()
        self.restart()
        self._begin()

    # ---------------------------------------------------------------- for subclasses

    @abstractmethod
    def decode(self, data: bytes, t_rx_ns: int) -> Sequence[LaserScan | Health | Any]:
        """Return the scans and reports of health that the bytes complete; all else is a reply to
        the set-up. Never raises."""

    def script(self) -> Script:
        """Return the set-up; one without requests for a device that only sends."""
        return {}
        yield

    def restart(self) -> None:
        """Drop half-assembled measurements because the stream begins anew."""

    def sign_of_life(self) -> int:
        """Return a count that grows with each message that measures anything."""
        return self.scans

    # ---------------------------------------------------------------- helpers of subclasses

    def send(self, data: bytes, now_ns: int) -> None:
        self._tx.append(Send(data, now_ns + self._lifetime_ns))

    def event(self, now_ns: int, level: str, name: str, **fields: object) -> Event:
        """Return an event log entry with the device's name."""
        return Event.of(now_ns, level, name, device=self.name, **fields)

    def plausible(self, span_deg: float, samples: int, sample_ns: float) -> bool:
        """Return True if the rotor can have turned so far while it made so many measurements."""
        return span_deg <= FASTEST * 360.0 * self.rate_hz * samples * sample_ns * 1e-9

    def _place(self) -> None:
        p = self.params
        self.geometry = ScanGeometry(
            self.clockwise is not p.upside_down,
            p.mounting_yaw_rad
            - (1 if self.clockwise is p.upside_down else -1) * self.model.front_rad,
            p.angle_min_rad,
            p.angle_max_rad,
            p.masked_rad,
            *self._arm_m,
            self.model.range_min_m if p.range_min_m is None else p.range_min_m,
            self.model.range_max_m if p.range_max_m is None else p.range_max_m,
            p.least_returns,
        )

    def _begin(self) -> None:
        self._ranges: tuple[float, ...] = ()
        self._same = 0
        self._seen = self.sign_of_life()
        self._turned_ns = 0
        self._refusal = ""

    # ---------------------------------------------------------------- Device

    def mount(self, lever_arm_m: Sequence[float]) -> None:
        """Set the scanner's position, forward, left and up of the rear axle."""
        self._arm_m = lever_arm_m[0], lever_arm_m[1]
        self._place()
        self.restart()

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Begin the set-up when the port opens, because the device may have restarted; cancel it
        when the port is lost."""
        messages: list[Message] = []
        self._tx.clear()
        self._set_up.reset()
        self.restart()
        self._begin()
        if state is PortState.OPENED:
            self._turned_ns = now_ns
            if self.params.configure:
                self._run(self._set_up.start, now_ns, messages)
        return messages

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        messages: list[Message] = []
        for found in self.decode(data, t_rx_ns):
            if isinstance(found, LaserScan):
                self._take(found, t_rx_ns, messages)
            elif isinstance(found, Health):
                messages += self._health.set(found.reason, t_rx_ns)
            elif isinstance(found, Message):
                messages.append(found)
            else:
                self._run(partial(self._set_up.offer, found), t_rx_ns, messages)
        seen = self.sign_of_life()
        if seen != self._seen:
            self._seen = seen
            self._set_up.alive(t_rx_ns)
            if t_rx_ns - self._turned_ns > STOPPED_S * 1e9 and self._turned_ns:
                messages += self._motor.set("it measures, but it does not turn", t_rx_ns)
        if self.usage.news:
            messages += self.usage.take_events(t_rx_ns, self.name)
        return messages

    def next_due_ns(self) -> int:
        return self._set_up.due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Go on with the set-up, or begin it again after silence."""
        messages: list[Message] = []
        self._run(self._set_up.on_time, now_ns, messages)
        return messages

    def take_tx(self) -> Sequence[Action]:
        tx, self._tx = self._tx, []
        return tx

    # ---------------------------------------------------------------- scans

    def _take(self, scan: LaserScan, t_rx_ns: int, messages: list[Message]) -> None:
        self.scans += 1
        self._turned_ns = t_rx_ns
        speed_hz = 1.0 / scan.scan_time_s if scan.scan_time_s > 0.0 else inf
        off = (
            not isfinite(speed_hz) or abs(speed_hz - self.rate_hz) > SPEED_TOLERANCE * self.rate_hz
        )
        reason = (
            f"it turns {speed_hz:.1f} times per second, and {self.rate_hz:.1f} is set"
            if off
            else ""
        )
        messages += self._motor.set(reason, t_rx_ns)
        # An identical scan, noise included, comes from a device that hangs.
        same = (
            scan.ranges_m == self._ranges
            and sum(map(isfinite, scan.ranges_m)) >= LEAST_RETURNS_STUCK
        )
        self._same = self._same + 1 if same else 0
        self._ranges = scan.ranges_m
        stuck = self._same >= STUCK_SCANS
        messages += self._stuck.set(
            f"{self._same + 1} scans in a row are the same" if stuck else "", t_rx_ns
        )
        if stuck:
            self.stuck_scans += 1
        elif self._wanted:
            messages.append(scan)
        else:
            self.usage.refuse("scan", Unused.NOT_WANTED)

    # ---------------------------------------------------------------- set-up

    def _run(
        self, step: Callable[[int], SetUpResult | None], now_ns: int, messages: list[Message]
    ) -> None:
        begun, failed = self._set_up.attempts, self._set_up.failed
        result = step(now_ns)
        if self._set_up.attempts != begun:
            self.restart()
            self._turned_ns = now_ns
        if result is None:
            return
        if result.fields is None:
            if not failed or result.reason != self._refusal:
                self._refusal = result.reason
                messages.append(
                    Fault(
                        now_ns, "lidar_configuration", self.name, Reaction.WARN, True, result.reason
                    )
                )
            return
        self._turned_ns = now_ns
        if failed:
            messages.append(
                Fault(now_ns, "lidar_configuration", self.name, Reaction.NONE, False, "set up")
            )
        if result.fields:
            messages.append(self.event(now_ns, "info", "lidar_configured", **result.fields))


class TurningParams(LidarParams, frozen=True, kw_only=True):
    """Parameters of a scanner that sends as it turns."""

    rays: Annotated[int, Meta(ge=0, le=MOST_RAYS)] = 0
    """Rays of a scan over the whole turn; 0: about as many as the model measures."""


class TurningLidar(LidarDevice):
    """Driver of a scanner that turns clockwise and sends as it turns. A subclass adds its
    measurements to ``_turns``."""

    clockwise: ClassVar[bool] = True
    ray_share: ClassVar[float] = 0.9
    """Rays for each measurement of a turn, so that none stays empty."""
    params: TurningParams

    def __init__(
        self, params: TurningParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._measured = 0
        """Messages that measured anything."""
        super().__init__(params, messages, command_lifetime_ns)

    def sign_of_life(self) -> int:
        return self._measured

    def restart(self) -> None:
        self._begin_turns(self.model.samples_hz)

    def _begin_turns(self, samples_hz: float) -> None:
        per_turn = self.ray_share * samples_hz / self.rate_hz
        rays = self.params.rays or min(MOST_RAYS, round(per_turn))
        self._turns = Revolutions(self.geometry, rays, self.rate_hz)
