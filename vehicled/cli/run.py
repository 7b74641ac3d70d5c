"""``vehicled run``: the daemon on the wall clock, on the vehicle's own ports or against a simulator, until it is stopped."""

import sys
from argparse import Namespace
from collections.abc import Mapping
from contextlib import nullcontext

from vehicled.app import SetupError
from vehicled.cli.plan import Plan
from vehicled.cli.session import drive
from vehicled.machine import Machine
from vehicled.messages import ActuatorCommand, Message, OperatorCommand
from vehicled.profile.schema import Profile
from vehicled.runtime.connection import connect
from vehicled.runtime.events import TAPS as EVENT_TAPS
from vehicled.runtime.events import EventLog
from vehicled.runtime.ports import AddressError, Port, make_port
from vehicled.runtime.sd_notify import Notifier, watchdog_interval_ns


def serve(arguments: Namespace) -> int:
    """Run the daemon until it is stopped; events as JSON lines for the system's journal.

    On its own ports it runs whether they are there or not: what is missing is told once and tried again, and the vehicle cannot be
    armed before. After a drive it stands disarmed and goes on.
    """
    plan = Plan.of(arguments, clock="wall", link="messages" if arguments.connect else "wires", seed=0)
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
            on_ready=lambda: notifier.ready("the machine runs"),
        )
    notifier.stopping(done.ending.why)
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
    """Tells the service manager that actuation runs, and what the vehicle does or waits for."""

    STATUS_NS = 1_000_000_000

    def __init__(self, notifier: Notifier, ports: Mapping[str, Port]) -> None:
        """``ports`` of its own, by device."""
        self._notifier = notifier
        self._ports = ports
        # Twice as often as asked for, as sd_watchdog_enabled(3) advises.
        self._every_ns = watchdog_interval_ns() // 2
        self._fed_ns = 0
        self._status_ns = 0
        self._status = ""

    def record(self, message: Message, log_time_ns: int) -> None:
        """A command went to the actuator."""
        if self._every_ns and log_time_ns - self._fed_ns >= self._every_ns:
            self._fed_ns = log_time_ns
            self._notifier.watchdog()

    def show(self, machine: Machine, now_ns: int) -> None:
        """Pass the reason of the present mode on when it has changed, once a second at most."""
        if now_ns - self._status_ns >= self.STATUS_NS:
            self._status_ns = now_ns
            closed = [name for name, port in self._ports.items() if port.trouble]
            status = f"{machine.mode.name}: {machine.why}" + (f"; tried again: {', '.join(closed)}" if closed else "")
            if status != self._status:
                self._status = status
                self._notifier.status(status)
