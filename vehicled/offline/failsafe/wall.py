"""Failsafe trials in wall time: separate processes, started as a user would start them, with faults
injected from outside.

Daemon and simulator run on this computer's clock. The daemon's log is evaluated afterwards:
commands, frames, faults and the ground truth. Limits not under test are wider if a busy computer
could trip them.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from math import hypot, nan
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from msgspec import Struct

from vehicled.core.messages import (
    ActuatorCommand,
    Direction,
    Fault,
    GroundTruth,
    Mode,
    PortEvent,
    PortState,
    Reaction,
    WireChunk,
)
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.live.control_socket.protocol import TeleopRequest
from vehicled.offline.failsafe.processes import (
    LOOP,
    SILENCE,
    TELEMETRY,
    EndedError,
    Processes,
    TrialError,
)
from vehicled.offline.failsafe.report import TrialResult
from vehicled.profile import load
from vehicled.safety.matrix import MATRIX

PROFILE = "art_vesc"
ATTEMPTS = 5
"""Attempts per trial; a stall of the computer may stop the vehicle before the injection or delay
the reaction."""
STALL_NS = 30_000_000
SECOND_NS = 1_000_000_000
SLOWER_MPS = 0.03
"""Loss of true speed that shows the end of driving, m/s."""
WATCH_S = 2.0
"""Observation time after the injection, s."""
FREEZE_S = 0.6
SETTLE_S = 1.5
PULL_S = 6.0
"""Time from the start of the world to a port failure that must be scheduled beforehand, s; up to
one second is added."""
DRIVE = "drive"
FILE_LIMIT_BYTES = 4096


class WallInjection(Struct, frozen=True, kw_only=True):
    """A fault in wall time that triggers one row of the matrix."""

    row: int
    code: str
    how: str
    run: Callable[["Processes", Random, "WallInjection"], "WallTrialResult"]
    simulated: bool = False
    links: tuple[str, ...] = ("wires", "messages")
    on_trial: tuple[str, ...] = ()
    """Limits that must not be widened."""


class WallTrialResult(Struct, frozen=True, kw_only=True):
    """Measurements of one trial."""

    problem: str = ""
    react_ms: float = nan
    stop_m: float = nan
    reported: tuple[str, ...] = ()


class LogEvidence:
    """Log of a run, evaluated from an injection on."""

    def __init__(self, processes: Processes, since_ns: int, frozen_s: float = 0.0) -> None:
        """Read the log. ``frozen_s`` is the length of a deliberate freeze of the daemon."""
        self.since_ns, self.frozen_s = since_ns, frozen_s
        log = processes.log(Fault, ActuatorCommand, GroundTruth, WireChunk, PortEvent)
        self.faults = [m for m in log if isinstance(m, Fault) and m.active and m.t_ns >= since_ns]
        self.commands = [m for m in log if isinstance(m, ActuatorCommand)]
        self.truth = [m for m in log if isinstance(m, GroundTruth)]
        self.chunks = [m for m in log if isinstance(m, WireChunk) and m.port == DRIVE]
        self.ports = [m for m in log if isinstance(m, PortEvent) and m.port == DRIVE]

    @property
    def reported(self) -> tuple[str, ...]:
        """Return the codes of the faults, in order."""
        return tuple(dict.fromkeys(fault.code for fault in self.faults))

    def driving(self) -> bool:
        """Return True if the vehicle drove without a reaction at the injection and in the second
        before."""
        before = [
            command for command in self.commands if -SECOND_NS <= command.t_ns - self.since_ns < 0
        ]
        return bool(before) and all(
            c.mode in (Mode.AUTO, Mode.TELEOP) and c.reaction <= Reaction.WARN for c in before
        )

    def reacted_ms(self, reaction: Reaction) -> float:
        """Return the time to the first frame with a reaction; NaN if none was sent."""
        for command in self.commands:
            if (
                command.t_ns >= self.since_ns
                and command.reaction >= reaction
                and command.throttle <= 0.0
            ):
                sent = [
                    c.t_ns
                    for c in self.chunks
                    if c.direction is Direction.TX and c.t_ns >= command.t_ns
                ]
                # A lost port takes no frames, so the command's time is used.
                return ((min(sent) if sent else command.t_ns) - self.since_ns) / 1e6
        return nan

    def stalled(self) -> bool:
        """Return True if the computer delayed daemon or simulator beyond any limit under test,
        other than by the injection."""
        late = [
            (m.t_ns, m.t_rx_ns - m.t_ns)
            for m in self.truth
            if abs(m.t_ns - self.since_ns) < SECOND_NS
        ]
        if self.frozen_s:
            late = [
                (t_ns, by_ns)
                for t_ns, by_ns in late
                if not -STALL_NS < t_ns - self.since_ns < self.frozen_s * SECOND_NS
            ]
        return any(by_ns > STALL_NS for _, by_ns in late)

    def stop_m(self) -> float:
        """Return the true distance from the injection to standstill."""
        way, before = 0.0, None
        for each in self.truth:
            if each.t_ns < self.since_ns:
                continue
            if before is not None:
                way += hypot(each.x_m - before.x_m, each.y_m - before.y_m)
            before = each
            if abs(each.speed_mps) < STANDSTILL_MPS:
                return way
        return nan

    def slower_ns(self) -> int | None:
        """Return the time at which the true vehicle first lost speed."""
        before = [abs(each.speed_mps) for each in self.truth if each.t_ns < self.since_ns][-20:]
        if not before:
            return None
        usual = min(before)
        return next(
            (
                m.t_ns
                for m in self.truth
                if m.t_ns >= self.since_ns and abs(m.speed_mps) < usual - SLOWER_MPS
            ),
            None,
        )

    def found(self, code: str, react_ms: float) -> WallTrialResult:
        """Return the result judged by the rule's code; the caller checks the time limit."""
        problem = ""
        if not self.driving():
            problem = STOPPED_BEFORE
        elif self.stalled():
            problem = STALLED
        elif code and code not in self.reported:
            problem = f"not detected by {code}; reported: {', '.join(self.reported) or 'nothing'}"
        elif not react_ms >= 0.0:
            problem = "no frame to the actuator changed"
        return WallTrialResult(
            problem=problem, react_ms=react_ms, stop_m=self.stop_m(), reported=self.reported
        )


STOPPED_BEFORE = "the vehicle was no longer driving at the injection"
STALLED = "this computer stalled during the trial, so nothing could be measured"
AGAIN = (STOPPED_BEFORE, STALLED)


def run_wall(injection: WallInjection, link: str, seed: int) -> TrialResult:
    """Run one trial; repeat it if a stall of the computer spoilt it."""
    chance = Random(f"{seed} {injection.row} {injection.code} {link}")
    found = WallTrialResult(problem=STOPPED_BEFORE)
    for _ in range(ATTEMPTS):
        spoilt = False
        with (
            TemporaryDirectory(prefix="vehicled-") as folder,
            _processes(injection, folder, link, seed) as processes,
        ):
            try:
                found = injection.run(processes, chance, injection)
            except TrialError as error:
                found, spoilt = WallTrialResult(problem=str(error)), isinstance(error, EndedError)
        if found.problem not in AGAIN and not spoilt:
            break
    limit_ms = limit_of(injection)
    problem = found.problem
    if not problem and found.react_ms > limit_ms:
        problem = f"reacted after {found.react_ms:.0f} ms (limit {limit_ms:.0f} ms)"
    return TrialResult(
        row=injection.row,
        code=injection.code,
        how=injection.how,
        simulated=injection.simulated,
        clock="wall",
        link=link,
        profile=PROFILE,
        seed=seed,
        problem=problem,
        react_ms=found.react_ms,
        limit_ms=limit_ms,
        stop_m=found.stop_m,
        reported=found.reported,
    )


def _processes(injection: WallInjection, folder: str, link: str, seed: int) -> Processes:
    return Processes(Path(folder), PROFILE, link, seed, injection.on_trial)


def limit_of(injection: WallInjection) -> float:
    """Return the time limit of the rule, or of the reaction outside the daemon."""
    row = next(row for row in MATRIX if row.number == injection.row)
    rules = [rule.react_ms for rule in row.rules if rule.code == injection.code]
    return row.outside_ms if not rules or row.number == 1 else rules[0]


# ----------------------------------------------------------------------------------- the injections


def _drive_on(processes: Processes, chance: Random, *options: str) -> None:
    processes.sim(*options)
    processes.wait_for_mode("AUTO")
    time.sleep(SETTLE_S + chance.random())


def _frozen(processes: Processes, chance: Random, injection: WallInjection) -> WallTrialResult:
    _drive_on(processes, chance)
    since_ns = time.monotonic_ns()
    os.kill(processes.daemon.pid, signal.SIGSTOP)
    time.sleep(FREEZE_S)
    os.kill(processes.daemon.pid, signal.SIGCONT)
    processes.end(after_s=WATCH_S)
    evidence = LogEvidence(processes, since_ns, FREEZE_S)
    slower_ns = evidence.slower_ns()
    profile = load(PROFILE, []).profile
    delay_ns = round((profile.sim.drive or profile.vehicle.drive).delay_s * 1e9)
    return evidence.found(
        injection.code,
        nan if slower_ns is None else max(0.0, (slower_ns - delay_ns - since_ns) / 1e6),
    )


def _unplugged_stick(
    processes: Processes, chance: Random, injection: WallInjection
) -> WallTrialResult:
    processes.sim("--by-hand")
    with processes.client() as client:
        end_s = time.monotonic() + 2.0 + SETTLE_S + chance.random()
        processes.hold_stick(client, until_s=end_s)
        since_ns = time.monotonic_ns()
        gone = TeleopRequest(
            steering=0.0,
            throttle=0.0,
            deadman=False,
            sequence=10**6,
            origin="gamepad",
            unplugged=True,
        )
        client.send(gone)
        time.sleep(WATCH_S)
    processes.end()
    evidence = LogEvidence(processes, since_ns)
    return evidence.found(injection.code, evidence.reacted_ms(Reaction.BRAKE))


def _pulled(processes: Processes, chance: Random, injection: WallInjection) -> WallTrialResult:
    kind = "usb" if processes.link == "wires" else "off"
    processes.sim("--fail", f"{DRIVE}:{kind}@{PULL_S + chance.random():.3f}")
    processes.wait_for_mode("AUTO")
    processes.wait_while_mode("AUTO", PULL_S + 4.0)
    processes.end(after_s=WATCH_S)
    whole = LogEvidence(processes, 0)
    stopped_ns = next((c.t_ns for c in whole.commands if c.reaction >= Reaction.BRAKE), None)
    if stopped_ns is None:
        return WallTrialResult(problem="no frame to the actuator changed", reported=whole.reported)
    received = [c.t_ns for c in whole.chunks if c.direction is Direction.RX and c.t_ns < stopped_ns]
    # Count from the last data received, because the plug was pulled after it.
    evidence = LogEvidence(processes, received[-1] if received else stopped_ns)
    return evidence.found(injection.code, evidence.reacted_ms(Reaction.BRAKE))


def _full_disk(processes: Processes, chance: Random, injection: WallInjection) -> WallTrialResult:
    _drive_on(processes, chance)
    writer = processes.writer_pid()
    since_ns = time.monotonic_ns()
    resource.prlimit(writer, resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, FILE_LIMIT_BYTES))
    return _reported_live(processes, injection, since_ns)


def _busy(processes: Processes, chance: Random, injection: WallInjection) -> WallTrialResult:
    _drive_on(processes, chance)
    since_ns = time.monotonic_ns()
    burn = [sys.executable, "-c", "import os\nos.nice(19)\nwhile True: pass"]
    burners = [subprocess.Popen(burn) for _ in range(os.cpu_count() or 1)]
    try:
        return _reported_live(processes, injection, since_ns)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def _reported_live(
    processes: Processes, injection: WallInjection, since_ns: int
) -> WallTrialResult:
    """Check by the control socket that a fault is reported, since the log may be what fails. The
    vehicle must keep driving."""
    limit_s = limit_of(injection) * 1e-3 + 1.0
    with processes.client() as client:
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            state = client.status()
            now_ns = time.monotonic_ns()
            links = [link for link in state["chain"] if link["code"] == injection.code]
            if links:
                react_ms = (now_ns - links[0]["ago_s"] * 1e9 - since_ns) / 1e6
                problem = "" if state["mode"] == "AUTO" else f"the vehicle stopped: {state['why']}"
                # Other load may have triggered the rule before the injection.
                return WallTrialResult(
                    problem=problem, react_ms=max(0.0, react_ms), reported=(injection.code,)
                )
            time.sleep(0.02)
    return WallTrialResult(
        problem=(
            f"not detected by {injection.code}; reported: "
            f"{', '.join(link['code'] for link in state['chain']) or 'nothing'}"
        )
    )


def _lying_clock(
    number: signal.Signals, reaction: Reaction
) -> Callable[[Processes, Random, WallInjection], WallTrialResult]:
    def run(processes: Processes, chance: Random, injection: WallInjection) -> WallTrialResult:
        processes.sim(lying=True)
        processes.wait_for_mode("AUTO")
        time.sleep(SETTLE_S + chance.random())
        since_ns = time.monotonic_ns()
        os.kill(processes.daemon.pid, number)
        processes.end(after_s=WATCH_S)
        evidence = LogEvidence(processes, since_ns)
        reported_ns = next(
            (fault.t_ns for fault in evidence.faults if fault.code == injection.code), since_ns - 1
        )
        react_ms = (
            (reported_ns - since_ns) / 1e6
            if reaction is Reaction.WARN
            else evidence.reacted_ms(reaction)
        )
        return evidence.found(injection.code, react_ms)

    return run


def _changed_profile(
    processes: Processes, chance: Random, injection: WallInjection
) -> WallTrialResult:
    """Use a profile whose stored hash is that of another text."""
    file = processes.folder / f"{PROFILE}.toml"
    file.write_text(load(PROFILE, []).source)
    file.with_suffix(".sha256").write_text(f"{'0' * 64}  {file.name}\n")
    processes.daemon_and_simulator(str(file))
    end_s = time.monotonic() + 5.0 + chance.random()
    with processes.client() as client:
        state = client.status()
        while time.monotonic() < end_s:
            state = client.status()
            if state["mode"] not in ("INIT", "STANDBY"):
                return WallTrialResult(
                    problem=f"arming was not refused: {state['mode']}, {state['why']}"
                )
            time.sleep(0.05)
    said = " ".join((state["why"], *state["waiting_for"]))
    refused = file.name in said or "profile" in said
    return WallTrialResult(
        problem="" if refused else f"refused for another reason: {said}", react_ms=0.0
    )


def _restarted(processes: Processes, chance: Random, injection: WallInjection) -> WallTrialResult:
    """Kill the daemon while driving and restart it at once, with nothing that arms it."""
    processes.plug_in()
    processes.run_on_ptys(operator=True)
    processes.wait_for_mode("AUTO")
    time.sleep(SETTLE_S + chance.random())
    processes.daemon.kill()
    processes.daemon.wait()
    killed_ns = time.monotonic_ns()
    processes.run_on_ptys(operator=False)
    processes.wait_for_mode("STANDBY")
    processes.end(after_s=1.0)
    evidence = LogEvidence(processes, killed_ns)
    opened = [
        event.t_ns
        for event in evidence.ports
        if event.state is PortState.OPENED and event.t_ns >= killed_ns
    ]
    frames = [
        chunk.t_ns
        for chunk in evidence.chunks
        if chunk.direction is Direction.TX and opened and chunk.t_ns >= opened[0]
    ]
    driven = [
        command
        for command in evidence.commands
        if command.throttle != 0.0 or command.mode not in (Mode.INIT, Mode.STANDBY)
    ]
    if driven:
        return WallTrialResult(
            problem=f"the vehicle drove: {driven[0].mode.name}, throttle {driven[0].throttle:.2f}"
        )
    if not frames or not evidence.commands or evidence.commands[0].brake < 1.0:
        return WallTrialResult(problem="the vehicle did not brake first")
    return WallTrialResult(react_ms=(frames[0] - opened[0]) / 1e6, reported=evidence.reported)


def _killed_simulator(
    processes: Processes, chance: Random, injection: WallInjection
) -> WallTrialResult:
    _drive_on(processes, chance)
    since_ns = time.monotonic_ns()
    os.kill(processes.simulator_pid(), signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        processes.daemon.wait(5.0)
    processes.end()
    if "the simulator" not in processes.said():
        return WallTrialResult(problem="the run did not end with the expected reason")
    evidence = LogEvidence(processes, since_ns)
    return evidence.found("", evidence.reacted_ms(Reaction.BRAKE))


WALL: tuple[WallInjection, ...] = (
    WallInjection(
        row=1, code="loop_frozen", how=f"SIGSTOP of the daemon for {FREEZE_S:g} s", run=_frozen,
        on_trial=(LOOP,),
    ),
    WallInjection(
        row=6, code="teleop_unplugged", how="the input device is unplugged", simulated=True,
        run=_unplugged_stick
    ),
    WallInjection(
        row=17, code="actuator_lost", how="the adapter is unplugged; on messages no bytes pass",
        run=_pulled, on_trial=(TELEMETRY, SILENCE),
    ),
    WallInjection(
        row=24, code="log_failing", how="the log writer reaches a file size limit (RLIMIT_FSIZE)",
        run=_full_disk,
    ),
    WallInjection(
        row=25, code="host_strained", how="other processes load every processor", run=_busy,
    ),
    WallInjection(
        row=26, code="clock_stepped", how="the wall clock reads an hour ahead", simulated=True,
        run=_lying_clock(signal.SIGUSR1, Reaction.WARN),
    ),
    WallInjection(
        row=26, code="woke_up", how="the boot clock reads 20 s ahead, as after a suspend",
        simulated=True, run=_lying_clock(signal.SIGUSR2, Reaction.BRAKE),
    ),
    WallInjection(
        row=27, code="", how="the profile does not match its stored hash", run=_changed_profile,
        links=("messages",)
    ),
    WallInjection(
        row=28, code="", how="SIGKILL of the daemon while driving, restarted at once",
        run=_restarted, links=("wires",)
    ),
    WallInjection(row=29, code="", how="SIGKILL of the simulator", run=_killed_simulator),
)  # fmt: skip
"""Injections for faults between processes, devices and the computer itself."""
