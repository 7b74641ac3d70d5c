"""Receive path of the driver: converts the receiver's messages, from one opening of the port to the
next."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import isfinite, nan, radians
from typing import Any

from msgspec import Struct, field

from drivers.gnss import solution
from drivers.gnss.baseline import Baseline
from drivers.gnss.epochs import LAST, WEEK_MS, Epoch, EpochClock, Epochs
from drivers.gnss.watch import GapWatch, HeadingWatch, RtkWatch
from drivers.ublox import content, fixes, watch
from drivers.ublox.layouts import (
    EsfStatus,
    HnrAtt,
    HnrIns,
    HnrPvt,
    MonRf,
    NavAtt,
    NavCov,
    NavDop,
    NavEoe,
    NavHpposllh,
    NavPvat,
    NavPvt,
    NavRelposned,
    NavStatus,
    NavTimels,
    RxmCor,
    RxmRtcm,
    SecSig,
)
from drivers.ublox.nmea import (
    DAY_MS,
    Avr,
    Gga,
    Gns,
    Gsa,
    Gst,
    Hdt,
    HeadingSentence,
    Hpr,
    Pashr,
    Rmc,
    Tar,
    Ths,
    Vel,
    Vtg,
    Zda,
)
from drivers.ublox.settings import Params
from drivers.ublox.watch import ORIGIN, FusionEpisodes
from vehicled.core.messages import (
    GnssFix,
    Heading,
    HeadingKind,
    Message,
    Reaction,
    TimePulse,
)
from vehicled.core.wire.episodes import FaultEpisode
from vehicled.core.wire.usage import MessageUsage, Unused, UsageProblem

GSA_NS = 5_000_000_000
"""Largest age of a GSA used for a fix."""
POSITIONLESS = 10
"""RMC or KSXT sentences in a row without GGA or GNS, after which none is expected."""
SOURCE_NS = 2_000_000_000
"""Silence after which a heading sentence, or the talker of another sentence, no longer stands for
the others."""
_RTCM = 1
_CORRECTIONS = {_RTCM: "RTCM", 2: "SPARTN", 29: "PMP"}
"""Protocols of corrections by their number in RXM-COR."""
_SPOOFING = {2: "spoofing indicated", 3: "spoofing indicated by several tests"}


class ReceptionStats(Struct):
    """Counters since the start of the driver."""

    frames: Counter[str] = field(default_factory=Counter)
    """Valid frames by protocol; also UBX messages and RTCM numbers by name."""
    late_messages: int = 0
    """Messages of an epoch that had been handed over already."""
    missed_epochs: int = 0
    """Epochs skipped by the receiver."""


class Reception:
    """Converter of receiver messages. No method raises; each returns the resulting messages."""

    def __init__(
        self,
        params: Params,
        wanted: Iterable[type[Message]],
        figures: ReceptionStats,
        usage: MessageUsage,
        baseline: Baseline,
    ) -> None:
        """``usage`` accounts for every message that :meth:`on_message` is given; ``baseline``
        outlives a lost port."""
        self._params = params
        self._wants_fix, self._wants_heading = GnssFix in wanted, Heading in wanted
        self._figures = figures
        self._usage, self._baseline = usage, baseline
        self._name = ""
        self._problem: UsageProblem | None = None
        self._lost: tuple[UsageProblem, ...] = ()
        nmea = self._nmea = params.protocol == "nmea"
        modulus_ms = DAY_MS if nmea else WEEK_MS
        self._clock = EpochClock(modulus_ms, round(params.latency_ms * 1e6))
        self._epochs = Epochs(
            fixes.NMEA_ANCHORS if nmea else fixes.UBX_ANCHORS,
            round(params.epoch_timeout_ms * 1e6),
            self._clock.time_of,
        )
        self._calendar = fixes.Calendar()
        self._gsa: tuple[Gsa, int] | None = None
        self._gaps = GapWatch(modulus_ms)
        self._rtk = RtkWatch(params.stale_corrections_s)
        self._jamming = FaultEpisode("gnss_jamming", ORIGIN)
        self._spoofing = FaultEpisode("gnss_spoofing", ORIGIN)
        self._undecrypted = FaultEpisode("spartn_undecrypted", ORIGIN)
        self._corrections: Counter[str] = Counter()
        self._heading = HeadingWatch(baseline, usage)
        self._heading_source = self._heading_used = 0, -SOURCE_NS
        self._talkers: dict[type, tuple[str, int, int]] = {}
        self._without_position = 0
        self._leap_s: int | None = None
        self._vehicle_heading_valid: bool | None = None
        self._fusion: FusionEpisodes = FusionEpisodes()
        self._attitude_ns = -SOURCE_NS
        self._used_ns: int | None = None
        self.epoch_rx_ns: int | None = None
        """Arrival of the newest position, valid or not."""
        self._handlers: dict[type, Callable[[Any, int], Sequence[Message]]] = {
            NavStatus: self._on_status,
            NavTimels: self._on_timels,
            MonRf: self._on_rf,
            RxmRtcm: self._on_rxm_rtcm,
            RxmCor: self._on_rxm_cor,
            SecSig: self._on_security,
            EsfStatus: self._on_fusion,
        }
        if nmea:
            self._handlers |= {
                Gga: self._on_position,
                Gns: self._on_position,
                Rmc: self._on_dated,
                Zda: self._on_dated,
                Gst: self._on_errors,
                Gsa: self._on_gsa,
                Vtg: self._on_vtg,
                Vel: self._on_timed,
                **dict.fromkeys((Ths, Hdt, Hpr, Pashr, Avr, Tar), self._on_heading_sentence),
            }
        else:
            self._handlers |= {
                NavPvt: self._on_pvt,
                NavPvat: self._on_pvat,
                NavHpposllh: lambda message, t_rx_ns: self._add("HPPOSLLH", message, t_rx_ns),
                NavCov: lambda message, t_rx_ns: self._add("COV", message, t_rx_ns),
                NavDop: lambda message, t_rx_ns: self._add("DOP", message, t_rx_ns),
                NavEoe: lambda message, t_rx_ns: self._add(LAST, message, t_rx_ns),
                NavRelposned: self._on_relposned,
                NavAtt: self._on_attitude,
                **dict.fromkeys((HnrPvt, HnrAtt, HnrIns), self._on_prediction),
            }

    @property
    def rtk_state(self) -> str:
        """State of the solution: none, single, dgps, float or fixed."""
        return self._rtk.state

    def on_message(
        self, name: str, message: Any, t_rx_ns: int, lost: tuple[UsageProblem, ...] = ()
    ) -> Sequence[Message]:
        """Handle a decoded message of any kind, and account for it under ``name``. ``lost``: its
        fields that cannot be read."""
        handler = self._handlers.get(type(message))
        if handler is None:
            self._usage.refuse(name, Unused.OTHER_PROTOCOL if self._nmea else Unused.NOT_READ)
            return ()
        self._name, self._problem, self._lost = name, None, lost
        messages = handler(message, t_rx_ns)
        if self._problem is None:
            self._usage.use(name)
            for each in lost:
                self._usage.lose(name, *each)
        else:
            # A lost heading is an event of its own.
            heading = isinstance(message, NavRelposned | NavPvat | NavAtt | HeadingSentence)
            reported = heading and self._problem.reason not in (Unused.NOT_WANTED, Unused.DUPLICATE)
            self._usage.refuse(name, *self._problem, reported=reported)
        return messages

    def expect(self, period_ms: int) -> None:
        """Set the configured time between epochs."""
        self._gaps.expect(period_ms)

    def on_pulse(self, pulse: TimePulse) -> None:
        """Take a pulse of the PPS pin, which gives the time of the epochs."""
        self._clock.on_pulse(pulse)

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
        return [
            *self._rtk.lost(now_ns, reason),
            *self._jamming.set("", now_ns),
            *self._spoofing.set("", now_ns),
            *self._undecrypted.set("", now_ns),
        ]

    # ---------------------------------------------------------------- epochs

    def _add(self, kind: str, message: Any, t_rx_ns: int) -> Sequence[Message]:
        return self._finish(self._epochs.add(kind, message.itow_ms, message, t_rx_ns))

    def _finish(self, epochs: Iterable[Epoch]) -> Sequence[Message]:
        messages: list[Message] = []
        for epoch in epochs:
            lost: solution.Lost = []
            if self._nmea:
                fix = fixes.nmea_fix(
                    epoch, lost, self._calendar, self._recent_gsa(epoch.last_rx_ns)
                )
            else:
                fix = fixes.ubx_fix(epoch, lost, self._since_used_s(epoch.last_rx_ns), self._leap_s)
            for kind, problem in lost:
                self._usage.lose(self._name_of(epoch, kind), *problem)
            if fix is None:
                continue
            self._clock.on_utc(epoch.counter_ms, fix.utc_ns)
            if self._wants_fix:
                messages.append(fix)
            messages += self._gaps.on_epoch(epoch.counter_ms, epoch.last_rx_ns)
            messages += self._rtk.on_fix(fix)
        self._figures.missed_epochs += self._gaps.take_missed()
        for _, reason in self._epochs.take_unused():
            self._figures.late_messages += reason is Unused.LATE
            # Only the message that is handled now can be too late.
            self._problem = self._problem or UsageProblem(reason)
        return messages

    def _name_of(self, epoch: Epoch, kind: str) -> str:
        return f"{epoch.parts[kind].talker}{kind}" if self._nmea else f"NAV-{kind}"

    def _since_used_s(self, now_ns: int) -> float:
        return nan if self._used_ns is None else (now_ns - self._used_ns) * 1e-9

    # ---------------------------------------------------------------- UBX

    def _on_pvt(self, pvt: NavPvt, t_rx_ns: int) -> Sequence[Message]:
        self.epoch_rx_ns = t_rx_ns
        # A rover that gives the heading alone needs no position.
        self._problem = content.position_problem(pvt) if self._wants_fix else None
        self._vehicle_heading_valid = pvt.vehicle_heading_valid
        return self._add("PVT", pvt, t_rx_ns)

    def _on_pvat(self, pvat: NavPvat, t_rx_ns: int) -> Sequence[Message]:
        messages = list(self._on_pvt(pvat.pvt, t_rx_ns))
        if self._wants_heading:
            self._attitude_ns = t_rx_ns
            problem = content.attitude_problem(pvat)
            messages += self._heading.update(problem, t_rx_ns)
            if problem is not None:
                self._usage.lose(self._name, *problem)
            else:
                t_ns = self._clock.time_of(pvat.itow_ms, t_rx_ns)
                sigma_rad = (
                    radians(pvat.heading_accuracy_deg_e2 * 1e-2) or self._params.heading_sigma_rad
                )
                yaw_rad = solution.yaw_rad(pvat.heading_deg_e5 * 1e-5, 0.0)
                messages.append(Heading(t_ns, t_rx_ns, yaw_rad, sigma_rad, HeadingKind.INERTIAL))
        return messages

    def _on_attitude(self, attitude: NavAtt, t_rx_ns: int) -> Sequence[Message]:
        if not self._wants_heading:
            self._problem = UsageProblem(Unused.NOT_WANTED)
            return ()
        if t_rx_ns - self._attitude_ns < SOURCE_NS:
            self._problem = UsageProblem(Unused.DUPLICATE)
            return ()
        t_ns = self._clock.time_of(attitude.itow_ms, t_rx_ns)
        self._problem = content.inertial_problem(
            attitude, valid=self._vehicle_heading_valid, working=self._fusion.working
        )
        messages = list(self._heading.update(self._problem, t_rx_ns))
        if self._problem is None:
            sigma_rad = radians(attitude.heading_accuracy_deg_e5 * 1e-5)
            messages.append(
                Heading(
                    t_ns,
                    t_rx_ns,
                    solution.yaw_rad(attitude.heading_deg_e5 * 1e-5, 0.0),
                    sigma_rad,
                    HeadingKind.INERTIAL,
                )
            )
        return messages

    def _on_prediction(
        self, prediction: HnrPvt | HnrAtt | HnrIns, t_rx_ns: int
    ) -> Sequence[Message]:
        # Between its epochs the receiver predicts by its inertial sensor, as our estimator does: no
        # news of the position.
        self._problem = UsageProblem(Unused.NOT_WANTED)
        return ()

    def _on_fusion(self, status: EsfStatus, t_rx_ns: int) -> Sequence[Message]:
        return self._fusion.update(status, t_rx_ns)

    def _on_relposned(self, vector: NavRelposned, t_rx_ns: int) -> Sequence[Message]:
        if not self._wants_heading:
            self._problem = UsageProblem(Unused.NOT_WANTED)
            return ()
        t_ns = self._clock.time_of(vector.itow_ms, t_rx_ns)
        params = self._params
        self._problem = content.vector_problem(
            vector, needs_fixed=params.heading_needs_fixed
        ) or self._baseline.problem(
            vector.length_m, known=not vector.normalised, fixed=vector.carrier == 2
        )
        messages = [
            *self._heading.relearnt(self._name, t_rx_ns),
            *self._heading.update(self._problem, t_rx_ns),
        ]
        if self._problem is None:
            yaw_rad, unknown_rad = params.baseline_yaw_rad, params.heading_sigma_rad
            messages.append(fixes.moving_base_heading(vector, t_ns, t_rx_ns, yaw_rad, unknown_rad))
        return messages

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
            reason = self._jamming.reason
        return self._jamming.set(reason, t_rx_ns, reaction)

    def _on_rxm_rtcm(self, report: RxmRtcm, t_rx_ns: int) -> Sequence[Message]:
        if report.used == 2 and not report.crc_failed:
            self._used_ns = t_rx_ns
        return ()

    def _on_rxm_cor(self, report: RxmCor, t_rx_ns: int) -> Sequence[Message]:
        if report.used == 2 and not report.damaged:
            self._used_ns = t_rx_ns
        if report.protocol not in _CORRECTIONS:
            return ()
        counts = self._corrections
        name = _CORRECTIONS[report.protocol]
        fate = (
            "damaged"
            if report.damaged
            else "not decrypted"
            if report.undecrypted
            else ("of unknown use", "not used", "used", "of unknown use")[report.used]
        )
        counts[f"{name} {fate}"] += 1
        text = ", ".join(f"{count} of {each}" for each, count in sorted(counts.items()))
        self._usage.remark("RXM-COR", f"the receiver reports {text}")
        if report.protocol == _RTCM:
            return ()
        reason = (
            "encrypted SPARTN cannot be decrypted: its keys are missing or out of date, state "
            "spartn_keys_file"
        )
        return self._undecrypted.set(reason if report.undecrypted else "", t_rx_ns)

    def _on_security(self, report: SecSig, t_rx_ns: int) -> Sequence[Message]:
        messages: list[Message] = []
        if report.jamming:
            reason, reaction = watch.jamming_of(report)
            messages += self._jamming.set(reason, t_rx_ns, reaction)
        if report.spoofing:
            messages += self._spoofing.set(
                _SPOOFING.get(report.spoofing, ""), t_rx_ns, Reaction.CAP_SPEED
            )
        return messages

    # ---------------------------------------------------------------- NMEA

    def _on_position(self, sentence: Gga | Gns, t_rx_ns: int) -> Sequence[Message]:
        if self._is_duplicate(sentence, sentence.quality > 0, t_rx_ns):
            return ()
        self.epoch_rx_ns = t_rx_ns
        self._without_position = 0
        self._problem = content.sentence_problem(sentence, self._lost) if self._wants_fix else None
        if sentence.time_ms is None:
            return self._rtk.lost(t_rx_ns, "the receiver does not know the time")
        return self._on_timed(sentence, t_rx_ns)

    def _on_dated(self, sentence: Rmc | Zda, t_rx_ns: int) -> Sequence[Message]:
        if isinstance(sentence, Rmc) and self._is_duplicate(
            sentence, bool(sentence.valid), t_rx_ns
        ):
            return ()
        if isinstance(sentence, Zda) or sentence.valid:
            self._calendar.set(sentence.day, sentence.time_ms)
        else:
            self._problem = UsageProblem(Unused.NO_SOLUTION)
        if isinstance(sentence, Rmc) and self._wants_fix:
            self._miss_position()
        # A date once a day is enough, so it is not waited for.
        return self._on_timed(sentence, t_rx_ns) if isinstance(sentence, Rmc) else ()

    def _miss_position(self) -> None:
        """Note a sentence whose position is left to GGA or GNS."""
        self._without_position += 1
        if self._without_position > POSITIONLESS:
            self._usage.lose(self._name, Unused.NO_GGA, "position")

    def _on_timed(self, sentence: Gga | Gns | Rmc | Gst | Vel, t_rx_ns: int) -> Sequence[Message]:
        if sentence.time_ms is None:
            self._problem = self._problem or UsageProblem(Unused.NO_TIME)
            return ()
        return self._finish(
            self._epochs.add(type(sentence).__name__.upper(), sentence.time_ms, sentence, t_rx_ns)
        )

    def _on_errors(self, sentence: Gst, t_rx_ns: int) -> Sequence[Message]:
        if self._is_duplicate(sentence, isfinite(sentence.latitude_sigma_m), t_rx_ns):
            return ()
        if sentence.talker == "PQTM":
            # PQTMEPE has no time.
            return self._finish(self._epochs.join("GST", sentence, t_rx_ns))
        return self._on_timed(sentence, t_rx_ns)

    def _is_duplicate(
        self, sentence: Gga | Gns | Rmc | Gst | Vtg, solved: bool, t_rx_ns: int
    ) -> bool:
        """True if another talker gives sentences of this kind, and this one is no better.

        Some receivers send one for each constellation. The better has a solution, or is of all
        constellations (GN).
        """
        talker, rank = sentence.talker, 2 * solved + (sentence.talker == "GN")
        source, best, seen_ns = self._talkers.get(type(sentence), (talker, rank, t_rx_ns))
        if source != talker and rank <= best and t_rx_ns - seen_ns < SOURCE_NS:
            self._problem = UsageProblem(Unused.DUPLICATE)
            return True
        self._talkers[type(sentence)] = talker, rank, t_rx_ns
        return False

    def _on_gsa(self, sentence: Gsa, t_rx_ns: int) -> Sequence[Message]:
        self._gsa = sentence, t_rx_ns
        return ()

    def _recent_gsa(self, now_ns: int) -> Gsa | None:
        """Return the last GSA if recent enough; dilution changes slowly."""
        return self._gsa[0] if self._gsa is not None and now_ns - self._gsa[1] < GSA_NS else None

    def _on_vtg(self, sentence: Vtg, t_rx_ns: int) -> Sequence[Message]:
        if self._is_duplicate(sentence, isfinite(sentence.speed_kn + sentence.course_deg), t_rx_ns):
            return ()
        return self._finish(self._epochs.join("VTG", sentence, t_rx_ns))

    def _on_heading_sentence(self, sentence: HeadingSentence, t_rx_ns: int) -> Sequence[Message]:
        if not self._wants_heading:
            self._problem = UsageProblem(Unused.NOT_WANTED)
            return ()
        if isinstance(sentence, Hpr) and sentence.talker == "KSXT" and self._wants_fix:
            self._miss_position()
        rank, (best, seen_ns) = content.RANKS[type(sentence)], self._heading_source
        if best > rank and t_rx_ns - seen_ns < SOURCE_NS:
            self._problem = UsageProblem(Unused.DUPLICATE)
            return ()
        params = self._params
        found = content.heading_of(sentence, self._lost, needs_fixed=params.heading_needs_fixed)
        if isinstance(found, UsageProblem):
            self._problem = found
        elif isinstance(sentence, Avr | Tar) and not (
            isinstance(sentence, Tar) and sentence.talker == "PSSN"
        ):
            fixed = sentence.quality == "3" if isinstance(sentence, Avr) else sentence.state == "4"
            self._problem = self._baseline.problem(
                sentence.length_m, known=isfinite(sentence.length_m), fixed=fixed
            )
        messages = [*self._heading.relearnt(self._name, t_rx_ns)]
        used, used_ns = self._heading_used
        if self._problem is None:
            self._heading_source = self._heading_used = rank, t_rx_ns
        elif used != rank and t_rx_ns - used_ns < SOURCE_NS:
            return messages  # another sentence gives the heading
        else:
            self._heading_source = min(rank, content.STATED_RANK), t_rx_ns
        messages += self._heading.update(self._problem, t_rx_ns)
        if self._problem is None and not isinstance(found, UsageProblem):
            unknown_rad = (
                params.estimated_heading_sigma_rad if found.estimated else params.heading_sigma_rad
            )
            sigma_rad = found.sigma_rad if isfinite(found.sigma_rad) else unknown_rad
            yaw_rad = solution.yaw_rad(found.heading_deg, params.baseline_yaw_rad)
            messages.append(
                Heading(
                    self._time_of(sentence, t_rx_ns),
                    t_rx_ns,
                    yaw_rad,
                    sigma_rad,
                    HeadingKind.MOVING_BASE,
                )
            )
        return messages

    def _time_of(self, sentence: HeadingSentence, t_rx_ns: int) -> int:
        """Return the time of validity; without one in the sentence that of the newest epoch, else
        the arrival minus the latency."""
        latest_ns = t_rx_ns - round(self._params.latency_ms * 1e6)
        t_ns = self._clock.near(getattr(sentence, "time_ms", None))
        return latest_ns if t_ns is None else min(t_ns, latest_ns)
