"""Receive path of the driver: converts the receiver's messages, from one opening of the port to the next."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import isfinite, nan
from typing import Any

from msgspec import Struct, field

from drivers.ublox import fixes, watch
from drivers.ublox.epochs import LAST, WEEK_MS, Epoch, EpochClock, Epochs
from drivers.ublox.layouts import (
    MonRf,
    NavCov,
    NavDop,
    NavEoe,
    NavHpposllh,
    NavPvt,
    NavRelposned,
    NavStatus,
    NavTimels,
    RxmRtcm,
)
from drivers.ublox.nmea import DAY_MS, Gga, Gns, Gsa, Gst, Rmc, Ths, Vtg, Zda
from drivers.ublox.settings import Params
from drivers.ublox.watch import Episode, GapWatch, RtkWatch, event
from vehicled.messages import GnssFix, Heading, Message, Reaction

GSA_NS = 5_000_000_000
"""Largest age of a GSA used for a fix."""
_SPOOFING = {2: "spoofing indicated", 3: "spoofing indicated by several tests"}


class ReceptionStats(Struct):
    """Counters since the start of the driver."""

    frames: Counter[str] = field(default_factory=Counter)
    """Valid frames by protocol; also UBX messages and RTCM numbers by name."""
    late_messages: int = 0
    """Messages of an epoch that had been handed over already."""
    missed_epochs: int = 0
    """Epochs skipped by the receiver."""
    headings_refused: Counter[str] = field(default_factory=Counter)
    """Headings withheld, by reason."""


class Reception:
    """Converter of receiver messages. No method raises; each returns the resulting messages."""

    def __init__(self, params: Params, wanted: Iterable[type[Message]], figures: ReceptionStats) -> None:
        self._params = params
        self._wants_fix, self._wants_heading = GnssFix in wanted, Heading in wanted
        self._figures = figures
        nmea = params.protocol == "nmea"
        modulus_ms = DAY_MS if nmea else WEEK_MS
        self._clock = EpochClock(modulus_ms, round(params.latency_ms * 1e6))
        self._epochs = Epochs(
            fixes.NMEA_ANCHORS if nmea else fixes.UBX_ANCHORS, round(params.epoch_timeout_ms * 1e6), self._clock.time_of
        )
        self._calendar = fixes.Calendar()
        self._gsa: tuple[Gsa, int] | None = None
        self._gaps = GapWatch(modulus_ms)
        self._rtk = RtkWatch(params.stale_corrections_s)
        self._jamming = Episode("gnss_jamming")
        self._spoofing = Episode("gnss_spoofing")
        self._heading_doubt = ""
        self._leap_s: int | None = None
        self._used_ns: int | None = None
        self.epoch_rx_ns: int | None = None
        """Arrival of the newest position, valid or not."""
        self._handlers: dict[type, Callable[[Any, int], Sequence[Message]]] = {
            NavStatus: self._on_status,
            NavTimels: self._on_timels,
            MonRf: self._on_rf,
            RxmRtcm: self._on_rxm_rtcm,
        }
        if nmea:
            self._handlers |= {
                Gga: self._on_position,
                Gns: self._on_position,
                Rmc: self._on_dated,
                Zda: self._on_dated,
                Gst: self._on_timed,
                Gsa: self._on_gsa,
                Vtg: self._on_vtg,
                Ths: self._on_ths,
            }
        else:
            self._handlers |= {
                NavPvt: self._on_pvt,
                NavHpposllh: lambda message, t_rx_ns: self._add("HPPOSLLH", message, t_rx_ns),
                NavCov: lambda message, t_rx_ns: self._add("COV", message, t_rx_ns),
                NavDop: lambda message, t_rx_ns: self._add("DOP", message, t_rx_ns),
                NavEoe: lambda message, t_rx_ns: self._add(LAST, message, t_rx_ns),
                NavRelposned: self._on_relposned,
            }

    @property
    def rtk_state(self) -> str:
        """State of the solution: none, single, dgps, float or fixed."""
        return self._rtk.state

    def on_message(self, message: Any, t_rx_ns: int) -> Sequence[Message]:
        """Handle a decoded message of any kind."""
        handler = self._handlers.get(type(message))
        return handler(message, t_rx_ns) if handler is not None else ()

    def expect(self, period_ms: int) -> None:
        """Set the configured time between epochs."""
        self._gaps.expect(period_ms)

    def next_due_ns(self) -> int | None:
        """Return the timeout of the current epoch; None without one."""
        return self._epochs.due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Hand over the current epoch at its timeout."""
        due = self.next_due_ns()
        if due is None or now_ns < due:
            return ()
        epoch = self._epochs.expire()
        return self._finish((epoch,)) if epoch is not None else ()

    def lost(self, now_ns: int, reason: str) -> Sequence[Message]:
        """Report the loss of the solution, because the connection is lost."""
        return [*self._rtk.lost(now_ns, reason), *self._jamming.set("", now_ns), *self._spoofing.set("", now_ns)]

    # ---------------------------------------------------------------- epochs

    def _add(self, kind: str, message: Any, t_rx_ns: int) -> Sequence[Message]:
        return self._finish(self._epochs.add(kind, message.itow_ms, message, t_rx_ns))

    def _finish(self, epochs: Iterable[Epoch]) -> Sequence[Message]:
        messages: list[Message] = []
        for epoch in epochs:
            if self._params.protocol == "nmea":
                fix = fixes.nmea_fix(epoch, self._calendar, self._recent_gsa(epoch.last_rx_ns))
            else:
                fix = fixes.ubx_fix(epoch, self._since_used_s(epoch.last_rx_ns), self._leap_s)
            if fix is None:
                continue
            if self._wants_fix:
                messages.append(fix)
            messages += self._gaps.on_epoch(epoch.counter_ms, epoch.last_rx_ns)
            messages += self._rtk.on_fix(fix)
        self._figures.missed_epochs += self._gaps.take_missed()
        self._figures.late_messages += self._epochs.take_late()
        return messages

    def _since_used_s(self, now_ns: int) -> float:
        return nan if self._used_ns is None else (now_ns - self._used_ns) * 1e-9

    # ---------------------------------------------------------------- UBX

    def _on_pvt(self, pvt: NavPvt, t_rx_ns: int) -> Sequence[Message]:
        self.epoch_rx_ns = t_rx_ns
        return self._add("PVT", pvt, t_rx_ns)

    def _on_relposned(self, vector: NavRelposned, t_rx_ns: int) -> Sequence[Message]:
        # Version 0 uses another layout under the same id.
        if not self._wants_heading or vector.version != 1:
            return ()
        t_ns = self._clock.time_of(vector.itow_ms, t_rx_ns)
        params = self._params
        doubt = fixes.heading_doubt(
            vector, needs_fixed=params.heading_needs_fixed, baseline_m=params.baseline_m, tolerance_m=params.baseline_tolerance_m
        )
        messages = list(self._doubt_heading(doubt, t_rx_ns))
        if not doubt:
            messages.append(fixes.moving_base_heading(vector, t_ns, t_rx_ns, params.baseline_yaw_rad))
        return messages

    def _doubt_heading(self, doubt: str, t_rx_ns: int) -> Sequence[Message]:
        before, self._heading_doubt = self._heading_doubt, doubt
        if doubt:
            self._figures.headings_refused[doubt] += 1
        if bool(doubt) == bool(before):
            return ()
        if doubt:
            return (event(t_rx_ns, "warning", "heading_lost", reason=doubt),)
        return (event(t_rx_ns, "info", "heading_back"),)

    def _on_status(self, status: NavStatus, t_rx_ns: int) -> Sequence[Message]:
        # 0 means that the receiver does not check for spoofing.
        if status.spoofing == 0:
            return ()
        return self._spoofing.set(_SPOOFING.get(status.spoofing, ""), t_rx_ns, Reaction.CAP_SPEED)

    def _on_timels(self, leap: NavTimels, t_rx_ns: int) -> Sequence[Message]:
        self._leap_s = leap.leap_s if leap.valid & 1 else None
        return ()

    def _on_rf(self, report: MonRf, t_rx_ns: int) -> Sequence[Message]:
        level = watch.jamming(report)
        if level is None:
            return ()
        reason, reaction = level
        # The indicator varies with every message; only a change of the level is reported.
        if reason and self._jamming.reaction is reaction:
            return ()
        return self._jamming.set(reason, t_rx_ns, reaction)

    def _on_rxm_rtcm(self, report: RxmRtcm, t_rx_ns: int) -> Sequence[Message]:
        if report.used == 2 and not report.crc_failed:
            self._used_ns = t_rx_ns
        return ()

    # ---------------------------------------------------------------- NMEA

    def _on_position(self, sentence: Gga | Gns, t_rx_ns: int) -> Sequence[Message]:
        self.epoch_rx_ns = t_rx_ns
        if sentence.time_ms is None:
            return self._rtk.lost(t_rx_ns, "the receiver does not know the time")
        return self._on_timed(sentence, t_rx_ns)

    def _on_dated(self, sentence: Rmc | Zda, t_rx_ns: int) -> Sequence[Message]:
        if isinstance(sentence, Zda) or sentence.valid:
            self._calendar.set(sentence.day, sentence.time_ms)
        # A date once a day is enough, so it is not waited for.
        return self._on_timed(sentence, t_rx_ns) if isinstance(sentence, Rmc) else ()

    def _on_timed(self, sentence: Gga | Gns | Rmc | Gst, t_rx_ns: int) -> Sequence[Message]:
        if sentence.time_ms is None:
            return ()
        return self._finish(self._epochs.add(type(sentence).__name__.upper(), sentence.time_ms, sentence, t_rx_ns))

    def _on_gsa(self, sentence: Gsa, t_rx_ns: int) -> Sequence[Message]:
        self._gsa = sentence, t_rx_ns
        return ()

    def _recent_gsa(self, now_ns: int) -> Gsa | None:
        """Return the last GSA if recent enough; dilution changes slowly."""
        return self._gsa[0] if self._gsa is not None and now_ns - self._gsa[1] < GSA_NS else None

    def _on_vtg(self, sentence: Vtg, t_rx_ns: int) -> Sequence[Message]:
        return self._finish(self._epochs.join("VTG", sentence, t_rx_ns))

    def _on_ths(self, sentence: Ths, t_rx_ns: int) -> Sequence[Message]:
        if not self._wants_heading:
            return ()
        # THS has no time: use the newest epoch's, or its arrival minus the least latency.
        t_ns = self._clock.newest_ns
        if t_ns is None:
            t_ns = t_rx_ns - round(self._params.latency_ms * 1e6)
        heading = fixes.sentence_heading(sentence, t_ns, t_rx_ns, self._params.baseline_yaw_rad)
        messages = list(self._doubt_heading("" if heading is not None else "not valid", t_rx_ns))
        if heading is not None and isfinite(heading.yaw_rad):
            messages.append(heading)
        return messages
