"""One drive with one failure: daemon and simulator in one process, in lockstep, on the devices' own
bytes.

The machine and the world are those of ``vehicled sim --link wires --clock lockstep``. Only the
socket between them is left out, so that a drive costs half a second and can go on after a stop: the
vehicle is armed again and either drives or does not.
"""

import pathlib
from collections.abc import Mapping
from functools import lru_cache
from math import hypot, inf, isfinite

from msgspec import Struct

from sim_backend.connection import START_NS
from sim_backend.emulators.failing import FailingEmulator
from sim_backend.emulators.failures import Failure, parse_failure
from sim_backend.world import port_names
from tests.forked import branch
from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    Event,
    Fault,
    GroundTruth,
    Message,
    Mode,
    OperatorAction,
    OperatorCommand,
    Reaction,
    StateEstimate,
)
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.daemon.machine import Machine
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile
from vehicled.safety.modes import DRIVING

COURSE = "circle_r5_ccw"
AFTER_S = 4.0
"""Time watched after a failure or after the standstill, to see if the vehicle recovers."""
TRACKED_S = 1.0
"""Time of tracking after which a re-armed vehicle has recovered."""
REST_S = 0.5
"""Pause before arming, after the standstill or the end of the failure."""
SECOND_NS = 1_000_000_000
SHORTLY_NS = SECOND_NS // 2
"""Time before a failure up to which the drives with different failures are the same."""


class Outcome(Struct, kw_only=True):
    """Effects of a failure, from its start on."""

    named: set[str]
    """Codes of faults and names of events in the log, without mode changes."""
    counted: set[str]
    """Counters that grew, even if no event was logged."""
    vehicle: str
    """One of the words of ``failure_table.VEHICLE``."""
    after_s: float
    """Time from the start of the failure to the first frame that reacts; infinite if none does."""
    off_course_m: float
    """Largest distance of the true vehicle from the course."""
    stands_after_s: float
    """Time from the start of the failure to the true vehicle's standstill before re-arming;
    infinite if it never stands."""
    recovers: str
    """One of the words of ``failure_table.RECOVERS``."""
    faults: list[Fault]
    """All faults of the drive."""
    digest_until_stop: str
    """Digest of all frames up to the first standstill or the end."""


class _Recorder:
    """Journal listener that collects the contents of an outcome."""

    def __init__(self, course: Course, since_ns: int) -> None:
        self._since_ns = since_ns
        self._tracker = PathTracker(course)
        self._estimate: StateEstimate | None = None
        self._rejected = 0
        self.named: set[str] = set()
        self.counted: set[str] = set()
        self.faults: list[Fault] = []
        self.worst = Reaction.NONE
        self.reacted_ns: int | None = None
        self.off_course_m = 0.0
        self.stood_ns: int | None = None
        self.truth: GroundTruth | None = None
        self.command: ActuatorCommand | None = None
        self.driving = False
        self.watching = True
        """True until the vehicle is armed again."""

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        since = log_time_ns >= self._since_ns
        if isinstance(message, Fault):
            self.faults.append(message)
            if since and self.watching:
                self.named.add(message.code)
        elif isinstance(message, Event):
            # The account of a drive belongs to every drive.
            if since and self.watching and message.name != "commands_cut":
                self.named.add(message.name)
        elif isinstance(message, StateEstimate):
            self._estimate = message
            if since and self.watching:
                if message.rejected > self._rejected:
                    self.counted.add("rejected by the gate")
                if message.status is not EstimatorStatus.RUNNING:
                    self.counted.add(f"estimator {message.status.name}")
            else:
                self._rejected = message.rejected
        elif isinstance(message, ActuatorCommand):
            self.command = message
            self.driving = message.mode in (Mode.AUTO, Mode.STOPPING, Mode.FAULT)
            if since and self.watching and self.driving and message.reaction > Reaction.NONE:
                self.reacted_ns = self.reacted_ns or log_time_ns
                self.worst = max(self.worst, message.reaction)
        elif isinstance(message, GroundTruth):
            self.truth = message
            point = self._tracker.update(message.x_m, message.y_m, message.yaw_rad)
            if since and self.watching and self.driving:
                self.off_course_m = max(self.off_course_m, abs(point.cross_track_m))
            if since and self.watching and message.speed_mps < STANDSTILL_MPS:
                self.stood_ns = self.stood_ns or log_time_ns

    @property
    def tracks(self) -> bool:
        """True if the vehicle drives at speed, unhindered, with a running estimate."""
        truth, estimate, command = self.truth, self._estimate, self.command
        if truth is None or estimate is None or command is None:
            return False
        known = hypot(truth.x_m - estimate.x_m, truth.y_m - estimate.y_m) < 0.1
        return (
            known
            and command.mode is Mode.AUTO
            and command.reaction is Reaction.NONE
            and truth.speed_mps > 0.8
        )


class _Drive:
    """A drive on ``COURSE`` without failures, so far, of which effects are recorded from
    ``since_ns`` on."""

    def __init__(self, profile_name: str, since_ns: int, seed: int) -> None:
        self.profile, self.seed = _profile(profile_name), seed
        self.recorder = _Recorder(_course(), since_ns)
        self.pair = WrappedPair(self.profile, _course(), (), self.recorder, seed)
        self.before = _counters(self.pair.machine)
        self.pair.grant()

    def until(self, at_ns: int) -> "_Drive":
        """Go on to a time."""
        while self.pair.now_ns < at_ns:
            self.pair.reply()
            self.pair.grant()
        return self


def will_fail(pair: WrappedPair, profile: Profile, failure: Failure, seed: int) -> None:
    """Let a device of a drive that is under way fail, later."""
    world, port = pair.world, port_names(profile).index(failure.port)
    messages = profile.devices[failure.port].messages
    world._emulators[port] = FailingEmulator(
        world.emulator(port), (failure,), messages, seed, START_NS
    )
    world._collect(port)


def _under_way(profile_name: str, since_ns: int, seed: int) -> _Drive:
    return _Drive(profile_name, since_ns, seed).until(since_ns - SHORTLY_NS)


def inject(
    profile_name: str,
    text: str,
    *,
    watch_s: float = AFTER_S,
    stop_s: float | None = None,
    seed: int = 0,
) -> Outcome:
    """Drive ``COURSE`` with a failure. ``watch_s``: time watched if endless. ``stop_s``: time of
    the stop request."""
    failure = parse_failure(text)
    start_ns = START_NS + round(failure.start_s * SECOND_NS)
    return branch(
        _under_way,
        (profile_name, start_ns, seed),
        lambda drive: _go_on(drive, failure, watch_s, stop_s),
    )


def _go_on(drive: _Drive, failure: Failure, watch_s: float, stop_s: float | None) -> Outcome:
    pair, recorder, before = drive.pair, drive.recorder, drive.before
    will_fail(pair, drive.profile, failure, drive.seed)
    machine = pair.machine
    start_ns = START_NS + round(failure.start_s * SECOND_NS)
    over_s = failure.start_s + (failure.duration_s if isfinite(failure.duration_s) else watch_s)
    over_ns = START_NS + round(over_s * SECOND_NS)
    end_ns = over_ns + (round(AFTER_S * SECOND_NS) if isfinite(failure.duration_s) else 0)
    stop_ns = None if stop_s is None else START_NS + round(stop_s * SECOND_NS)
    pair.reply()
    digest, rearm_ns, tracked_ns = "", 0, START_NS
    while True:
        pair.grant()
        now_ns = pair.now_ns
        if stop_ns is not None and now_ns >= stop_ns:
            machine.on_message(
                OperatorCommand(now_ns, now_ns, OperatorAction.STOP, "the test"), now_ns
            )
            stop_ns = None
        if rearm_ns == 0 and machine.over(now_ns):
            digest = machine.digest.hexdigest()
            rearm_ns = max(over_ns, now_ns) + round(REST_S * SECOND_NS)
            end_ns = rearm_ns + round(AFTER_S * SECOND_NS)
        if rearm_ns and recorder.watching and now_ns >= rearm_ns:
            recorder.watching = False
            for action in (OperatorAction.ARM, OperatorAction.DRIVE):
                machine.on_message(OperatorCommand(now_ns, now_ns, action, "the test"), now_ns)
        if recorder.watching or not recorder.tracks:
            tracked_ns = now_ns
        if now_ns >= end_ns or now_ns - tracked_ns >= round(TRACKED_S * SECOND_NS):
            break
        pair.reply()
    recovers = "no"
    if recorder.tracks:
        recovers = "by itself" if recorder.watching else "after re-arming"
    elif not isfinite(failure.duration_s) and recorder.watching and machine.mode in DRIVING:
        recovers = "lasts"
    grown = {name for name, n in _counters(machine).items() if n > before.get(name, 0)}
    return Outcome(
        named=recorder.named,
        counted=recorder.counted | grown,
        vehicle=_vehicle(recorder),
        after_s=_elapsed_s(start_ns, recorder.reacted_ns),
        off_course_m=recorder.off_course_m,
        stands_after_s=_elapsed_s(start_ns, recorder.stood_ns),
        recovers=recovers,
        faults=recorder.faults,
        digest_until_stop=digest or machine.digest.hexdigest(),
    )


def _elapsed_s(start_ns: int, t_ns: int | None) -> float:
    return inf if t_ns is None else (t_ns - start_ns) / SECOND_NS


def _vehicle(recorder: _Recorder) -> str:
    match recorder.worst:
        case Reaction.NONE | Reaction.WARN:
            return "halts unnoticed" if recorder.stood_ns is not None else "drives on"
        case Reaction.CAP_SPEED:
            return "capped"
        case Reaction.CONTROLLED_STOP:
            return "controlled stop"
        case Reaction.BRAKE:
            return "brakes"
        case _:
            return "drive disabled"


def _counters(machine: Machine) -> Mapping[str, int]:
    found = {"not finite": machine.pipeline.not_finite}
    for port in machine.ports:
        device = machine.device(port)
        for name in ("bad_frames", "saturated_samples", "stuck_samples"):
            found[f"{port}.{name}"] = getattr(device, name, 0)
    return found


@lru_cache(maxsize=1)
def _course() -> Course:
    return load_course(COURSE)


@lru_cache(maxsize=2)
def _profile(name: str) -> Profile:
    """Return a shipped profile, or one of the tests."""
    own = [
        pathlib.Path(__file__).parent / kind / f"{name}.toml" for kind in ("actuators", "sensors")
    ]
    return load_profile(next((str(path) for path in own if path.exists()), name))
