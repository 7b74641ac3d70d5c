"""Command ``vehicled setup``: measure a vehicle step by step, and write what is found into its
profile."""

import re
import sys
import termios
import time
import tomllib
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from difflib import unified_diff
from importlib.util import find_spec
from pathlib import Path

import anyio

from vehicled.core import shipped
from vehicled.core.errors import SetupError, UserError
from vehicled.core.ports import TakesSecret
from vehicled.live.setup.bench import FrontEnd, SetupBench, TerminalFrontEnd
from vehicled.live.setup.checklist import CheckItem, checklist
from vehicled.live.setup.devices import Devices
from vehicled.live.setup.pages import SetupPages, StepProgress
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
from vehicled.run.argument_types import PROFILE, TEXT, NameType
from vehicled.run.bridges import announce_page, check_page
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

    You lift, turn and push the vehicle; in steps that drive it moves while you hold a key, or a
    button of the page, and no longer. Every step can be skipped, repeated or ended. See
    docs/first_vehicle.md.
    """
    parser.describe(
        examples=(
            "vehicled setup --profile my_car              all steps, then a checklist",
            "vehicled setup --profile my_car push circle  these steps only",
            "vehicled setup --profile my_car --page 0.0.0.0   the same on a phone or laptop",
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
    parser.add_argument(
        "--page",
        type=TEXT,
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="serve the steps as a web page at HOST:PORT instead of asking in the terminal "
        "(default: view.address of the profile, 127.0.0.1:8765)",
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
    steps = [BY_NAME[name] for name in arguments.steps] or list(STEPS)
    if arguments.page is not None:
        return _on_pages(arguments.page, path, steps)
    try:
        terminal = Terminal(sys.stdin.fileno(), sys.stdout.fileno())
    except (OSError, ValueError, termios.error):
        raise SetupError(
            "the set-up asks its user: start it in a terminal, or with --page"
        ) from None
    _checked(path)
    with terminal:
        run = _Steps(path, steps, TerminalFrontEnd(terminal))
        anyio.run(run.run, backend_options={"loop_factory": new_event_loop})
    if run.interrupted:
        return _interrupted(run.interrupted)
    _show_checklist(load(str(path)), path)
    return 0 if run.finished == len(steps) else 1


def _checked(path: Path) -> Loaded:
    """Return the profile, after its findings were printed. Raises SetupError."""
    loaded = load(str(path))
    if not devices_of(loaded.profile):
        raise SetupError(
            f"{path}: no device has a port; write them with: vehicled new profile NAME --probe"
        )
    for finding in loaded.errors:
        print(f"note: {finding}")
    return loaded


def _interrupted(why: str) -> int:
    print(f"vehicled: set-up ended by {why}; the actuator is at neutral", file=sys.stderr)
    return INTERRUPTED


class _Steps:
    """The steps in their order, on one front end."""

    def __init__(self, path: Path, steps: Sequence[SetupStep], front: FrontEnd) -> None:
        self._path = path
        self._steps = steps
        self._front = front
        self.finished = 0
        """Number of steps that were written or left out."""
        self.interrupted = ""
        """Signal, or loss of the user, that interrupted a step; empty if none."""
        self.progress = [
            StepProgress(step.name, step.title, step.motion, note=done.get(step.name, ""))
            for done in [done_steps(profile_files.read(path))]
            for step in steps
        ]

    async def run(self) -> None:
        """Run the steps until the last, or until the user ends them."""
        for step, row in zip(self._steps, self.progress, strict=True):
            if why := missing(step, load(str(self._path)).profile):
                self._front.say(f"\n{step.name}: left out, because {why}")
                row.state, row.note = "left out", why
                self.finished += 1
                continue
            row.state = "now"
            session = await self._run(step)
            row.state = "skipped"
            if self.interrupted:
                return
            if session.ended is Ended.WRITE and session.measured is not None:
                if _write(self._path, step, session.measured, self._front):
                    row.state, row.note = "done", session.day
                    self.finished += 1
            elif session.ended is Ended.QUIT:
                return

    async def _run(self, step: SetupStep) -> StepSession:
        """Run one step with the profile as it is now."""
        path = self._path
        profile = load(
            str(path), jog_overrides(load(str(path)).profile) if step.name == "servo" else ()
        ).profile
        session = StepSession(step, profile, time.strftime("%Y-%m-%d"), self._front.wording)
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
        bench = SetupBench(session, devices, WireTransport(ports), self._front)
        await bench.run()
        self.interrupted = bench.interrupted
        return session


def _on_pages(address: str, path: Path, steps: Sequence[SetupStep]) -> int:
    """Run the steps on web pages; return the exit status."""
    view = load(str(path)).profile.view
    host, port, token = check_page(view, address, "--page", moves=True)
    # Loaded here, because websockets is an extra of the installation.
    from vehicled.live.setup.server import SetupServer

    _checked(path)
    pages = SetupPages(lambda step, measured: _difference(path, step, measured))
    server = SetupServer(pages, token, view.names, lambda text: print(text, flush=True))
    run = _Steps(path, steps, server)
    pages.progress = run.progress

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            try:
                bound = await stack.enter_async_context(server.running(host, port))
            except OSError as error:
                raise SetupError(
                    f"cannot listen on {host}:{port}: {error.strerror or error}"
                ) from None
            announce_page("set-up", host, bound, token)
            await run.run()
            if not run.interrupted:
                loaded = load(str(path))
                pages.finish(_items(loaded, path), first_lap(loaded, path))
                run.interrupted = await server.wait_for_end()

    anyio.run(serve, backend_options={"loop_factory": new_event_loop})
    if run.interrupted:
        return _interrupted(run.interrupted)
    return 0 if run.finished == len(steps) else 1


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


def _changed(path: Path, step: SetupStep, measured: Measured, day: str) -> str:
    """Return the text of the profile with what a step measured."""
    return with_done(
        with_measured(profile_files.read(path), toml_values(measured, day)), step.name, day
    )


def _difference(path: Path, step: SetupStep, measured: Measured) -> str:
    """Return what writing a result would change in the profile, as a unified diff."""
    try:
        after = _changed(path, step, measured, time.strftime("%Y-%m-%d"))
    except (UserError, ValueError) as error:
        return f"the profile cannot be changed: {error}"
    before = profile_files.read(path).splitlines()
    lines = unified_diff(before, after.splitlines(), path.name, path.name, n=1, lineterm="")
    return "\n".join(lines)


def _write(path: Path, step: SetupStep, measured: Measured, front: FrontEnd) -> bool:
    """Write what was measured into the profile, unless the profile would be refused. Return True if
    it is written."""
    if measured.wrong and not measured.values:
        front.say("nothing was written; put it right, then do the step again")
        return False
    text = _changed(path, step, measured, time.strftime("%Y-%m-%d"))
    after = parse(text, str(path), beside=path.parent)
    write_output(path, text)
    front.say(f"written: {path}")
    for finding in after.errors:
        front.say(f"note: {finding}")
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


def _items(loaded: Loaded, path: Path) -> list[CheckItem]:
    return checklist(loaded.profile, loaded.findings, done_steps(profile_files.read(path)))


def first_lap(loaded: Loaded, path: Path) -> list[str]:
    """Return what to do for the first lap, by lines."""
    name = path.stem if path.parent == profile_files.folders()[0] else str(path)
    lines = [
        (
            f"vehicled run --profile {name}        and in the other: vehicled speed 1, then "
            "vehicled arm, vehicled mode auto"
        )
    ]
    if not any("Heading" in table.messages for table in loaded.profile.devices.values()):
        lines.append(
            "no device measures the heading: vehicled mode align first, with 5 m of free way "
            "ahead (docs/heading.md)"
        )
    return lines


def _show_checklist(loaded: Loaded, path: Path) -> None:
    """Print the checklist, ask what only the owner can see, and name the commands of the first
    lap."""
    print("\nBefore the first drive")
    for item in _items(loaded, path):
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
    print("The first lap, in two terminals:")
    for line in first_lap(loaded, path):
        print(f"  {line}")
