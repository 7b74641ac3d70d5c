"""Command ``vehicled doctor``: check the vehicle's computer, ports and real-time performance; name
remedies."""

import json
import platform
import sys
import time
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct

from vehicled import __version__
from vehicled.core.errors import SetupError
from vehicled.profile import Loaded, load
from vehicled.profile.registry import names, resolve
from vehicled.run.argument_types import LOG, PROFILE, TEXT, between
from vehicled.run.command_line import CommandParser
from vehicled.run.output import write_output
from vehicled.run.terminal import print_table
from vehicled.runtime.board import facts
from vehicled.runtime.board.claim import BoardCalibration, Shortfall, claim, judge
from vehicled.runtime.board.measure import BoardMeasurements, TimeSpread, measure
from vehicled.runtime.board.pps import PulseSource, sources
from vehicled.runtime.board.setup_fault import CALIBRATION, folder, setup_fault
from vehicled.runtime.loop import new_event_loop
from vehicled.runtime.ports.discover import (
    CanInterface,
    DiscoveredPorts,
    I2cAdapter,
    SerialDevice,
    discover,
    udev_rule,
)
from vehicled.runtime.ports.probe import Answer, probe
from vehicled.runtime.ports.refclock import attached_units
from vehicled.runtime.realtime import RealtimeReport, RealtimeSetting

SPEAKERS = {
    "nmea": 'sentences of a GNSS receiver (driver ublox, protocol = "nmea", configure = false)',
    "rtcm": "RTCM corrections (driver rtcm)",
    "spartn": 'SPARTN corrections (driver rtcm, protocol = "spartn")',
}
"""Descriptions of the formats that are not named like a driver."""


CABLE_TIMEOUT_S = 60.0
_LONGEST_S = 450.0
_DURATION = between(1.0, _LONGEST_S, f"expected a number of seconds from 1 to {_LONGEST_S:g}")
_SECONDS = between(0.0, 600.0, "expected a number of seconds from 0 to 600")


def declare_doctor(parser: CommandParser) -> None:
    """List the ports of this computer and their devices, check its settings, and measure the task
    and serial rates that it can sustain. See docs/service.md.
    """
    parser.describe(
        epilog="Exit status: 0 no problem; 1 a probed port was not understood, a cable does not "
        "work in both directions, or the "
        "profile needs more than this board sustains."
    )
    parser.add_argument(
        "--probe",
        action="store_true",
        help="listen on every serial port to identify the device; sends nothing",
    )
    parser.add_argument(
        "--cable",
        type=TEXT,
        action="append",
        metavar="ADDRESS",
        help="instead: check the cable at this port (serial:/dev/ttyUSB0, can:can0) together "
        "with the same command at its other "
        "end, for at most a minute; it sends, so pull it off the device; repeatable",
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        metavar="P",
        help="check if this board sustains the rates of a profile",
    )
    parser.add_argument(
        "--seconds",
        type=_SECONDS,
        default=3.0,
        metavar="S",
        help="length of the measurement at each priority; 0: none (default 3)",
    )
    parser.add_argument(
        "--save",
        action="store_true",
        help="store the calibration in /etc/vehicled, where the arming check reads it",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="write a report to attach to a bug report; contains no secrets",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--measure-board",
        metavar="FILE",
        help="instead: drive the profile in the simulator in real time and write the task times "
        "of this computer, for "
        "vehicled sim --board; see docs/computers.md",
    )
    parser.add_argument(
        "--duration",
        type=_DURATION,
        metavar="S",
        help=f"with --measure-board: length of the recording (default 30, at most {_LONGEST_S:g})",
    )
    parser.add_argument(
        "--log",
        type=LOG,
        metavar="RUN",
        help="with --measure-board: use the log of this run on a vehicle, and do not drive",
    )
    parser.set_defaults(run=doctor)


NO_PORTS = "no serial port, no CAN interface and no I2C bus was found"


class ComputerReport(Struct, frozen=True, kw_only=True):
    """Complete report of the computer. Contains no secrets: no profile text, no environment, no
    host or user name."""

    vehicled: str
    python: str
    system: str
    board: str
    model: str
    when: str
    state: list[RealtimeSetting]
    measured: BoardMeasurements | None
    claim: BoardCalibration | None
    profile: str
    profile_digest: str
    arming: str
    """Reason why arming the profile would be refused on this board with its stored calibration;
    empty if it would not."""
    shortfalls: list[Shortfall]
    serial: tuple[SerialDevice, ...]
    can: tuple[CanInterface, ...]
    i2c: tuple[I2cAdapter, ...]
    received: dict[str, str]
    """Messages understood on the probed ports, by address."""
    pulses: list[PulseSource]
    """Pulses per second, and how far this computer's clock is from them."""
    refclocks: dict[int, int]
    """Units of chrony's and ntpd's reference clocks in shared memory, with the processes that have
    attached each."""


def doctor(arguments: Namespace) -> int:
    """Print the report. Status 1 if a probed port was not understood, or if the profile needs more
    than this board sustains."""
    if arguments.measure_board:
        # Imported here, because it drives.
        from vehicled.cli.board import measure_board

        return measure_board(arguments)
    if arguments.cable:
        return _check_cables(arguments.cable)
    if arguments.duration is not None or arguments.log:
        raise SetupError(
            "--duration and --log belong to --measure-board FILE: add it, or leave them out"
        )
    loaded = load(arguments.profile) if arguments.profile else None
    if arguments.save and not arguments.seconds:
        raise SetupError("--save needs a measurement: leave out --seconds 0")
    found = discover()
    answers = {device.url: _probe(device) for device in found.serial} if arguments.probe else {}
    report = _report(
        arguments,
        loaded,
        found,
        {url: _text_of(answer) for url, answer in answers.items()},
    )
    if arguments.json:
        print(json.dumps(msgspec.to_builtins(report), indent=2))
    else:
        _show_ports(found, report.received, probed=arguments.probe)
        print("\n".join(_text(report)))
    if arguments.report:
        write_output(Path(arguments.report), "\n".join([*_ports_text(report), *_text(report), ""]))
    if arguments.save:
        _save(report)
    understood = all(answer.driver for answer in answers.values())
    return 0 if understood and not any(each.refuses for each in _counted(report, loaded)) else 1


def _check_cables(addresses: list[str]) -> int:
    """Check cables from this end and print what was found. Status 1 unless each works in both
    directions."""
    from vehicled.runtime.ports import AddressError, make_port
    from vehicled.runtime.ports.cable import CableCheck

    checks = {}
    for address in addresses:
        frames = address.startswith("can:")
        try:
            checks[address] = CableCheck(
                make_port(address, address, "frames" if frames else "stream"), frames=frames
            )
        except AddressError as error:
            raise SetupError(f"--cable {error}") from None
    print(
        f"waiting for the same command at the other end, {CABLE_TIMEOUT_S:.0f} s at most",
        file=sys.stderr,
        flush=True,
    )

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for check in checks.values():
                group.start_soon(check.run, CABLE_TIMEOUT_S)

    anyio.run(run, backend_options={"loop_factory": new_event_loop})
    for address, check in checks.items():
        print(f"{'ok' if check.works else 'NO':<3}{address}: {check.verdict()}")
    return 0 if all(check.works for check in checks.values()) else 1


def _report(
    arguments: Namespace,
    loaded: Loaded | None,
    ports: DiscoveredPorts,
    received: dict[str, str],
) -> ComputerReport:
    place = facts.existing(Path(loaded.profile.log.folder if loaded else "~").expanduser())
    measured = (
        measure(place, arguments.seconds, fifo=facts.may_use_fifo()) if arguments.seconds else None
    )
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    board = facts.identity()
    found = claim(measured, board=board, kernel=platform.release(), when=when) if measured else None
    return ComputerReport(
        vehicled=__version__ + (" (compiled)" if find_spec("vehicled__mypyc") else ""),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        board=board,
        model=facts.model(),
        when=when,
        state=facts.state(place),
        measured=measured,
        claim=found,
        profile=loaded.profile.name if loaded else "",
        profile_digest=loaded.digest if loaded else "",
        arming=setup_fault(loaded) if loaded else "",
        shortfalls=judge(loaded.profile, found) if loaded and found else [],
        serial=ports.serial,
        can=ports.can,
        i2c=ports.i2c,
        received=received,
        pulses=sources(),
        refclocks=attached_units(),
    )


def _counted(report: ComputerReport, loaded: Loaded | None) -> list[Shortfall]:
    """Return the shortfalls that the profile does not accept."""
    return [] if loaded is None or loaded.profile.host.allow_shortfall else report.shortfalls


def _text(report: ComputerReport) -> list[str]:
    lines = [
        f"vehicled {report.vehicled}, Python {report.python}, {report.system}, {report.when}",
        f"board: {report.model}, {report.board or 'without a name of its own'}",
        RealtimeReport(tuple(report.state)).to_text(),
        "",
    ]
    lines += [f"{each.device} ({each.name or 'no name'}): {each.text}" for each in report.pulses]
    lines += [
        f"reference clock in shared memory, unit {unit}: attached by {count}"
        for unit, count in report.refclocks.items()
    ]
    if report.measured is not None:
        lines += [*_measured_text(report.measured), ""]
    if report.claim is not None:
        priority = (
            "at real-time priority"
            if report.claim.fifo
            else "WITHOUT real-time priority: run as root to measure with it"
        )
        lines += [
            (
                f"sustains: tasks up to {report.claim.task_hz} Hz, serial devices up to "
                f"{report.claim.serial_hz} Hz, {priority}"
            )
        ]
    for shortfall in report.shortfalls:
        lines.append(f"{'NO' if shortfall.refuses else '--'} {shortfall}")
    if report.profile and report.claim is not None:
        refusing = any(each.refuses for each in report.shortfalls)
        verdict = (
            "needs more than this board sustains"
            if refusing
            else "needs no more than this board sustains"
        )
        lines.append(f"profile {report.profile} ({report.profile_digest[:16]}) {verdict}")
    if report.arming:
        lines.append(f"NO arming would be refused here: {report.arming}")
    return lines


def _measured_text(measured: BoardMeasurements) -> list[str]:
    rows = [
        (f"wake-up lateness, {late.rate_hz} Hz, {'fifo' if late.fifo else 'ordinary'}", late.spread)
        for late in measured.lateness
    ]
    rows += [
        (name, spread)
        for name, spread in (
            ("serial round trip (pty)", measured.round_trip),
            ("write of 64 KiB and fsync", measured.disk),
        )
        if spread
    ]
    lines = [f"{'measured':<36}{'n':>7}{'p50':>12}{'p99':>12}{'max':>12}"]
    lines += [
        f"{name:<36}{spread.n:>7}" + "".join(f"{_duration(ns):>12}" for ns in _points(spread))
        for name, spread in rows
    ]
    return lines + [f"not measured: {trouble}" for trouble in measured.troubles]


def _points(spread: TimeSpread) -> tuple[int, int, int]:
    return spread.p50_ns, spread.p99_ns, spread.max_ns


def _duration(ns: int) -> str:
    return f"{ns / 1e6:.1f} ms" if ns >= 10_000_000 else f"{ns / 1e3:.0f} us"


def _save(report: ComputerReport) -> None:
    if report.claim is None:
        raise SetupError(
            "there is no calibration to store: "
            f"{'; '.join(report.measured.troubles if report.measured else [])}"
        )
    file = folder() / CALIBRATION
    write_output(file, json.dumps(msgspec.to_builtins(report.claim), indent=1) + "\n")
    print(
        (
            f"stored in {file}: profiles that need more cannot be armed until it is measured again "
            "or removed"
        ),
        file=sys.stderr,
    )


def _ports_text(report: ComputerReport) -> list[str]:
    lines = [
        (
            f"{device.url}: {_who(device)}, {_access(device)} {report.received.get(device.url, '')}"
        ).rstrip()
        for device in report.serial
    ]
    lines += [f"{each.url}: {each.driver}, {'up' if each.up else 'down'}" for each in report.can]
    lines += [f"{each.url}: {each.name}, {_i2c_access(each)}" for each in report.i2c]
    return lines or [NO_PORTS]


def _show_ports(found: DiscoveredPorts, received: dict[str, str], *, probed: bool) -> None:
    rows = [
        [device.url, _who(device), _access(device), received.get(device.url, "")]
        for device in found.serial
    ]
    rows += [
        [each.url, each.driver, "up" if each.up else f"down: ip link set {each.name} up", ""]
        for each in found.can
    ]
    rows += [[each.url, each.name, _i2c_access(each), ""] for each in found.i2c]
    if rows:
        print_table(
            "ports",
            ["address for a profile", "device", "state", "received" if probed else ""],
            rows,
        )
    else:
        print(f"{NO_PORTS}\n")
    rules = [
        rule
        for device in found.serial
        if not device.by_id and (rule := udev_rule(device, f"vehicled-{device.product_id}"))
    ]
    if rules:
        print(
            "ports without a stable name; add these rules to "
            "/etc/udev/rules.d/70-vehicled-names.rules and choose the link names:"
        )
        print("\n".join(f"  {rule}" for rule in rules) + "\n")


def _probe(device: SerialDevice) -> Answer:
    async def listen() -> Answer:
        return await probe(
            device.url, {name: resolve("decoder", name) for name in names("decoder")}
        )

    return anyio.run(listen, backend_options={"loop_factory": new_event_loop})


def _who(device: SerialDevice) -> str:
    usb = f"{device.vendor_id}:{device.product_id}" if device.vendor_id else ""
    return (
        " ".join(filter(None, [device.manufacturer, device.product, usb, device.driver]))
        or "unknown"
    )


def _i2c_access(bus: I2cAdapter) -> str:
    cure = "no access: sudo usermod -aG i2c $USER, then log in again"
    return "ready ('i2cdetect' shows the addresses)" if bus.accessible else cure


def _access(device: SerialDevice) -> str:
    if not device.accessible:
        return "no access: sudo usermod -aG dialout $USER, then log in again"
    if device.latency_ms is not None and device.latency_ms > 1:
        return (
            f"latency timer {device.latency_ms} ms: run vehicled service install, which adds "
            "the udev rule"
        )
    return "ready"


def _text_of(answer: Answer) -> str:
    if answer.trouble:
        return answer.trouble
    if not answer.bytes:
        return "silent at every baud rate (some devices only answer requests)"
    if not answer.driver:
        return f"{answer.bytes} bytes at {answer.baud} baud not understood by any decoder"
    kinds = ", ".join(f"{kind} {rate:.1f} Hz" for kind, rate in answer.messages[:5])
    speaker = SPEAKERS.get(answer.driver, answer.driver)
    return (
        f"{speaker} at {answer.baud} baud: {kinds}; gap between arrivals "
        f"{answer.gap_p99_ms:.1f} ms (99 %)"
    )
