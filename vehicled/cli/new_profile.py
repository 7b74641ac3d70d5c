"""Command ``vehicled new profile``: the profile of a vehicle, from what its owner, its files and
its devices say."""

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct, structs

from vehicled.core.errors import SetupError
from vehicled.profile import load, parse, profile_files
from vehicled.profile.drafting import FoundDevice, draft, nearest_base
from vehicled.profile.registry import (
    DRIVERS,
    LISTENERS,
    facts_of_answers,
    names,
    questions,
    resolve,
)
from vehicled.profile.vesc_files import RANGES, WHOLE, VehicleFacts, joined, read_vesc_file
from vehicled.run.argument_types import FILE, PROFILE, TEXT
from vehicled.run.command_line import CommandParser
from vehicled.run.output import write_output
from vehicled.runtime.loop import new_event_loop
from vehicled.runtime.ports import AddressError, make_port
from vehicled.runtime.ports.discover import SerialDevice, discover, udev_rule
from vehicled.runtime.ports.probe import ask, probe

QUESTIONS = (
    ("wheelbase_m", "--wheelbase", "distance of the axles, m"),
    ("mass_kg", "--mass", "mass, ready to drive, kg"),
    ("wheel_radius_m", "--wheel-radius", "radius of the driven wheels, m"),
    ("gear", "--gear", "turns of the motor for one turn of the wheels"),
    ("motor_kv", "--kv", "KV of the motor, revolutions per minute and volt"),
    ("cells", "--cells", "lithium cells in series"),
    ("pole_pairs", "--pole-pairs", "pole pairs of the motor"),
)
"""Facts that are asked for: field, option, and meaning."""
ASKED = 6
"""Questions on a terminal; the pole pairs come from the motor controller, or stay those of the
base."""
NMEA_NOTE = (
    ', NMEA: as a u-blox is delivered; a receiver of another maker needs protocol = "nmea" and '
    "configure = false"
)
RULES_FILE = "/etc/udev/rules.d/70-vehicled-names.rules"


def declare_new_profile(parser: CommandParser) -> None:
    """Write a profile of about 40 lines: the nearest shipped vehicle as its base, and what is known
    of your own.

    On a terminal it asks for what no option gives; Enter keeps the value of the base. --probe
    listens on every serial port and asks silent ones whether they are a VESC, whose configuration
    is read; nothing moves.
    """
    parser.describe(
        examples=(
            "vehicled new profile my_car --probe     ask, and look for devices",
            "vehicled new profile my_car --vesc vesc.yaml --no-questions",
            "vehicled new profile my_car --device 'n100@serial:/dev/imu?baud=921600'",
        ),
        epilog=(
            "Exit status: 0 written; 2 invalid arguments or files, and nothing is written. See "
            "profiles/README.md."
        ),
    )
    parser.add_argument("name", type=TEXT, metavar="NAME", help="lower-case name of the profile")
    parser.add_argument(
        "--base",
        type=PROFILE,
        metavar="P",
        help="profile that it differs from (default: the nearest)",
    )
    for _, option, meaning in QUESTIONS:
        parser.add_argument(option, type=float, metavar="N", help=meaning)
    parser.add_argument(
        "--vesc", type=FILE, action="append", default=[], metavar="FILE",
        help="vesc.yaml of F1TENTH, or motor configuration of VESC Tool (XML); repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--probe", action="store_true", help="look for devices on all serial ports of this computer"
    )
    parser.add_argument(
        "--port",
        type=TEXT,
        action="append",
        default=[],
        metavar="URL",
        help="look for a device here; repeatable",
    )
    parser.add_argument(
        "--device",
        type=TEXT,
        action="append",
        default=[],
        metavar="DRIVER@URL",
        help="device that is there; repeatable",
    )
    parser.add_argument(
        "--without",
        type=TEXT,
        action="append",
        default=[],
        metavar="KEY",
        help="leave this out of the base; repeatable",
    )
    parser.add_argument(
        "--no-questions", action="store_true", help="ask nothing, also on a terminal"
    )
    parser.add_argument(
        "--folder", metavar="DIR", help="folder of the file (default: ~/.config/vehicled/profiles)"
    )
    parser.set_defaults(run=new_profile)


class DevicesOnPorts(Struct):
    """Answers at the ports of a vehicle."""

    devices: list[FoundDevice]
    facts: list[tuple[str, VehicleFacts]]
    lines: list[str]
    """Result at each port, for the user."""


def new_profile(arguments: Namespace) -> int:
    """Ask, look, write. Raises SetupError and ProfileError."""
    name = arguments.name.removesuffix(".toml")
    target = _target(name, arguments.folder)
    given = {}
    for field, option, _ in QUESTIONS:
        if (value := _option(arguments, option)) is not None:
            given[field] = _checked(field, value, option)
    sources = [("the options", VehicleFacts(**given))]
    remarks: list[str] = []
    for file in arguments.vesc:
        read = read_vesc_file(file)
        sources.append((Path(file).name, read.facts))
        remarks += read.remarks
    answers = _listen_on_ports(arguments)
    for line in answers.lines:
        print(line)
    sources += answers.facts
    devices = [*(_device(text) for text in arguments.device), *answers.devices]
    facts, contradictions = joined(sources)
    base = arguments.base or nearest_base(facts, devices)
    if sys.stdin.isatty() and not arguments.no_questions:
        base, facts = _asked(base, facts, arguments.base is None, _line)
    made = draft(name, base, facts, devices, arguments.without)
    parse(made.text, str(target), beside=target.parent)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot write to {target.parent}: {error.strerror}") from None
    write_output(target, made.text)
    print(f"written: {target}, {len(made.text.splitlines())} lines on the base {base}")
    for remark in [*remarks, *contradictions, *made.remarks]:
        print(f"note: {remark}")
    word = name if arguments.folder is None else str(target)
    print(
        f"next: vehicled check {word}; vehicled sim --profile {word}; vehicled profiles --show "
        f"{word}"
    )
    return 0


def _target(name: str, folder: str | None) -> Path:
    if not name.isascii() or not name.replace("_", "a").isalnum() or name != name.lower():
        raise SetupError(
            f'"{name}" cannot be the name of a profile: use lower-case letters, digits and '
            "underscores"
        )
    target = (Path(folder) if folder is not None else profile_files.folders()[0]) / f"{name}.toml"
    if target.exists():
        raise SetupError(
            f"{target}: exists already and is not overwritten; choose another name, or edit it"
        )
    return target


def _option(arguments: Namespace, option: str) -> float | None:
    value: float | None = getattr(arguments, option.removeprefix("--").replace("-", "_"))
    return value


def _checked(field: str, value: float, where: str) -> Any:
    low, high = RANGES[field]
    if not low <= value <= high:
        raise SetupError(f"{where} {value:g}: cannot be; it is from {low:g} to {high:g}")
    if field in WHOLE and value != int(value):
        raise SetupError(f"{where} {value:g}: is a whole number")
    return int(value) if field in WHOLE else value


def _device(text: str) -> FoundDevice:
    driver, at, url = text.partition("@")
    driver = driver.rpartition("=")[2]
    if not at or not url:
        raise SetupError(
            f"--device {text}: write DRIVER@URL, such as vectornav@serial:/dev/ttyUSB0?baud=921600"
        )
    if driver not in DRIVERS:
        raise SetupError(
            f"--device {text}: no driver {driver}; there are {', '.join(sorted(DRIVERS))}"
        )
    try:
        make_port("new", url)
    except AddressError as error:
        raise SetupError(f"--device {text}: {error}") from None
    return FoundDevice(driver, url)


def _asked(
    base: str, facts: VehicleFacts, choose: bool, answer: Callable[[str], str]
) -> tuple[str, VehicleFacts]:
    """Ask for what is not known. Enter keeps what the base has."""
    if choose:
        base = answer(f"base, the vehicle that it is like [{base}]: ").strip() or base
    vehicle = load(base).profile.vehicle
    kept = {
        "wheelbase_m": vehicle.axle_distance_m,
        "mass_kg": vehicle.mass_kg,
        "wheel_radius_m": vehicle.drive.wheel_radius_m,
    }
    for field, _, meaning in QUESTIONS[:ASKED]:
        while getattr(facts, field) is None:
            default = f" [{kept[field]:g}]" if field in kept else " [Enter: not known]"
            text = answer(f"{meaning}{default}: ").strip()
            if not text:
                break
            try:
                facts = structs.replace(
                    facts, **{field: _checked(field, float(text.replace(",", ".")), meaning)}
                )
            except (ValueError, SetupError) as error:
                print(error if isinstance(error, SetupError) else f'"{text}" is no number')
    return base, facts


def _line(prompt: str) -> str:
    try:
        return input(prompt)
    except EOFError:  # Ctrl-D: nothing more is known
        print()
        return ""


def _listen_on_ports(arguments: Namespace) -> DevicesOnPorts:
    """Listen on the ports, and ask the silent ones."""
    answers = DevicesOnPorts([], [], [])
    found: Sequence[SerialDevice] = discover().serial if arguments.probe else ()
    for device in found:
        if not device.accessible:
            answers.lines.append(
                f"{device.url}: no access: sudo usermod -aG dialout $USER, then log in again"
            )
            continue
        driver = _at(device.url, answers)
        if driver and not device.by_id and (rule := udev_rule(device, driver)):
            answers.lines.append(
                "  its name depends on the socket; for a name of its own write into "
                f"{RULES_FILE}: {rule}"
            )
    for url in arguments.port:
        if not url.startswith("serial:"):
            raise SetupError(
                f"--port {url}: only serial ports are looked at; name the device: --device "
                f"DRIVER@{url}"
            )
        try:
            make_port("asked", url)
        except AddressError as error:
            raise SetupError(f"--port {url}: {error}") from None
        _at(url.partition("?")[0], answers)
    if arguments.probe and not found:
        answers.lines.append(
            "no serial port on this computer: plug the devices in, or name them: --device "
            "DRIVER@URL"
        )
    return answers


def _at(url: str, answers: DevicesOnPorts) -> str:
    """Add what is found at one port. Return the name of its driver; empty if nothing was
    understood."""

    async def listen() -> Any:
        answer = await probe(url, {name: resolve("decoder", name) for name in names("decoder")})
        if answer.driver or answer.bytes or answer.trouble:
            return answer, {}
        for name, question in questions().items():
            if content := await ask(url, question, resolve("decoder", name)):
                return name, content
        return answer, {}

    answer, content = anyio.run(listen, backend_options={"loop_factory": new_event_loop})
    if isinstance(answer, str):
        driver = LISTENERS[answer][0]
        answers.devices.append(FoundDevice(driver, f"{url}?baud=115200"))
        answers.lines.append(f"{url}: {driver} answers")
        facts, lines = facts_of_answers(answer, content)
        answers.facts.append((f"the controller at {url}", _facts_of(facts)))
        answers.lines += [f"  {line}" for line in lines]
        return driver
    if answer.trouble:
        answers.lines.append(f"{url}: {answer.trouble}")
    elif not answer.driver:
        what = (
            f"{answer.bytes} bytes that no driver understands"
            if answer.bytes
            else "silent, also when asked"
        )
        answers.lines.append(f"{url}: {what}; name the device: --device DRIVER@URL")
    else:
        driver = LISTENERS[answer.driver][0]
        answers.lines.append(
            f"{url}: {driver} at {answer.baud} baud{NMEA_NOTE * (answer.driver == 'nmea')}"
        )
        answers.devices.append(FoundDevice(driver, f"{url}?baud={answer.baud}"))
        return driver
    return ""


def _facts_of(values: Mapping[str, float]) -> VehicleFacts:
    """Return what a controller says, without values that cannot be, which are those of no
    set-up."""
    known: dict[str, Any] = {
        key: int(value) if key in WHOLE else value
        for key, value in values.items()
        if RANGES[key][0] <= value <= RANGES[key][1]
    }
    return VehicleFacts(**known)
