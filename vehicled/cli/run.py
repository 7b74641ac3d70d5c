"""Command ``vehicled run``: the daemon on the wall clock, on the vehicle's devices or a simulator,
until it is stopped."""

import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from vehicled.cli.drive_options import (
    SECONDS,
    add_backend,
    add_connect_timeout,
    add_mavlink,
    add_mixed,
    add_noise,
    add_profile,
    add_programme,
    add_ros2,
    add_view,
)
from vehicled.core.errors import SetupError, UserError
from vehicled.core.messages import ActuatorCommand, Message, Mode, OperatorCommand
from vehicled.core.ports import NEVER_NS
from vehicled.run.argument_types import TEXT, log_folder
from vehicled.run.command_line import PASSING_STATUS, CommandParser
from vehicled.run.spec import RunSpec
from vehicled.runtime.sd_notify import Notifier, watchdog_interval_ns

if TYPE_CHECKING:
    from vehicled.daemon.machine import Machine
    from vehicled.profile.schema import Profile
    from vehicled.runtime.ports import Port

START_S = 120.0
"""Longest time from the read profile to readiness, s, on a slow board with a cold SD card."""
END_S = 20.0
"""Longest time for closing the log, s."""
RESTART_S = 10.0
"""Pause before systemd starts a daemon again that a passing fault has ended, s."""


def declare_run(parser: CommandParser) -> None:
    """Run the daemon on the vehicle's devices until it is stopped. The systemd unit starts this
    command. A missing port is reported once and retried; the vehicle cannot be armed without it.
    """
    parser.describe(
        examples=(
            "vehicled run --profile my.toml",
            "vehicled run --profile my.toml --course lot17 --view 0.0.0.0:8765",
        ),
        epilog="Exit status: 130 stopped by a signal, after braking; 1 connection to the "
        "simulator lost; 2 invalid arguments; 75 a "
        "passing fault such as a full disk: systemd tries again.",
    )
    add_profile(parser)
    parser.add_argument(
        "--connect",
        type=TEXT,
        metavar="URL",
        help="use the devices of a running simulator: unix:PATH or tcp:HOST:PORT",
    )
    add_connect_timeout(parser)
    add_programme(parser)
    add_noise(parser)
    parser.add_argument(
        "--log",
        type=log_folder,
        metavar="DIR",
        help="write the log to this folder instead of the profile's",
    )
    parser.add_argument(
        "--link-timeout",
        type=SECONDS,
        metavar="S",
        help=(
            "with --connect: end the run if the simulator sends nothing for S seconds (default 0.5)"
        ),
    )
    add_backend(parser, "event loop")
    add_view(parser)
    add_ros2(parser)
    add_mavlink(parser)
    add_mixed(parser)
    parser.set_defaults(run=serve)


def serve(arguments: Namespace) -> int:
    """Run the daemon until it is stopped, with events as JSON lines for the system journal.

    Missing ports are reported once and retried; they prevent arming, as do a profile changed since
    its check and a profile that needs more than this board was measured to sustain. After a drive
    the daemon keeps running, disarmed.
    """
    # Imported here, because they bring numpy, for which help and completion need not wait.
    from vehicled.core.wire.usage import usage_lines
    from vehicled.run.findings import print_warnings
    from vehicled.run.plan import Plan
    from vehicled.run.session import Observer, drive, greet
    from vehicled.runtime.board.setup_fault import setup_fault
    from vehicled.runtime.connection import connect
    from vehicled.runtime.events import TYPES, EventLog, configure

    plan = Plan.of(
        RunSpec(
            profile=arguments.profile,
            overrides=tuple(arguments.set),
            course=arguments.course or "",
            laps=arguments.laps,
            noise=arguments.noise,
            link="messages" if arguments.connect else "wires",
            clock="wall",
            link_timeout_s=arguments.link_timeout,
            own_ports=not arguments.connect,
            stays=True,
            log_folder=arguments.log or "",
            control_socket="own",
            view=arguments.view,
            ros2=arguments.ros2,
            ros2_commands=arguments.ros2_commands,
            ros2_autoware=arguments.ros2_autoware,
            ros2_autoware_auto=arguments.ros2_autoware_auto,
            mavlink=arguments.mavlink,
            mavlink_commands=arguments.mavlink_commands,
            mavlink_id=arguments.mavlink_id,
            mixed=arguments.mixed or "",
            mixed_vehicles=tuple(arguments.mixed_vehicle),
            mixed_loss=arguments.mixed_loss,
            mixed_seed=arguments.mixed_seed,
            backend=arguments.async_backend,
        )
    )
    print_warnings(plan.findings)
    configure()
    if plan.spec.bridged:
        from vehicled.run.bridges import check_bridges

        check_bridges(plan.spec, plan.loaded.profile.view)
    ports = {} if arguments.connect else own_ports(plan.loaded.profile)
    notifier = Notifier()
    systemd = SystemdNotifier(notifier, ports)
    observer = Observer(
        listeners=[(TYPES, EventLog(every=True).record), ((ActuatorCommand,), systemd.record)],
        progress={"systemd status": systemd.show, "systemd watchdog": systemd.feed},
        # Closing the log may take longer than the timeouts of the watchdog and of the end.
        on_end=lambda ending: notifier.stopping(ending.why, END_S),
    )
    notifier.extend(START_S)
    try:
        with (
            connect(arguments.connect, arguments.connect_timeout or 0.0)
            if arguments.connect
            else nullcontext()
        ) as sock:
            link = None if sock is None else greet(plan, sock)
            done = drive(plan, link, observer, ports=ports, setup_fault=setup_fault(plan.loaded))
    except UserError as error:
        if not (error.passing and notifier.reached):
            raise
        return _wait_before_restart(error, notifier)
    for line in usage_lines(done.machine.usage):
        print(f"vehicled: messages: {line}", file=sys.stderr)
    print(
        (
            f"vehicled: {done.ending.why}; log: "
            f"{done.log_problem or (done.log.path if done.log else 'none')}"
        ),
        file=sys.stderr,
    )
    if done.observers_failed:
        print(f"vehicled: failed beside the drive: {done.observers_failed}", file=sys.stderr)
    return int(done.ending.outcome)


def _wait_before_restart(error: UserError, notifier: Notifier) -> int:
    """Say what is wrong, and wait. systemd gives up after ten starts in a minute, while a disk may
    be freed after an hour."""
    print(f"vehicled: {error}; starts again in {RESTART_S:.0f} s", file=sys.stderr)
    notifier.status(str(error))
    time.sleep(RESTART_S)
    return PASSING_STATUS


def own_ports(profile: "Profile") -> "dict[str, Port]":
    """Return the ports of a profile, unopened. The operator's port may be missing: then arming by
    wire is impossible.

    Raises :class:`SetupError` with every device whose port is missing or invalid.
    """
    from vehicled.runtime.ports import AddressError, make_port
    from vehicled.runtime.ports.sharing import transport_of

    ports: dict[str, Port] = {}
    wrong = []
    for name, device in profile.devices.items():
        if not device.port:
            if device.messages != [OperatorCommand.__name__]:
                wrong.append(
                    f"devices.{name}.port: missing; give the device's port ('vehicled doctor' "
                    "lists the ports)"
                )
            continue
        try:
            ports[name] = make_port(name, device.port, transport_of(device))
        except AddressError as error:
            wrong.append(f"devices.{name}.port: {error}")
    if wrong:
        raise SetupError("\n".join(wrong))
    return ports


class SystemdNotifier:
    """Notifies systemd of readiness, watchdog and status."""

    STATUS_NS = 1_000_000_000
    FRAME_NS = 200_000_000
    """Maximum age of the newest actuator frame for which the watchdog is fed."""
    PORTS_NS = 5_000_000_000
    """Time after which a port that has not opened counts as retrying."""
    FEEDS = 5
    """Watchdog notifications per watchdog timeout, so that a frozen loop is ended soon after the
    timeout."""

    def __init__(self, notifier: Notifier, ports: "Mapping[str, Port]") -> None:
        """Take the run's own ``ports``, by device."""
        self._notifier = notifier
        self._ports = ports
        self._every_ns = watchdog_interval_ns() // self.FEEDS
        self._ready = False
        self._begun_ns = -1
        self._frame_ns = -NEVER_NS
        self._fed_ns = 0
        self._status_ns = 0
        self._status = ""

    def record(self, message: Message, log_time_ns: int) -> None:
        """Note the time of a command to the actuator."""
        self._frame_ns = log_time_ns

    def feed(self, machine: "Machine", now_ns: int) -> None:
        """Feed the watchdog after a turn of the loop and its output, from the time on when the
        daemon is ready."""
        alive = now_ns - self._frame_ns < self.FRAME_NS
        if self._every_ns and self._ready and alive and now_ns - self._fed_ns >= self._every_ns:
            self._fed_ns = now_ns
            self._notifier.watchdog()

    def show(self, machine: "Machine", now_ns: int) -> None:
        """Report readiness, and a changed status at most once a second."""
        alive = now_ns - self._frame_ns < self.FRAME_NS
        if not self._ready:
            if self._begun_ns < 0:
                self._begun_ns = now_ns
            settled = all(machine.port_states[name][0] is not None for name in self._ports)
            if not alive or not (settled or now_ns - self._begun_ns > self.PORTS_NS):
                return
            self._ready = True
            self._status, self._status_ns = self._text(machine, now_ns), now_ns
            self._notifier.ready(self._status)
        if now_ns - self._status_ns >= self.STATUS_NS:
            self._status_ns = now_ns
            status = self._text(machine, now_ns)
            if status != self._status:
                self._status = status
                self._notifier.status(status)

    def _text(self, machine: "Machine", now_ns: int) -> str:
        """Return the status; the last one if that fails, because readiness must be reported all the
        same."""
        try:
            return self._status_text(machine, now_ns)
        except Exception as error:  # noqa: BLE001 - a text only explains
            machine.observers.failed("systemd status", error, lasting=True)
            return self._status

    def _status_text(self, machine: "Machine", now_ns: int) -> str:
        parts = [f"{machine.mode.name}: {machine.why}"]
        waiting = [
            what
            for what in machine.waiting_for(now_ns)
            if what not in machine.supervisor.reason.details
        ]
        if waiting:
            rests = machine.mode in (Mode.INIT, Mode.STANDBY, Mode.FAULT)
            parts.append(f"{'arming waits:' if rests else 'waits:'} {'; '.join(waiting)}")
        closed = [name for name, port in self._ports.items() if port.trouble]
        if closed:
            parts.append(f"retrying ports: {', '.join(closed)}")
        return "; ".join(parts)
