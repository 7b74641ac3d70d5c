"""Common part of receivers as base stations: locate, survey or fix the position, then pass the
corrections on.

A family adds its frames and its set-up scripts. Nothing is saved in the receiver: after a power cut
the same steps run again, with the surveyed position in place of a second survey, which would move
every rover by the difference.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from math import dist, hypot, nan
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from drivers.rtcm.codec import MAX_FRAME_BYTES, RTCM3
from drivers.set_up import Script, SetUpResult, SetUpRunner
from vehicled.core.messages import Corrections, PortState
from vehicled.core.ports import NEVER_NS, Action, Send, Transport
from vehicled.core.wire.framing import Framer, Protocol
from vehicled.core.wire.usage import MessageUsage, Unused

STALE_NS = 200_000_000
"""Timeout of an incomplete frame, ns."""
PROGRESS_NS = 10_000_000_000
"""Time between two reports of a survey, ns."""
MAX_LOCATING_SIGMA_M = 30.0
"""Stated error beyond which a position does not say where the receiver is."""
STATION_PERIOD_S = 5
"""Time between two messages with the station's position, and of the GLONASS biases, s."""
MSM_CONSTELLATIONS = (107, 108, 109, 112)
"""First digits of the observation messages: GPS, GLONASS, Galileo, BeiDou."""
_EARTH_M = 6_340_000.0, 6_400_000.0

Place = tuple[float, float, float]
"""Position in an earth-centred, earth-fixed frame, m."""


class BaseStationParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a base station."""

    ecef_m: Place | None = None
    """Position of the antenna's reference point; None: survey it."""
    survey_s: Annotated[int, Meta(ge=10, le=172_800)] = 300
    """Shortest survey, s."""
    survey_accuracy_m: Annotated[float, Meta(ge=0.01, le=100.0)] = 2.0
    """Standard deviation at which a survey ends, m, of receivers that take one."""
    survey_timeout_s: Annotated[float, Meta(ge=10.0, le=345_600.0)] = 3600.0
    """Longest survey, s."""
    locate_timeout_s: Annotated[float, Meta(ge=1.0, le=86_400.0)] = 180.0
    """Time without a position after which it is reported, s."""
    max_offset_m: Annotated[float, Meta(gt=0.0, le=1e7)] = 50.0
    """Largest distance of a given position from the one that the receiver measures, m."""
    station: Annotated[int, Meta(ge=0, le=4095)] = 1
    """Number of the station in its messages (DF003)."""
    msm: Literal[4, 7] = 7
    """Kind of the observation messages: 7 full, 4 shorter, for slow radios."""
    receiver_port: Literal["usb", "uart1", "uart2"] = "usb"
    """Port of a u-blox receiver that the cable connects to."""
    configure: bool = True
    answer_timeout_s: Annotated[float, Meta(ge=0.05, le=10.0)] = 1.0
    """Longest wait for an answer of the receiver, s."""
    tries: Annotated[int, Meta(ge=1, le=20)] = 3
    """Attempts per command before the set-up fails."""
    retry_s: Annotated[float, Meta(ge=0.1, le=600.0)] = 5.0
    """Pause between a failed set-up and the next, s."""
    silence_s: Annotated[float, Meta(ge=2.0, le=600.0)] = 10.0
    """Time without positions after which the receiver is set up again, s."""

    def __post_init__(self) -> None:
        if self.ecef_m is not None and not _EARTH_M[0] <= hypot(*self.ecef_m) <= _EARTH_M[1]:
            raise ValueError("ecef_m is not a place on the earth")

    @property
    def observations(self) -> tuple[int, ...]:
        """Message types of the observations."""
        return tuple(10 * first + self.msm for first in MSM_CONSTELLATIONS)


class BaseStage(Enum):
    """Purpose of a set-up."""

    LOCATE = "locate"
    """Measure where it is, to check the given position."""
    SURVEY = "survey"
    FIXED = "fixed"


class BaseReport(Struct, frozen=True, kw_only=True):
    """News of a base station."""

    t_ns: int
    kind: Literal[
        "configured", "configuration_failed", "located", "misplaced", "without_position",
        "survey_progress", "survey_finished", "survey_unfinished", "ready", "silent", "interrupted",
    ]  # fmt: skip
    stage: str = ""
    seconds: float = nan
    sigma_m: float = nan
    """Standard deviation of the position in all three axes together; NaN if the receiver states
    none."""
    offset_m: float = nan
    """Distance of the given position from the measured one."""
    ecef_m: Place | None = None
    model: str = ""
    lacking: tuple[str, ...] = ()
    """Settings that the receiver refused, and without which it serves."""
    reason: str = ""


News = list[Corrections | BaseReport]


class BaseStation(ABC):
    """Receiver that serves as base station, with the verbs of a device. A subclass adds
    :meth:`_on_frame` and :meth:`script`."""

    name: ClassVar[str]
    protocols: ClassVar[tuple[Protocol, ...]]
    longest_frame: ClassVar[int]
    fixes_survey: ClassVar[bool] = False
    """True if the position of a survey must be written as a fixed one, because the receiver would
    go on refining it."""
    Params: ClassVar[type[BaseStationParams]] = BaseStationParams
    transport: ClassVar[Transport] = "stream"

    def __init__(self, params: BaseStationParams) -> None:
        self.params = params
        self.usage = MessageUsage()
        self.replies: list[Any] = []
        """Answers of the receiver in the frames of one reception."""
        self.ready = False
        """True while corrections are passed on."""
        self._ecef_m = params.ecef_m
        self._framer = Framer((RTCM3, *self.protocols), max(self.longest_frame, MAX_FRAME_BYTES))
        self._tx: list[Action] = []
        self._set_up = SetUpRunner(params, self._script, self._send)
        self._bytes_ns = 0
        self._failure = ""
        self._begin(0)

    def _begin(self, now_ns: int) -> None:
        self.ready = False
        self._stage = BaseStage.SURVEY if self._ecef_m is None else BaseStage.LOCATE
        self._since_ns = self._progress_ns = now_ns
        self._reported = False
        self._sigma_m = nan

    # ---------------------------------------------------------------- for families

    @abstractmethod
    def _on_frame(self, protocol: str, frame: bytes, t_rx_ns: int, messages: News) -> None:
        """Take a valid frame that is no correction: :meth:`on_position`, :meth:`on_survey`, answers
        to ``replies``."""

    @abstractmethod
    def script(self, stage: BaseStage, ecef_m: Place | None) -> Script:
        """Return the set-up script of a stage, which works in any state of the receiver.
        ``ecef_m``: that of ``FIXED``."""

    def on_position(
        self, ecef_m: Place | None, sigma_m: float, t_rx_ns: int, messages: News
    ) -> None:
        """Take a position that the receiver reports, None for none, with its standard deviation if
        that is known."""
        self._set_up.alive(t_rx_ns)
        if self._stage is not BaseStage.LOCATE or not self._set_up.configured or ecef_m is None:
            return
        assert self._ecef_m is not None
        if sigma_m > MAX_LOCATING_SIGMA_M:
            return
        offset_m = dist(ecef_m, self._ecef_m)
        if offset_m > self.params.max_offset_m:
            if not self._reported:
                self._reported = True
                messages.append(
                    BaseReport(t_ns=t_rx_ns, kind="misplaced", offset_m=offset_m, ecef_m=ecef_m)
                )
            return
        messages.append(BaseReport(t_ns=t_rx_ns, kind="located", offset_m=offset_m))
        self._stage = BaseStage.FIXED
        self._run(self._set_up.start, t_rx_ns, messages)

    def on_survey(
        self,
        t_rx_ns: int,
        messages: News,
        *,
        seconds: float = nan,
        sigma_m: float = nan,
        ecef_m: Place | None = None,
    ) -> None:
        """Take the progress of a survey. ``seconds``: as the receiver counts them; ``ecef_m``: its
        result, once it is finished."""
        if self._stage is not BaseStage.SURVEY or not self._set_up.configured:
            return
        self._sigma_m = sigma_m
        passed_s = (t_rx_ns - self._since_ns) * 1e-9 if seconds != seconds else seconds
        if ecef_m is not None and _EARTH_M[0] <= hypot(*ecef_m) <= _EARTH_M[1]:
            self._ecef_m, self._stage = ecef_m, BaseStage.FIXED
            messages.append(
                BaseReport(
                    t_ns=t_rx_ns,
                    kind="survey_finished",
                    seconds=passed_s,
                    sigma_m=sigma_m,
                    ecef_m=ecef_m,
                )
            )
            if self.fixes_survey:
                self._run(self._set_up.start, t_rx_ns, messages)
            else:
                self._be_ready(t_rx_ns, messages)
        elif t_rx_ns >= self._progress_ns:
            self._progress_ns = t_rx_ns + PROGRESS_NS
            messages.append(
                BaseReport(t_ns=t_rx_ns, kind="survey_progress", seconds=passed_s, sigma_m=sigma_m)
            )

    @property
    def surveying_s(self) -> float:
        """Time of the newest frame since the survey began, s."""
        return (self._bytes_ns - self._since_ns) * 1e-9

    @property
    def surveying(self) -> bool:
        """True while the receiver surveys its position."""
        return self._stage is BaseStage.SURVEY and self._set_up.configured

    # ---------------------------------------------------------------- the verbs of a device

    def on_port(
        self, state: PortState, detail: str, now_ns: int
    ) -> Sequence[Corrections | BaseReport]:
        """Set the receiver up whenever the port opens, because it may have lost power."""
        messages: News = []
        self._framer.clear()
        self._tx.clear()
        self._set_up.reset()
        self._lost(now_ns, messages)
        if state is PortState.OPENED:
            self._run(self._set_up.start, now_ns, messages)
        return messages

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Corrections | BaseReport]:
        messages: News = []
        self._bytes_ns = t_rx_ns
        self._take_frames(self._framer.feed(data), t_rx_ns, messages)
        return messages

    def next_due_ns(self) -> int:
        due = min(self._set_up.due_ns, self._deadline_ns())
        return min(due, self._bytes_ns + STALE_NS) if self._framer.buffered_bytes else due

    def on_time(self, now_ns: int) -> Sequence[Corrections | BaseReport]:
        """Repeat a command, give up, retry, detect silence, or report a survey or a search that
        takes too long."""
        messages: News = []
        if self._framer.buffered_bytes and now_ns >= self._bytes_ns + STALE_NS:
            self._take_frames(self._framer.flush(), self._bytes_ns, messages)
        if now_ns >= self._deadline_ns():
            self._reported = True
            late_s = (now_ns - self._since_ns) * 1e-9
            kind: Literal["survey_unfinished", "without_position"]
            kind = "survey_unfinished" if self._stage is BaseStage.SURVEY else "without_position"
            messages.append(
                BaseReport(t_ns=now_ns, kind=kind, seconds=late_s, sigma_m=self._sigma_m)
            )
        settled = self._set_up.configured
        if settled and now_ns >= self._set_up.due_ns and self._set_up.silent(now_ns):
            messages.append(BaseReport(t_ns=now_ns, kind="silent", seconds=self.params.silence_s))
            self._lost(now_ns, messages)
        self._run(self._set_up.on_time, now_ns, messages)
        return messages

    def take_tx(self) -> Sequence[Action]:
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        return tx

    # ---------------------------------------------------------------- inside

    def _deadline_ns(self) -> int:
        """Return when a survey, or a search for the position, has taken too long; never once that
        was reported."""
        if self._reported or not self._set_up.configured or self._stage is BaseStage.FIXED:
            return NEVER_NS
        timeout_s = (
            self.params.survey_timeout_s
            if self._stage is BaseStage.SURVEY
            else self.params.locate_timeout_s
        )
        return self._since_ns + round(timeout_s * 1e9)

    def _take_frames(
        self, frames: Sequence[tuple[str, bytes]], t_rx_ns: int, messages: News
    ) -> None:
        for protocol, frame in frames:
            if protocol == RTCM3.name:
                self._on_correction(frame, t_rx_ns, messages)
            else:
                self._on_frame(protocol, frame, t_rx_ns, messages)
            while self.replies:
                reply = self.replies.pop(0)
                self._run(partial(self._set_up.offer, reply), t_rx_ns, messages)

    def _on_correction(self, frame: bytes, t_rx_ns: int, messages: News) -> None:
        name = str(frame[3] << 4 | frame[4] >> 4) if len(frame) >= 8 else "RTCM3"
        if self.ready:
            self.usage.use(name)
            messages.append(Corrections(t_rx_ns, t_rx_ns, self.name, frame))
        else:
            # Before the position is known the station's message would be wrong or missing.
            self.usage.refuse(name, Unused.NOT_WANTED)

    def _script(self) -> Script:
        return self.script(self._stage, self._ecef_m)

    def _send(self, data: bytes, now_ns: int) -> None:
        self._tx.append(Send(data, now_ns + round(self.params.answer_timeout_s * 1e9)))

    def _run(self, step: Callable[[int], SetUpResult | None], now_ns: int, messages: News) -> None:
        result = step(now_ns)
        if result is None:
            return
        if result.fields is None:
            if result.reason != self._failure:
                self._failure = result.reason
                messages.append(
                    BaseReport(t_ns=now_ns, kind="configuration_failed", reason=result.reason)
                )
            return
        self._failure = ""
        self._since_ns = self._progress_ns = now_ns
        model, lacking = str(result.fields.get("model", "")), result.fields.get("lacking")
        lacks = tuple(map(str, lacking)) if isinstance(lacking, list) else ()
        messages.append(
            BaseReport(
                t_ns=now_ns, kind="configured", stage=self._stage.value, model=model, lacking=lacks
            )
        )
        if self._stage is BaseStage.FIXED:
            self._be_ready(now_ns, messages)

    def _be_ready(self, now_ns: int, messages: News) -> None:
        assert self._ecef_m is not None
        self.ready = True
        messages.append(BaseReport(t_ns=now_ns, kind="ready", ecef_m=self._ecef_m))

    def _lost(self, now_ns: int, messages: News) -> None:
        """Begin again, because the receiver may have restarted."""
        if self.ready:
            messages.append(BaseReport(t_ns=now_ns, kind="interrupted"))
        self._begin(now_ns)
