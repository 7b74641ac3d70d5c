"""Command ``vehicled setup``: measure a vehicle step by step, and write what is found into its
profile."""

import re
import sys
import termios
import time
import tomllib
from argparse import Namespace
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import anyio

from vehicled.core import shipped
from vehicled.core.errors import SetupError
from vehicled.core.ports import TakesSecret
from vehicled.live.setup.bench import SetupBench
from vehicled.live.setup.checklist import checklist
from vehicled.live.setup.devices import Devices
from vehicled.live.setup.session import Ended, StepSession
from vehicled.live.setup.steps import (
    BY_NAME,
    STEPS,
    Measured,
    SetupStep,
    devices_of,
    jog_overrides,
    missing,
    toml_values,
)
from vehicled.live.teleop.terminal import Terminal
from vehicled.offline.twin.calibration.profile_write import with_values
from vehicled.profile import Loaded, load, parse, profile_files
from vehicled.profile.toml_text import value_text
from vehicled.run.argument_types import PROFILE, NameType
from vehicled.run.command_line import CommandParser
from vehicled.run.output import write_output
from vehicled.run.secret import read_secret
from vehicled.run.terminal import print_table
from vehicled.runtime.loop import new_event_loop
from vehicled.runtime.ports import AddressError, make_port
from vehicled.runtime.ports.sharing import transport_of
from vehicled.runtime.wires import WireTransport

INTERRUPTED = 130
DONE_MARK = "# Set up: "
"""Beginning of the line of a profile that names the steps done, with their dates."""


def _step_names(text: str, before: Namespace) -> list[str]:
    return list(BY_NAME)


def declare_setup(parser: CommandParser) -> None:
    """Measure a vehicle step by step at its own devices, and write what is found into its profile:
    axes, signs, scales, delays.

    You lift, turn and push the vehicle; in steps that drive it moves while you hold a key and no
    longer. Every step can be skipped, repeated or ended. See docs/first_vehicle.md.
    """
    parser.describe(
        examples=(
            "vehicled setup --profile my_car              all steps, then a checklist",
            "vehicled setup --profile my_car push circle  these steps only",
            "vehicled setup --list                        the steps",
        ),
        epilog="Exit status: 0 the steps are done; 1 some were skipped, ended or found no "
        "answer; 2 invalid arguments or profile; "
        "130 interrupted.",
    )
    parser.add_argument(
        "steps",
        nargs="*",
        type=NameType(_step_names),
        metavar="STEP",
        help="steps to do (default: all)",
    )
    parser.add_argument(
        "--profile", type=PROFILE, metavar="P", help="your own profile, which is changed"
    )
    parser.add_argument("--list", action="store_true", help="list the steps")
    parser.set_defaults(run=setup)


def setup(arguments: Namespace) -> int:
    """Run the steps. Raises SetupError and ProfileError."""
    for name in arguments.steps:
        if name not in BY_NAME:
            raise SetupError(f'no step "{name}"; there are {", ".join(BY_NAME)}')
    if arguments.list:
        print_table(
            "steps",
            ["step", "what is found", "motion"],
            [[step.name, step.title, step.motion] for step in STEPS],
        )
        return 0
    path = _own_profile(arguments.profile)
    try:
        terminal = Terminal(sys.stdin.fileno(), sys.stdout.fileno())
    except (OSError, ValueError, termios.error):
        raise SetupError("the set-up asks its user: start it in a terminal") from None
    loaded = load(str(path))
    steps = [BY_NAME[name] for name in arguments.steps] or list(STEPS)
    if not devices_of(loaded.profile):
        raise SetupError(
            f"{path}: no device has a port; write them with: vehicled new profile NAME --probe"
        )
    for finding in loaded.errors:
        print(f"note: {finding}")
    finished = 0
    with terminal:
        for step in steps:
            if why := missing(step, load(str(path)).profile):
                terminal.say(f"\n{step.name}: left out, because {why}")
                finished += 1
                continue
            session, interrupted = _run(step, path, terminal)
            if interrupted:
                terminal.restore()
                print(
                    f"vehicled: set-up ended by {interrupted}; the actuator is at neutral",
                    file=sys.stderr,
                )
                return INTERRUPTED
            if session.ended is Ended.WRITE and session.measured is not None:
                finished += _write(path, step, session.measured, terminal)
            elif session.ended is Ended.QUIT:
                break
    _show_checklist(load(str(path)), path)
    return 0 if finished == len(steps) else 1


def _own_profile(name: str | None) -> Path:
    """Return the file of the user's profile, which the set-up may change."""
    if name is None:
        raise SetupError(
            "name your own profile: --profile my_car; begin one with: vehicled new profile "
            "my_car --probe"
        )
    if find_spec("tomlkit") is None:
        raise SetupError("writing into a profile needs tomlkit: pip install 'vehicled[calibrate]'")
    path = profile_files.find(name)
    if path.resolve().is_relative_to(shipped.folder("profiles").resolve()):
        raise SetupError(
            f"{name} comes with vehicled and is not changed: vehicled new profile my_car "
            f"--base {name}"
        )
    return path


def _run(step: SetupStep, path: Path, terminal: Terminal) -> tuple[StepSession, str]:
    """Run one step with the profile as it is now; return its session, and what interrupted it."""
    loaded = load(str(path), jog_overrides(load(str(path)).profile) if step.name == "servo" else ())
    profile = loaded.profile
    session = StepSession(step, profile, time.strftime("%Y-%m-%d"))
    devices = Devices(profile, session.on_message)
    session.bind(devices)
    for name, device in devices.all.items():
        if isinstance(device, TakesSecret) and (ref := device.secret_ref) is not None:
            device.set_secret(
                read_secret(
                    "password", key=f"devices.{name}", file=ref.file, credential=ref.credential
                )[0]
            )
    try:
        ports = {
            name: make_port(name, table.port, transport_of(table))
            for name, table in devices_of(profile).items()
        }
    except AddressError as error:
        raise SetupError(f"{path}: {error}") from None
    bench = SetupBench(session, devices, WireTransport(ports), terminal)
    anyio.run(bench.run, backend_options={"loop_factory": new_event_loop})
    return session, bench.interrupted


def _write(path: Path, step: SetupStep, measured: Measured, terminal: Terminal) -> bool:
    """Write what was measured into the profile, unless the profile would be refused. Return True if
    it is written."""
    if measured.wrong and not measured.values:
        terminal.say("nothing was written; put it right, then do the step again")
        return False
    day = time.strftime("%Y-%m-%d")
    text = with_done(
        with_measured(profile_files.read(path), toml_values(measured, day)), step.name, day
    )
    after = parse(text, str(path), beside=path.parent)
    write_output(path, text)
    terminal.say(f"written: {path}")
    for finding in after.errors:
        terminal.say(f"note: {finding}")
    return True


def with_measured(source: str, values: Mapping[str, str]) -> str:
    """Return the text of a profile with measured values. A driver that is a name alone becomes a
    table with its parameters."""
    devices = tomllib.loads(source).get("devices", {})
    plain: dict[str, str] = {}
    tables: dict[str, dict[str, str]] = {}
    for key, text in values.items():
        parts = key.split(".")
        named = (
            devices.get(parts[1], {}).get("driver")
            if parts[0] == "devices" and len(parts) == 5
            else None
        )
        if isinstance(named, str):
            tables.setdefault(".".join(parts[:3]), {})[parts[4]] = text
        else:
            plain[key] = text
    for key, rows in tables.items():
        name = devices[key.split(".")[1]]["driver"]
        inside = ", ".join(f"{row} = {text.partition('  #')[0]}" for row, text in rows.items())
        notes = dict.fromkeys(text.partition("  # ")[2] for text in rows.values())
        plain[key] = (
            f"{{ name = {value_text(name)}, {name} = {{ {inside} }} }}  # {'; '.join(notes)}"
        )
    return with_values(source, plain) if plain else source


def with_done(source: str, step: str, day: str) -> str:
    """Return the text of a profile with a step in the line that names those done."""
    done = done_steps(source) | {step: day}
    line = DONE_MARK + ", ".join(f"{name} {when}" for name, when in done.items()) + "\n"
    if DONE_MARK in source:
        return re.sub(rf"^{DONE_MARK}.*\n", line, source, count=1, flags=re.MULTILINE)
    return line + source


def done_steps(source: str) -> dict[str, str]:
    """Return the steps that the text of a profile names as done, with their dates."""
    found = re.search(rf"^{DONE_MARK}(.*)$", source, re.MULTILINE)
    return dict(part.split(" ", 1) for part in found[1].split(", ") if " " in part) if found else {}


def _show_checklist(loaded: Loaded, path: Path) -> None:
    """Print the checklist, ask what only the owner can see, and name the commands of the first
    lap."""
    print("\nBefore the first drive")
    for item in checklist(loaded.profile, loaded.findings, done_steps(profile_files.read(path))):
        if item.state != "ask":
            print(f"  {'ok  ' if item.state == 'ok' else 'LOOK'}  {item.text}")
            continue
        try:
            answer = input(f"  ?     {item.text} (y, n): ").strip().lower()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if not answer.startswith("y"):
            print(
                "        then do not drive yet; vehicled setup --profile P ports shows this "
                "list again"
            )
            return
    name = path.stem if path.parent == profile_files.folders()[0] else str(path)
    print("The first lap, in two terminals:")
    print(
        f"  vehicled run --profile {name}        and in the other: vehicled speed 1, then "
        "vehicled arm, vehicled mode auto"
    )
    if not any("Heading" in table.messages for table in loaded.profile.devices.values()):
        print(
            "  no device measures the heading: vehicled mode align first, with 5 m of free way "
            "ahead (docs/heading.md)"
        )
