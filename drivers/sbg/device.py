"""Driver of SBG Systems units: inertial samples, heading, fixes, or the reference state that judges
all others. See NOTES.md."""

from collections.abc import Callable, Sequence
from math import isfinite, pi, radians
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from drivers.imu.axes import flu
from drivers.imu.base import Sample, sound, turn
from drivers.imu.set_up import ConfigurableImuDevice, ConfigurableParams
from drivers.sbg.codec import (
    ACCELERATION_LSB,
    ACCELS_IN_RANGE,
    ACK,
    ATTITUDE_VALID,
    COMMANDS,
    EKF_EULER,
    EKF_NAV,
    GENERAL_OK,
    GPS1_HDT,
    GPS1_POS,
    GPS1_POS_USED,
    GPS1_VEL,
    GYROS_HIGH_SCALE,
    GYROS_IN_RANGE,
    HEADING_VALID,
    IMU_PASSED,
    IMU_SHORT,
    INFO,
    LOGS,
    MODE_NAV_POSITION,
    NAMES,
    NEW_DATA,
    OUTPUT_CONF,
    POSITION_VALID,
    PROTOCOL,
    RATE_HIGH_LSB,
    RATE_LSB,
    STATUS,
    TEMPERATURE_LSB,
    UTC_TIME,
    VELOCITY_VALID,
    EkfEuler,
    EkfNav,
    EkfQuat,
    GpsHeading,
    GpsPosition,
    GpsVelocity,
    ImuData,
    ImuShort,
    Log,
    StatusLog,
    UtcTime,
    command,
    divisor_of,
    name_of,
    number_of,
    read,
)
from drivers.sbg.codec import SbgMessage as OtherFrame
from drivers.sbg.navigation import (
    Attitude,
    Navigation,
    antennas_problem,
    at_least,
    attitude,
    attitude_problem,
    carrier,
    filter_fix,
    heading_problem,
    mode,
    navigation,
    of_body,
    place_problem,
    position_problem,
    receiver_fix,
    sigma,
    utc,
    velocity_problem,
    wrapped,
)
from drivers.set_up import MAX_REPLIES, ConfigurationError, Refusal, Script, SetUpRequest
from vehicled.core.messages import (
    NAN,
    CarrierSolution,
    Event,
    Fault,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    PortState,
    ReferenceState,
)
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.wire.episodes import StateEpisodes
from vehicled.core.wire.usage import MessageUsage, Unused, UsageProblem

SECOND = 200
"""Output mode of a log that is sent every second."""
US = 1_000_000
COUNTER_HALF = 1 << 31
RATE_US = 20_000
"""Largest distance from the state to the inertial sample with its yaw rate, us."""
CARRIER_US = 2 * US
"""Age of the receiver's newest solution beyond which its RTK state is unknown, us."""
VELOCITY_US = US
"""Time without velocities after which a position no longer waits for one, us."""
STALE_NS = 2_000_000_000
"""Distance of the receiver's stamps from the present beyond which they are not believed, ns."""
FULL_STATE = {
    ATTITUDE_VALID: "attitude", HEADING_VALID: "heading", VELOCITY_VALID: "velocity",
    POSITION_VALID: "position",
}  # fmt: skip
"""Bits that a reference state needs."""

_NoNegative = Annotated[float, Meta(ge=0.0, le=100.0)]


class SbgParams(ConfigurableParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of an SBG Systems unit. ``rate_hz`` is one of 200, 100, 50, 40, 25, 20, 10, 5,
    1."""

    fix: Literal["gnss", "ekf"] = "gnss"
    """Source of ``GnssFix``: the receiver's own position at its antenna, or that of the unit's
    filter at its output point."""
    heading: Literal["ekf", "dual_antenna"] = "ekf"
    """Source of ``Heading``: the unit's filter, or its two antennas."""
    ekf_heading_kind: Literal["inertial", "magnetic", "moving_base"] = "inertial"
    """Error model of the filter's heading: ``moving_base`` if two antennas aid it, ``magnetic`` if
    a compass does."""
    output_port: Literal["A", "C", "E"] = "A"
    """Port of the unit that the cable is at. Commands are obeyed at port A alone."""
    least_position_sigma_m: _NoNegative = 0.0
    """Standard deviation per axis, below which none of a reference state is believed: what
    ``vehicled sensors check-truth`` lets the unit claim. Likewise the two others."""
    least_speed_sigma_mps: _NoNegative = 0.0
    """Lower bound of the sigma of a reference velocity, m/s."""
    least_heading_sigma_rad: Annotated[float, Meta(ge=0.0, le=pi)] = 0.0
    """Lower bound of the sigma of a reference heading, rad."""

    def __post_init__(self) -> None:
        if any(self.compass_deviation_rad):
            raise ValueError(
                "compass_deviation_rad: this unit fuses its compass itself; calibrate it with "
                "sbgCenter"
            )


class LogSample(Sample, frozen=True, gc=False):
    """A log that is no inertial sample."""

    log: Log | None = None


class SbgCodec:
    """Codec of SBG Systems: logs to samples, answers to ``replies``."""

    def __init__(self) -> None:
        self.protocols = (PROTOCOL,)
        self.replies: list[OtherFrame] = []
        self.usage = MessageUsage()
        self.wants_heading = True
        self._sends_short = False

    def reset(self) -> None:
        """Drop the replies."""
        self.replies.clear()

    def decode(self, name: str, frame: bytes) -> Sequence[Sample]:
        """Return at most one sample. IMU_DATA is dropped beside IMU_SHORT, which holds the same."""
        log, name = read(frame), name_of(frame)
        if isinstance(log, ImuShort):
            self._sends_short = True
            scale = RATE_HIGH_LSB if log.status & GYROS_HIGH_SCALE else RATE_LSB
            force = (
                log.force_x / ACCELERATION_LSB,
                log.force_y / ACCELERATION_LSB,
                log.force_z / ACCELERATION_LSB,
            )
            return self._inertial(
                name,
                log,
                force,
                (log.rate_x / scale, log.rate_y / scale, log.rate_z / scale),
                log.temperature / TEMPERATURE_LSB,
            )
        if isinstance(log, ImuData):
            if self._sends_short:
                self.usage.refuse(name, Unused.DUPLICATE)
                return ()
            return self._inertial(name, log, log[2:5], log[5:8], log.temperature_c)
        if not isinstance(log, OtherFrame):
            return (LogSample(log.time_us, log=log),)
        if log.message_class != COMMANDS:
            short = log.message_class == LOGS and log.number in NAMES
            self.usage.refuse(
                name,
                *((Unused.UNREADABLE, "length", len(log.payload)) if short else (Unused.NOT_READ,)),
            )
        else:
            self.usage.use(name)
            if len(self.replies) < MAX_REPLIES:
                self.replies.append(log)
        return ()

    def _inertial(
        self,
        name: str,
        log: ImuShort | ImuData,
        force: tuple[float, ...],
        rate: tuple[float, ...],
        celsius: float,
    ) -> Sequence[Sample]:
        if log.status & IMU_PASSED != IMU_PASSED:
            self.usage.refuse(name, Unused.SELF_TEST, "status", f"{log.status:#x}")
            return ()
        in_range = ACCELS_IN_RANGE | GYROS_IN_RANGE
        saturated = log.status & in_range != in_range
        return sound(
            self.usage,
            name,
            Sample(log.time_us, flu(force), flu(rate), None, celsius + ZERO_CELSIUS_K, saturated),
        )


class SbgDevice(ConfigurableImuDevice):
    """Driver of an Ellipse or a unit of the same protocol. With ``ReferenceState`` it is the truth
    of the vehicle."""

    name: ClassVar[str] = "sbg"
    tick_ns: ClassVar[float | None] = 1000.0
    counter_bits: ClassVar[int | None] = 32
    Params: ClassVar[type[SbgParams]] = SbgParams
    produces: ClassVar[tuple[type[Message], ...]] = (
        ImuSample,
        Heading,
        GnssFix,
        ReferenceState,
        Fault,
        Event,
    )

    def __init__(
        self, params: SbgParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Produce those of ImuSample, Heading, GnssFix and ReferenceState that are in
        ``messages``."""
        self.sbg = SbgCodec()
        super().__init__(params, messages, command_lifetime_ns, self.sbg)
        self._sbg_params = params
        self._wants_fix = GnssFix in messages
        self._wants_reference = ReferenceState in messages
        self._two_antennas = params.heading == "dual_antenna"
        self._of_filter = params.fix == "ekf"
        self._kind = HeadingKind[params.ekf_heading_kind.upper()]
        self.dropped_states = 0
        """Filter states that were no reference, because the unit did not declare all of them
        valid."""
        self._forget()

    def _forget(self) -> None:
        self._utc: tuple[int, int] | None = None
        self._carrier: tuple[int, CarrierSolution] | None = None
        self._yaw_rate: tuple[int, float] | None = None
        self._velocity: GpsVelocity | None = None
        self._position: tuple[GpsPosition, int, int] | None = None
        self._attitude: tuple[EkfEuler | EkfQuat, Attitude] | None = None
        self._nav: tuple[EkfNav, Navigation] | None = None
        self._reference = StateEpisodes("?")
        self._status = StateEpisodes("")

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Forget what the unit said before, because it may have restarted."""
        if state is PortState.OPENED:
            self._forget()
        return super().on_port(state, detail, now_ns)

    # ---------------------------------------------------------------- logs

    def _take(self, sample: Sample, t_rx_ns: int, messages: list[Message]) -> None:
        if isinstance(sample, LogSample):
            assert sample.log is not None
            self._take_log(sample.log, t_rx_ns, messages)
            return
        if sample.angular_rate_radps is not None and isfinite(sum(sample.angular_rate_radps)):
            assert sample.counter is not None
            self._yaw_rate = sample.counter, turn(self._rotation, sample.angular_rate_radps)[2]
        if self._wants_imu:
            super()._take(sample, t_rx_ns, messages)
        else:
            self._at(sample.counter, t_rx_ns)

    def _take_log(self, log: Log, t_rx_ns: int, messages: list[Message]) -> None:
        if isinstance(log, GpsPosition | GpsVelocity | GpsHeading):
            self._take_receiver(log, t_rx_ns, messages)
            return
        name = NAMES[number_of(log)]
        place = navigation(log) if isinstance(log, EkfNav) else None
        problem: UsageProblem | None = None
        if isinstance(log, EkfEuler | EkfQuat):
            problem = attitude_problem(log)
        elif isinstance(log, EkfNav) and place is None:
            problem = UsageProblem(Unused.OUT_OF_RANGE, "place")
        if problem is not None:
            # The counter beside such values is not trusted either.
            self.usage.refuse(name, *problem)
            return
        t_ns = self._at(log.time_us, t_rx_ns)
        match log:
            case EkfEuler() | EkfQuat():
                self._take_attitude(name, log, t_ns, t_rx_ns, messages)
                return
            case EkfNav() if place is not None:
                self._take_place(name, log, place, t_ns, t_rx_ns, messages)
                return
            case UtcTime():
                utc_ns = utc(log)
                self._utc = (log.time_us, utc_ns) if utc_ns else None
                problem = None if utc_ns else UsageProblem(Unused.NO_TIME)
            case StatusLog():
                self._take_status(log, t_rx_ns, messages)
            case _:
                problem = UsageProblem(Unused.NOT_READ)
        self._account(name, problem)

    def _account(self, name: str, problem: UsageProblem | None) -> None:
        if problem is None:
            self.usage.use(name)
        else:
            self.usage.refuse(name, *problem)

    def _take_place(
        self,
        name: str,
        log: EkfNav,
        place: Navigation,
        t_ns: int,
        t_rx_ns: int,
        messages: list[Message],
    ) -> None:
        problem = place_problem(log)
        if self._wants_fix and self._of_filter:
            rtk = self._carrier_at(log)
            messages.append(filter_fix(log, place, rtk, t_ns, t_rx_ns, self._utc_ns(log.time_us)))
        elif not self._wants_reference:
            problem = UsageProblem(Unused.NOT_WANTED)
        self._account(name, problem)
        self._nav = log, place
        self._join(t_ns, t_rx_ns, messages)

    def _at(self, counter: int | None, t_rx_ns: int) -> int:
        self.samples += 1  # a sign of life, see ConfigurableImuDevice
        assert self._clock is not None
        assert counter is not None
        return self._clock.update(counter, t_rx_ns)

    def _take_attitude(
        self, name: str, log: EkfEuler | EkfQuat, t_ns: int, t_rx_ns: int, messages: list[Message]
    ) -> None:
        case = attitude(log)
        body = of_body(case, self._rotation) if self._turned else case
        body = body._replace(yaw_rad=wrapped(body.yaw_rad + self.params.yaw_offset_rad))
        problem: UsageProblem | None = None
        if self._wants_heading and not self._two_antennas:
            repeated = self._attitude is not None and self._attitude[0].time_us == log.time_us
            problem = UsageProblem(Unused.DUPLICATE) if repeated else heading_problem(log)
            if problem is None:
                doubt = self._heading_sigma(body.yaw_sigma_rad)
                messages.append(Heading(t_ns, t_rx_ns, body.yaw_rad, doubt, self._kind))
        elif not self._wants_reference:
            problem = UsageProblem(Unused.NOT_WANTED)
        self._account(name, problem)
        self._attitude = log, body
        self._join(t_ns, t_rx_ns, messages)

    def _heading_sigma(self, declared_rad: float) -> float:
        return min(declared_rad, pi) if declared_rad > 0.0 else self.params.heading_sigma_rad

    def _join(self, t_ns: int, t_rx_ns: int, messages: list[Message]) -> None:
        """Make a reference state of the two logs of one instant."""
        if not self._wants_reference or self._attitude is None or self._nav is None:
            return
        (of_attitude, body), (nav, found) = self._attitude, self._nav
        if of_attitude.time_us != nav.time_us:
            return
        self._attitude = self._nav = None
        status = of_attitude.status & nav.status
        lacking = ", ".join([what for bit, what in FULL_STATE.items() if not status & bit])
        if mode(nav.status) != MODE_NAV_POSITION:
            lacking = lacking or "navigation"
        change = self._reference.update(lacking, t_rx_ns)
        if change is not None and not change.unsteady:
            level = "warning" if lacking else "info"
            messages.append(
                self.event(t_rx_ns, level, "reference_state", valid=not lacking, lacking=lacking)
            )
        if lacking:
            self.dropped_states += 1
            return
        p = self._sbg_params
        turning = self._yaw_rate
        known = turning is not None and abs(_after(nav.time_us, turning[0])) <= RATE_US
        messages.append(
            ReferenceState(
                t_ns,
                t_rx_ns,
                found.latitude_rad,
                found.longitude_rad,
                found.height_m,
                found.velocity_enu_mps,
                body.roll_rad,
                body.pitch_rad,
                body.yaw_rad,
                turning[1] if turning is not None and known else NAN,
                at_least(found.position_sigma_m, p.least_position_sigma_m),
                at_least(found.velocity_sigma_mps, p.least_speed_sigma_mps),
                max(body.yaw_sigma_rad, p.least_heading_sigma_rad),
                self._carrier_at(nav),
            )
        )

    def _carrier_at(self, nav: EkfNav) -> CarrierSolution:
        if (
            self._carrier is None
            or not nav.status & GPS1_POS_USED
            or abs(_after(nav.time_us, self._carrier[0])) > CARRIER_US
        ):
            return CarrierSolution.NONE
        return self._carrier[1]

    def _utc_ns(self, counter: int) -> int:
        return 0 if self._utc is None else self._utc[1] + _after(counter, self._utc[0]) * 1000

    def _take_status(self, log: StatusLog, t_rx_ns: int, messages: list[Message]) -> None:
        wrong = ", ".join([what for bit, what in GENERAL_OK.items() if not log.general >> bit & 1])
        change = self._status.update(wrong, t_rx_ns)
        if change is not None and not change.unsteady:
            messages.append(
                self.event(t_rx_ns, "warning" if wrong else "info", "unit_status", wrong=wrong)
            )

    # ---------------------------------------------------------------- receiver

    def _take_receiver(
        self, log: GpsPosition | GpsVelocity | GpsHeading, t_rx_ns: int, messages: list[Message]
    ) -> None:
        """Take a log whose stamp is that of the receiver's measurement, earlier than those of the
        unit's main loop."""
        assert self._clock is not None
        self.samples += 1
        latest_ns = t_rx_ns - self._latency_ns
        mapped_ns = self._clock.time_of(log.time_us)
        believed = mapped_ns is not None and abs(latest_ns - mapped_ns) < STALE_NS
        t_ns = min(mapped_ns, latest_ns) if mapped_ns is not None and believed else latest_ns
        name = NAMES[number_of(log)]
        if isinstance(log, GpsHeading):
            self._take_antennas(name, log, t_ns, t_rx_ns, messages)
            return
        if isinstance(log, GpsPosition):
            self._carrier = log.time_us, carrier(log)
        if not self._wants_fix or self._of_filter:
            # The state of the RTK solution comes from the receiver's position even for the place of
            # the filter.
            used = isinstance(log, GpsPosition) and (self._wants_fix or self._wants_reference)
            self._account(name, None if used else UsageProblem(Unused.NOT_WANTED))
            return
        self._account(
            name, position_problem(log) if isinstance(log, GpsPosition) else velocity_problem(log)
        )
        if isinstance(log, GpsVelocity):
            self._velocity = log
            if self._position is not None and self._position[0].tow_ms == log.tow_ms:
                self._release(log, messages)
            return
        self._release(None, messages)
        self._position = log, t_ns, t_rx_ns
        velocity = self._velocity
        if velocity is not None and velocity.tow_ms == log.tow_ms:
            self._release(velocity, messages)
        elif velocity is None or abs(_after(log.time_us, velocity.time_us)) > VELOCITY_US:
            self._release(None, messages)

    def _release(self, velocity: GpsVelocity | None, messages: list[Message]) -> None:
        if self._position is not None:
            log, t_ns, t_rx_ns = self._position
            self._position = None
            messages.append(receiver_fix(log, velocity, t_ns, t_rx_ns, self._utc_ns(log.time_us)))

    def _take_antennas(
        self, name: str, log: GpsHeading, t_ns: int, t_rx_ns: int, messages: list[Message]
    ) -> None:
        wanted = self._wants_heading and self._two_antennas
        problem = antennas_problem(log) if wanted else UsageProblem(Unused.NOT_WANTED)
        self._account(name, problem)
        if problem is not None:
            return
        yaw_rad = wrapped(pi / 2 - radians(log.heading_deg) + self.params.yaw_offset_rad)
        doubt = self._heading_sigma(radians(sigma(log.heading_sigma_deg)))
        messages.append(Heading(t_ns, t_rx_ns, yaw_rad, doubt, HeadingKind.MOVING_BASE))

    # ---------------------------------------------------------------- configuration

    def outputs(self) -> dict[int, int]:
        """Return the output mode of each log that is needed."""
        divisor = divisor_of(self.params.rate_hz)
        wanted = {STATUS: SECOND}
        if self._wants_imu or self._wants_reference:
            wanted[IMU_SHORT] = divisor
        if self._wants_reference or (self._wants_heading and not self._two_antennas):
            wanted[EKF_EULER] = divisor
        if self._wants_reference or (self._wants_fix and self._of_filter):
            wanted[EKF_NAV] = divisor
        if self._wants_fix:
            wanted |= {UTC_TIME: SECOND}
            if not self._of_filter:
                wanted[GPS1_VEL] = NEW_DATA
        if self._wants_fix or self._wants_reference:
            wanted[GPS1_POS] = NEW_DATA
        if self._wants_heading and self._two_antennas:
            wanted[GPS1_HDT] = NEW_DATA
        return wanted

    def script(self) -> Script:
        """Read the model, then switch the logs on. Settings are not saved, so flash does not
        wear."""
        info = yield SetUpRequest("report its model", command(INFO), _answer(INFO))
        model = (
            "unknown"
            if isinstance(info, Refusal)
            else info[:32].split(b"\0")[0].decode("ascii", "replace")
        )
        port = "ABCDE".index(self._sbg_params.output_port)
        for log, output in self.outputs().items():
            place = bytes((port, log, LOGS))
            setting = place + output.to_bytes(2, "little")
            done = yield SetUpRequest(
                f"send {NAMES[log]}", command(OUTPUT_CONF, setting), _acknowledged(OUTPUT_CONF)
            )
            got: Any = done
            if not isinstance(done, Refusal):
                got = yield SetUpRequest(
                    f"report the output of {NAMES[log]}",
                    command(OUTPUT_CONF, place),
                    _output(place),
                )
            if got != setting:
                why = (
                    got.reason
                    if isinstance(got, Refusal)
                    else f"its output mode is {int.from_bytes(got[3:5], 'little')}"
                )
                raise ConfigurationError(
                    f"the unit does not send {NAMES[log]}: {why}; if it is set up by "
                    "sbgInsRestApi, do that with the maker's program and write configure = false"
                )
        return {
            "model": model,
            "logs": [NAMES[log] for log in self.outputs()],
            "rate_hz": self.params.rate_hz,
        }


def _after(counter: int, before: int) -> int:
    """Return the difference of two stamps in us, by the shorter way round."""
    return (counter - before + COUNTER_HALF) % (2 * COUNTER_HALF) - COUNTER_HALF


def _refused(reply: OtherFrame, number: int) -> int | None:
    """Return the error code of an acknowledgement of command ``number``; None if the reply is
    none."""
    if (
        reply.number != ACK
        or len(reply.payload) < 4
        or reply.payload[:2] != bytes((number, COMMANDS))
    ):
        return None
    return int.from_bytes(reply.payload[2:4], "little")


def _acknowledged(number: int) -> Callable[[OtherFrame], bool | Refusal | None]:
    """Return a judge for acknowledgements of command ``number``."""

    def judge(reply: OtherFrame) -> bool | Refusal | None:
        error = _refused(reply, number)
        return None if error is None else Refusal(f"error {error}") if error else True

    return judge


def _answer(number: int, begin: bytes = b"") -> Callable[[OtherFrame], bytes | Refusal | None]:
    """Return a judge for answers to command ``number`` whose payload begins so."""

    def judge(reply: OtherFrame) -> bytes | Refusal | None:
        if reply.number == number and reply.payload.startswith(begin):
            return reply.payload
        error = _refused(reply, number)
        return Refusal(f"error {error}") if error else None

    return judge


def _output(place: bytes) -> Callable[[OtherFrame], bytes | Refusal | None]:
    """Return a judge for reports of the output mode of one log at one port."""
    return _answer(OUTPUT_CONF, place)
