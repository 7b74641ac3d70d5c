"""``vehicled service install | uninstall``: puts the unit and what belongs to it in its place, and takes exactly that away.

Imports nothing but the standard library before a Python that can run the daemon is sure to be there.
"""

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from vehicled import __version__, shipped
from vehicled.cli import environment
from vehicled.cli.installation import SETTINGS, Hands, InstallError

if TYPE_CHECKING:
    from vehicled.profile import Loaded

UNIT = "/etc/systemd/system/vehicled@.service"
SYSUSERS = "/etc/sysusers.d/vehicled.conf"
RULES = "/etc/udev/rules.d/60-vehicled.rules"
CREDENTIALS = f"{SETTINGS}/credentials"
SHARED = {UNIT: "vehicled@.service", SYSUSERS: "vehicled.sysusers.conf", RULES: "60-vehicled.rules"}
SYSTEMD = "/run/systemd/system"
UDEV = "/run/udev"
COMMAND = "/usr/local/bin/vehicled"
SHIM = f"""\
#!/bin/sh
exec {environment.PLACE}/bin/vehicled "$@"
"""
ENVIRONMENT = """\
# What differs between machines of one profile; read by vehicled@{name}.service when it starts.
#VEHICLED_OPTIONS=--course circle_r5_ccw
"""


def install(arguments: Namespace) -> int:
    """Install the service for one profile. Status 2 when it cannot be done here, with the cure."""
    command = f"vehicled service install --profile {arguments.profile}"
    try:
        hands = Hands(arguments.prefix, dry=arguments.dry_run)
        if not hands.dry:
            folders = [SETTINGS, *(os.path.dirname(path) for path in [*SHARED, COMMAND])]
            hands.must_be_writable(folders if arguments.no_environment else [*folders, environment.PLACE], command)
        missing: InstallError | None = None
        try:
            if not arguments.no_environment:
                missing = _settle(hands)
            here = _can_read_profiles()
            if here:
                _install(hands, arguments.profile, with_environment=not arguments.no_environment)
        finally:
            # Before another process goes on, which keeps the account from there.
            hands.keep_account()
        status = 0 if here else _go_on_there(arguments)
        if missing is not None:
            raise missing
    except InstallError as error:
        print(f"vehicled: {error}", file=sys.stderr)
        return 2
    return status


def uninstall(arguments: Namespace) -> int:
    """Take away what was installed: for one profile, or everything."""
    try:
        hands = Hands(arguments.prefix, dry=arguments.dry_run)
        names = hands.profiles
        if arguments.profile is not None:
            if arguments.profile not in names:
                raise InstallError(f"no service is installed for {arguments.profile!r}; there are: {', '.join(names) or 'none'}")
            names = [arguments.profile]
        if not hands.dry:
            command = f"vehicled service uninstall{f' --profile {arguments.profile}' if arguments.profile else ''}"
            hands.must_be_writable([SETTINGS, *(os.path.dirname(path) for path in [*SHARED, COMMAND])], command)
        try:
            _uninstall(hands, names)
        finally:
            hands.keep_account()
        hands.remove_folder(SETTINGS)
    except InstallError as error:
        print(f"vehicled: {error}", file=sys.stderr)
        return 2
    return 0


def _settle(hands: Hands) -> InstallError | None:
    """Make the environment. What is missing for it ends an installation; a rehearsal tells it behind all the rest."""
    try:
        environment.settle(hands, shipped.folder("systemd").parent, __version__)
    except InstallError as error:
        if not hands.dry:
            raise
        return error
    return None


def _install(hands: Hands, name_or_file: str, *, with_environment: bool) -> None:
    """Files first, then the commands that make them known."""
    from vehicled.profile import load

    loaded = load(name_or_file)
    name = loaded.profile.name
    fence = _fence(loaded)
    _check_course(loaded.profile.course)
    for path, source in SHARED.items():
        hands.write(path, (shipped.folder("systemd") / source).read_bytes())
    if with_environment or hands.place(f"{environment.PLACE}/bin/vehicled").exists():
        hands.write(COMMAND, SHIM.encode(), mode=0o755)
    target = f"{SETTINGS}/{name}.toml"
    source_file = Path(loaded.path)
    same = source_file.resolve() == hands.place(target).resolve()
    text = source_file.read_bytes()
    if same or hands.write(target, text, profile=name):
        # What systemd starts is what was checked just now: the daemon refuses to arm with another text.
        hands.write(f"{SETTINGS}/{name}.sha256", f"{loaded.digest}  {name}.toml\n".encode(), profile=name, always=True)
    if fence is not None and not same:
        hands.write(f"{SETTINGS}/{loaded.profile.fence}", fence, profile=name)
    if hands.place(f"{SETTINGS}/{name}.env").exists() and not hands.is_ours(f"{SETTINGS}/{name}.env"):
        print(f"keep    {hands.place(f'{SETTINGS}/{name}.env')} (yours)")
    else:
        hands.write(f"{SETTINGS}/{name}.env", ENVIRONMENT.format(name=name).encode(), profile=name)
    credentials = _credentials(loaded)
    if credentials:
        lines = [f"LoadCredential={each}:{CREDENTIALS}/{each}" for each in credentials]
        drop_in = f"/etc/systemd/system/vehicled@{name}.service.d/credentials.conf"
        hands.write(drop_in, "\n".join(["[Service]", *lines, ""]).encode(), profile=name)
    hands.run(["systemd-sysusers", SYSUSERS], "add the user by hand: useradd --system --groups dialout vehicled")
    hands.run(["systemctl", "daemon-reload"], needs=SYSTEMD)
    hands.run(["udevadm", "control", "--reload"], needs=UDEV)
    hands.run(["udevadm", "trigger", "--subsystem-match=tty", "--subsystem-match=usb-serial", "--subsystem-match=net"], needs=UDEV)
    print("\nnext:")
    for each in credentials:
        if not hands.place(f"{CREDENTIALS}/{each}").exists():
            print(f"  sudo install -D -m 600 /dev/stdin {CREDENTIALS}/{each}   # type the password, then Ctrl-D")
    print(f"  sudo vehicled doctor --save --profile {target}   # measure the board; arming then refuses what it cannot keep")
    print(f"  sudo systemctl enable --now vehicled@{name}")
    print("  sudo usermod -aG vehicled NAME   # for each person who may arm it; then log in anew")


def _uninstall(hands: Hands, names: list[str]) -> None:
    for name in names:
        hands.run(["systemctl", "disable", "--now", f"vehicled@{name}.service"], needs=SYSTEMD)
        for path in hands.owned(name):
            hands.remove(path)
        hands.remove_folder(f"/etc/systemd/system/vehicled@{name}.service.d")
    if hands.profiles:
        return
    for path in hands.owned(""):
        hands.remove(path)
    environment.take_away(hands)
    hands.remove_folder(CREDENTIALS)
    hands.run(["systemctl", "daemon-reload"], needs=SYSTEMD)
    hands.run(["udevadm", "control", "--reload"], needs=UDEV)
    print("left: the user vehicled and its logs in /var/lib/vehicled; to remove them: userdel vehicled; rm -r /var/lib/vehicled")


def _can_read_profiles() -> bool:
    if sys.version_info < environment.OLDEST:
        return False
    try:
        import msgspec  # noqa: F401
        import numpy  # noqa: F401
    except ImportError:
        return False
    return True


def _go_on_there(arguments: Namespace) -> int:
    """The rest needs the daemon's own Python, which is there by now; or will be, in a rehearsal."""
    argv = [f"{environment.PLACE}/bin/vehicled", "service", "install", "--profile", arguments.profile]
    print(f"run     {' '.join(argv)}   # the files, with the Python that can check the profile")
    if arguments.dry_run:
        return 0
    if not Path(argv[0]).exists():
        raise InstallError(f"this Python cannot run vehicled, and {argv[0]} is not there: leave out --no-environment and --prefix")
    sys.stdout.flush()
    return subprocess.run(argv, check=False).returncode


def _fence(loaded: "Loaded") -> bytes | None:
    """The fence's file, which goes beside the profile; None without one, or where it has a place of its own."""
    fence = loaded.profile.fence
    if not fence or Path(fence).is_absolute():
        _must_be_seen("fence", fence)
        return None
    if Path(fence).name != fence:
        raise InstallError(f"fence = {fence!r}: put the file beside the profile, or give its whole path")
    try:
        return (Path(loaded.path).parent / fence).read_bytes()
    except OSError as error:
        raise InstallError(f"fence: {Path(loaded.path).parent / fence} cannot be read ({error.strerror})") from None


def _check_course(course: str) -> None:
    from vehicled.paths.catalog import names

    if course in names():
        return
    if not Path(course).is_absolute():
        raise InstallError(
            f"course = {course!r}: the service starts elsewhere; give its whole path, such as {SETTINGS}/{Path(course).name}"
        )
    _must_be_seen("course", course)


def _must_be_seen(key: str, path: str) -> None:
    if path.startswith(tuple(f"{each}/" for each in environment.HIDDEN)):
        raise InstallError(f"{key} = {path!r}: the service sees no homes and no /tmp; put the file into {SETTINGS}")


def _credentials(loaded: "Loaded") -> list[str]:
    """Names of the credentials that the profile asks for: for its devices, and for the live view."""
    found = {name for name in [loaded.profile.view.token_credential] if name}
    for device in loaded.profile.devices.values():
        ref = getattr(device.driver.selected, "secret_ref", None)
        if ref is not None and ref.credential:
            found.add(ref.credential)
    return sorted(found)
