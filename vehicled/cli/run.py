"""``vehicled run``: the daemon on the wall clock, on the vehicle's own ports or against a simulator, until it is stopped."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import nullcontext

from vehicled.app import SetupError
from vehicled.cli.findings import print_warnings
from vehicled.cli.plan import Plan
from vehicled.cli.session import drive
from vehicled.cli.view import check_view
from vehicled.machine import Machine
from vehicled.messages import ActuatorCommand, Message, Mode, OperatorCommand
from vehicled.ports import NEVER_NS
from vehicled.profile.schema import Profile
from vehicled.runtime.board.setup_fault import setup_fault
from vehicled.runtime.connection import connect
from vehicled.runtime.events import TAPS as EVENT_TAPS
from vehicled.runtime.events import EventLog
from vehicled.runtime.ports import AddressError, Port, make_port
from vehicled.runtime.sd_notify import Notifier, watchdog_interval_ns


def serve(arguments: Namespace) -> int:
    """Run the daemon until it is stopped; events as JSON lines for the system's journal.

    On its own ports it runs whether they are there or not: what is missing is told once and tried again, and the vehicle cannot be
    armed before; nor with a profile that was changed since it was checked, or that asks for more than this board was measured to
    keep. After a drive it stands disarmed and goes on.
    """
    plan = Plan.of(
        arguments, clock="wall", link="messages" if arguments.connect else "wires", seed=0, own_ports=not arguments.connect
    )
    print_warnings(plan.findings)
    if arguments.view is not None:
        check_view(plan.loaded.profile.view, arguments.view)
    ports = {} if arguments.connect else own_ports(plan.loaded.profile)
    notifier = Notifier()
    feeder = Feeder(notifier, ports)
    with connect(arguments.connect) if arguments.connect else nullcontext() as sock:
        done = drive(
            plan,
            sock,
            ports=ports,
            until_s=None,
            patience_s=None,
            stays=True,
            log_folder=arguments.log or "",
            taps=[(EVENT_TAPS, EventLog().record), ((ActuatorCommand,), feeder.record)],
            progress=feeder.show,
            door="own",
            view=arguments.view,
            setup_fault=setup_fault(plan.loaded),
            # From here on the service manager keeps no watchdog: closing the log may take longer than it has patience.
            on_end=lambda ending: notifier.stopping(ending.why),
        )
    print(f"vehicled: {done.ending.why}; log: {done.log_problem or (done.log.path if done.log else 'none')}", file=sys.stderr)
    return int(done.ending.outcome)


def own_ports(profile: Profile) -> dict[str, Port]:
    """The ports of a profile, not yet open. An operator may be without one: then nobody arms the vehicle by wire.

    Raises :class:`SetupError` naming every device whose port is missing or cannot be one.
    """
    ports: dict[str, Port] = {}
    wrong = []
    for name, device in profile.devices.items():
        if not device.port:
            if device.messages != [OperatorCommand.__name__]:
                wrong.append(f"devices.{name}.port: missing; name the port that it is on, 'vehicled doctor' lists them")
            continue
        try:
            ports[name] = make_port(name, device.port)
        except AddressError as error:
            wrong.append(f"devices.{name}.port: {error}")
    if wrong:
        raise SetupError("\n".join(wrong))
    return ports


class Feeder:
    """Tells the service manager when the daemon is ready, that actuation runs, and what the vehicle does or waits for."""

    STATUS_NS = 1_000_000_000
    FRAME_NS = 200_000_000
    """A turn of the loop feeds the watchdog while the newest frame to the actuator is younger than this."""
    PORTS_NS = 5_000_000_000
    """A port whose first opening takes longer counts as one that is tried again."""
    FEEDS = 5
    """So often within the watchdog's patience, so that a loop is ended nearly that long after it froze."""

    def __init__(self, notifier: Notifier, ports: Mapping[str, Port]) -> None:
        """``ports`` of its own, by device."""
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
        """The actuation task gave a command to the actuator's device."""
        self._frame_ns = log_time_ns

    def show(self, machine: Machine, now_ns: int) -> None:
        """After a turn of the loop and what it sent. The status is told when it has changed, once a second at most."""
        alive = now_ns - self._frame_ns < self.FRAME_NS
        if not self._ready:
            if self._begun_ns < 0:
                self._begun_ns = now_ns
            settled = all(machine.port_states[name][0] is not None for name in self._ports)
            if not alive or not (settled or now_ns - self._begun_ns > self.PORTS_NS):
                return
            self._ready = True
            self._status, self._status_ns = self._told(machine, now_ns), now_ns
            self._notifier.ready(self._status)
        if self._every_ns and alive and now_ns - self._fed_ns >= self._every_ns:
            self._fed_ns = now_ns
            self._notifier.watchdog()
        if now_ns - self._status_ns >= self.STATUS_NS:
            self._status_ns = now_ns
            status = self._told(machine, now_ns)
            if status != self._status:
                self._status = status
                self._notifier.status(status)

    def _told(self, machine: Machine, now_ns: int) -> str:
        told = [f"{machine.mode.name}: {machine.why}"]
        waiting = [what for what in machine.waiting_for(now_ns) if what not in machine.why]
        if waiting:
            rests = machine.mode in (Mode.INIT, Mode.STANDBY, Mode.FAULT)
            told.append(f"{'arming waits' if rests else 'it waits'}: {'; '.join(waiting)}")
        closed = [name for name, port in self._ports.items() if port.trouble]
        if closed:
            told.append(f"tried again: {', '.join(closed)}")
        return "; ".join(told)
