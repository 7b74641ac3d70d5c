"""Command ``vehicled service install | uninstall``: install the systemd unit with its files, and
remove exactly those.

Imports only the standard library until a Python that can run the daemon is known to exist.
"""

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from vehicled import __version__
from vehicled.cli import environment
from vehicled.cli.installation import SETTINGS, Installer, InstallError
from vehicled.core import shipped
from vehicled.run.argument_types import PROFILE
from vehicled.run.command_line import CommandParser

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
# Options of this computer; read by vehicled@{name}.service when it starts.
#VEHICLED_OPTIONS=--course circle_r5_ccw
"""


def declare_service_install(parser: CommandParser) -> None:
    """Install the unit, user, udev rules, profile and its options, and print each file and command.
    Can be repeated; edited files are kept. If Python is too old, uv installs another one.
    """
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art",
        metavar="P",
        help="profile: a name or a .toml file (default art)",
    )
    parser.add_argument(
        "--no-environment",
        action="store_true",
        help="do not create /opt/vehicled: the command is already on the PATH",
    )
    _declare_root(parser)
    parser.set_defaults(run=install)


def declare_service_uninstall(parser: CommandParser) -> None:
    """Remove what was installed and not edited since."""
    parser.add_argument(
        "--profile", type=PROFILE, metavar="P", help="only for this profile (default: everything)"
    )
    _declare_root(parser)
    parser.set_defaults(run=uninstall)


def _declare_root(parser: CommandParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="print the actions without doing them"
    )
    parser.add_argument(
        "--prefix",
        default="/",
        metavar="DIR",
        help="root of another system, such as an image (default /)",
    )


def install(arguments: Namespace) -> int:
    """Install the service for one profile. Raises :class:`InstallError` with a remedy."""
    command = f"vehicled service install --profile {arguments.profile}"
    installer = Installer(arguments.prefix, dry=arguments.dry_run)
    if not installer.dry:
        folders = [SETTINGS, *(os.path.dirname(path) for path in [*SHARED, COMMAND])]
        installer.must_be_writable(
            folders if arguments.no_environment else [*folders, environment.PLACE], command
        )
    missing: InstallError | None = None
    try:
        if not arguments.no_environment:
            missing = _settle(installer)
        here = _can_read_profiles()
        if here:
            _install(installer, arguments.profile, with_environment=not arguments.no_environment)
    finally:
        # Save before another process takes over, which continues the record.
        installer.keep_account()
    status = 0 if here else _go_on_there(arguments)
    if missing is not None:
        raise missing
    return status


def uninstall(arguments: Namespace) -> int:
    """Remove one profile's files, or everything that was installed."""
    installer = Installer(arguments.prefix, dry=arguments.dry_run)
    names = installer.profiles
    if arguments.profile is not None:
        if arguments.profile not in names:
            raise InstallError(
                f"no service is installed for {arguments.profile!r}; installed: "
                f"{', '.join(names) or 'none'}"
            )
        names = [arguments.profile]
    if not installer.dry:
        command = (
            "vehicled service "
            f"uninstall{f' --profile {arguments.profile}' if arguments.profile else ''}"
        )
        installer.must_be_writable(
            [SETTINGS, *(os.path.dirname(path) for path in [*SHARED, COMMAND])], command
        )
    try:
        _uninstall(installer, names)
    finally:
        installer.keep_account()
    installer.remove_folder(SETTINGS)
    return 0


def _settle(installer: Installer) -> InstallError | None:
    """Create the environment. A missing prerequisite ends an installation; a dry run reports it
    last."""
    try:
        environment.settle(installer, shipped.folder("systemd").parent, __version__)
    except InstallError as error:
        if not installer.dry:
            raise
        return error
    return None


def _install(installer: Installer, name_or_file: str, *, with_environment: bool) -> None:
    """Install the files, then run the commands that activate them."""
    from vehicled.profile import load

    loaded = load(name_or_file)
    name = loaded.profile.name
    fence = _fence(loaded)
    _check_course(loaded.profile.course)
    _check_passwords(loaded)
    for path, source in SHARED.items():
        installer.write(path, (shipped.folder("systemd") / source).read_bytes())
    if with_environment or installer.place(f"{environment.PLACE}/bin/vehicled").exists():
        installer.write(COMMAND, SHIM.encode(), mode=0o755)
    target = f"{SETTINGS}/{name}.toml"
    source_file = Path(loaded.path)
    same = source_file.resolve() == installer.place(target).resolve()
    if same and source_file.read_bytes().decode("utf-8-sig") != loaded.source:
        whole = f"vehicled profiles --show {target} > {name}.toml"
        raise InstallError(
            f"{target}: has a base, which may change; the service drives a whole profile: "
            f"{whole}, and install that"
        )
    # The profile with its bases merged: the service reads one file.
    text = source_file.read_bytes() if same else loaded.source.encode()
    if same or installer.write(target, text, profile=name):
        # Store the hash of the profile that was checked just now: the daemon refuses to arm with
        # another text.
        installer.write(
            f"{SETTINGS}/{name}.sha256",
            f"{loaded.digest}  {name}.toml\n".encode(),
            profile=name,
            always=True,
        )
    if fence is not None and not same:
        installer.write(f"{SETTINGS}/{loaded.profile.fence}", fence, profile=name)
    if installer.place(f"{SETTINGS}/{name}.env").exists() and not installer.is_ours(
        f"{SETTINGS}/{name}.env"
    ):
        print(f"keep    {installer.place(f'{SETTINGS}/{name}.env')} (your settings)")
    else:
        installer.write(
            f"{SETTINGS}/{name}.env", ENVIRONMENT.format(name=name).encode(), profile=name
        )
    credentials = _credentials(loaded)
    if credentials:
        lines = [f"LoadCredential={each}:{CREDENTIALS}/{each}" for each in credentials]
        drop_in = f"/etc/systemd/system/vehicled@{name}.service.d/credentials.conf"
        installer.write(drop_in, "\n".join(["[Service]", *lines, ""]).encode(), profile=name)
    installer.run(
        ["systemd-sysusers", SYSUSERS],
        "add the user yourself: useradd --system --groups dialout vehicled",
    )
    installer.run(["systemctl", "daemon-reload"], needs=SYSTEMD)
    installer.run(["udevadm", "control", "--reload"], needs=UDEV)
    installer.run(
        [
            "udevadm",
            "trigger",
            "--subsystem-match=tty",
            "--subsystem-match=usb-serial",
            "--subsystem-match=net",
        ],
        needs=UDEV,
    )
    print("\nnext:")
    for each in credentials:
        if not installer.place(f"{CREDENTIALS}/{each}").exists():
            print(
                f"  sudo install -D -m 600 /dev/stdin {CREDENTIALS}/{each}   # type the "
                "password, then Ctrl-D"
            )
    print(
        f"  sudo vehicled doctor --save --profile {target}   # measure the board; profiles "
        "that need more cannot be armed"
    )
    print(f"  sudo systemctl enable --now vehicled@{name}")
    print(
        "  sudo usermod -aG vehicled NAME   # for each person who may arm the vehicle; then "
        "log in again"
    )


def _uninstall(installer: Installer, names: list[str]) -> None:
    for name in names:
        installer.run(["systemctl", "disable", "--now", f"vehicled@{name}.service"], needs=SYSTEMD)
        for path in installer.owned(name):
            installer.remove(path)
        installer.remove_folder(f"/etc/systemd/system/vehicled@{name}.service.d")
    if installer.profiles:
        return
    for path in installer.owned(""):
        installer.remove(path)
    environment.take_away(installer)
    installer.remove_folder(CREDENTIALS)
    installer.run(["systemctl", "daemon-reload"], needs=SYSTEMD)
    installer.run(["udevadm", "control", "--reload"], needs=UDEV)
    print(
        "kept: the user vehicled and its logs in /var/lib/vehicled; to remove them: userdel "
        "vehicled; rm -r /var/lib/vehicled"
    )


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
    """Continue in the daemon's own Python, which the environment now provides (in a dry run: would
    provide)."""
    argv = [
        f"{environment.PLACE}/bin/vehicled",
        "service",
        "install",
        "--profile",
        arguments.profile,
    ]
    print(
        f"run     {' '.join(argv)}   # install the files with vehicled's Python, which can "
        "check the profile"
    )
    if arguments.dry_run:
        return 0
    if not Path(argv[0]).exists():
        raise InstallError(
            f"this Python cannot run vehicled, and {argv[0]} does not exist: leave out "
            "--no-environment and --prefix"
        )
    sys.stdout.flush()
    return subprocess.run(argv, check=False).returncode


def _fence(loaded: "Loaded") -> bytes | None:
    """Return the content of the fence file to install with the profile; None without a fence or
    with an absolute path."""
    fence = loaded.profile.fence
    if not fence or Path(fence).is_absolute():
        _must_be_seen("fence", fence)
        return None
    if Path(fence).name != fence:
        raise InstallError(
            f"fence = {fence!r}: put the file in the profile's folder, or give its absolute path"
        )
    try:
        return (Path(loaded.path).parent / fence).read_bytes()
    except OSError as error:
        raise InstallError(
            f"fence: cannot read {Path(loaded.path).parent / fence} ({error.strerror})"
        ) from None


def _check_course(course: str) -> None:
    from vehicled.paths.catalog import names

    if course in names():
        return
    if not Path(course).is_absolute():
        raise InstallError(
            f"course = {course!r}: give an absolute path, such as {SETTINGS}/{Path(course).name}"
        )
    _must_be_seen("course", course)


def _must_be_seen(key: str, path: str) -> None:
    if path.startswith(tuple(f"{each}/" for each in environment.HIDDEN)):
        raise InstallError(
            f"{key} = {path!r}: the service cannot see home directories and /tmp; put the file "
            f"into {SETTINGS}"
        )


def _check_passwords(loaded: "Loaded") -> None:
    """Refuse a password file that the service cannot read."""
    for name, device in loaded.profile.devices.items():
        ref = getattr(device.driver.selected, "secret_ref", None)
        if ref is None or not ref.file:
            continue
        key = f"devices.{name}.driver.{device.driver.name}.password_file"
        cure = 'write password_credential = "caster" in its place'
        if ref.file.startswith("~") or ref.file.startswith(
            tuple(f"{each}/" for each in environment.HIDDEN)
        ):
            raise InstallError(
                f"{key} = {ref.file!r}: the service cannot see home directories and /tmp; {cure}"
            )
        if not Path(ref.file).is_absolute():
            raise InstallError(f"{key} = {ref.file!r}: give an absolute path, or {cure}")
        try:
            mode = Path(ref.file).stat().st_mode
        except OSError as error:
            raise InstallError(
                f"{key}: cannot read {ref.file} ({error.strerror}); make it, or {cure}"
            ) from None
        if not mode & 0o044:
            raise InstallError(
                f"{key}: only its owner may read {ref.file}, and the service is the user "
                f"vehicled; {cure}"
            )


def _credentials(loaded: "Loaded") -> list[str]:
    """Return the names of the credentials that the profile needs for its devices and the live
    view."""
    found = {name for name in [loaded.profile.view.token_credential] if name}
    for device in loaded.profile.devices.values():
        ref = getattr(device.driver.selected, "secret_ref", None)
        if ref is not None and ref.credential:
            found.add(ref.credential)
    return sorted(found)
