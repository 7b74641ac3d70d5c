"""Command ``vehicled base``: make a GNSS receiver a base station, and serve its corrections."""

import os
import re
import tomllib
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from math import degrees, isfinite, radians
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from vehicled.cli.drive_options import SECONDS
from vehicled.core.errors import SetupError
from vehicled.core.plain_text import printable
from vehicled.core.wire.geodesy import ecef_to_geodetic, geodetic_to_ecef
from vehicled.live.base_station.caster import CasterConfig, SourceRecord
from vehicled.live.base_station.servers import ListenAddress, RoverNews, RoverServers
from vehicled.live.base_station.session import BaseSession
from vehicled.live.base_station.upload import Uploader, UploadNews, UploadTarget
from vehicled.profile.registry import names, resolve
from vehicled.run.argument_types import TEXT, between, whole
from vehicled.run.command_line import CommandParser
from vehicled.run.secret import read_secret

_ACCURACY = between(0.01, 100.0, "expected metres from 0.01 to 100")
_METRES = between(0.1, 1e7, "expected metres from 0.1 to 1e7")
_SURVEY = whole(10, 172_800, "expected whole seconds from 10 to 172800")
_STATION = whole(0, 4095, "expected a number from 0 to 4095")
_LISTEN = re.compile(r"(?:(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.%a-z]+\]):)?(?P<port>\d{1,5})\Z")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}\Z")


class PositionFile(NamedTuple):
    """Position of a base station, as in the file of a survey. Height above the ellipsoid."""

    latitude_deg: float
    longitude_deg: float
    height_m: float

    @property
    def ecef_m(self) -> tuple[float, float, float]:
        """Position in the earth-centred, earth-fixed frame."""
        return geodetic_to_ecef(
            radians(self.latitude_deg), radians(self.longitude_deg), self.height_m
        )

    def __str__(self) -> str:
        return f"{self.latitude_deg:.9f},{self.longitude_deg:.9f},{self.height_m:.4f}"


def declare_base(parser: CommandParser) -> None:
    """Make a GNSS receiver a base station: survey its position or set a known one, then serve its
    RTCM corrections to rovers over TCP and as an NTRIP caster. Nothing is saved in the receiver.
    See docs/base_station.md.
    """
    parser.describe(
        examples=(
            "vehicled base serial:/dev/ttyACM0 --ntrip 2101 --save base.toml",
            "vehicled base serial:/dev/ttyACM0 --ntrip 2101 --position base.toml",
        ),
        epilog="Exit status: 0 stopped by Ctrl-C or --duration; 1 no survey finished, or the "
        "given position is not that of the "
        "receiver; 2 invalid arguments, or a port is taken.",
    )
    parser.add_argument(
        "port",
        type=TEXT,
        metavar="URL",
        help="port of the receiver: serial:/dev/serial/by-id/...?baud=N, tcp:HOST:PORT",
    )
    parser.add_argument(
        "--receiver",
        choices=names("base station"),
        default="ublox",
        help="maker of the receiver (default ublox)",
    )
    parser.add_argument(
        "--receiver-port",
        choices=("usb", "uart1", "uart2"),
        default="usb",
        help="port of a u-blox receiver that the cable connects to (default usb)",
    )
    parser.add_argument(
        "--position",
        type=_position,
        metavar="P",
        help="known position instead of a survey: LAT,LON,HEIGHT in degrees and metres above the "
        "ellipsoid "
        "(--position=-33.8,... in the south), or the file of a survey",
    )
    parser.add_argument(
        "--max-offset",
        type=_METRES,
        default=50.0,
        metavar="M",
        help="largest distance of --position from where the receiver measures itself (default 50)",
    )
    parser.add_argument(
        "--survey",
        type=_SURVEY,
        default=300,
        metavar="S",
        help="shortest survey in seconds (default 300)",
    )
    parser.add_argument(
        "--accuracy",
        type=_ACCURACY,
        default=2.0,
        metavar="M",
        help="standard deviation at which a survey ends, of u-blox receivers (default 2)",
    )
    parser.add_argument(
        "--survey-timeout",
        type=SECONDS,
        default=3600.0,
        metavar="S",
        help="longest survey in seconds (default 3600)",
    )
    parser.add_argument(
        "--save", metavar="FILE", help="write the surveyed position to this file, for --position"
    )
    parser.add_argument(
        "--station", type=_STATION, default=1, metavar="N", help="number of the station (default 1)"
    )
    parser.add_argument(
        "--msm",
        type=int,
        choices=(4, 7),
        default=7,
        help="observations: MSM7 full, MSM4 shorter (default 7)",
    )
    parser.add_argument(
        "--tcp", type=_listen, metavar="[HOST:]PORT", help="serve plain RTCM on this port"
    )
    parser.add_argument(
        "--ntrip",
        type=_listen,
        metavar="[HOST:]PORT",
        help="be an NTRIP caster on this port, versions 1 and 2",
    )
    parser.add_argument(
        "--mountpoint",
        type=_mountpoint,
        default="BASE",
        metavar="NAME",
        help="mountpoint (default BASE)",
    )
    parser.add_argument(
        "--user", type=TEXT, metavar="NAME", help="name that rovers must give to the caster"
    )
    parser.add_argument("--password-file", metavar="FILE", help="file with the password for --user")
    parser.add_argument(
        "--upload",
        type=_upload,
        metavar="HOST:PORT/MOUNTPOINT",
        help="upload the corrections to this caster, as an NTRIP server",
    )
    parser.add_argument(
        "--upload-password-file", metavar="FILE", help="file with the password for --upload"
    )
    parser.add_argument(
        "--upload-user",
        type=TEXT,
        metavar="NAME",
        help="name for --upload: it is then NTRIP version 2 (POST), without it version 1 (SOURCE)",
    )
    parser.add_argument(
        "--duration", type=SECONDS, metavar="S", help="stop after S seconds (default: until Ctrl-C)"
    )
    parser.set_defaults(run=base)


def _position(text: str) -> PositionFile | Path:
    try:
        values = [float(each) for each in text.split(",")]
    except ValueError:
        return Path(text).expanduser()
    if len(values) != 3:
        raise ArgumentTypeError(f"expected LAT,LON,HEIGHT or a file, not {text!r}")
    if problem := _problem(found := PositionFile(*values)):
        raise ArgumentTypeError(f"{text}: {problem}")
    return found


def _read_position(path: Path) -> PositionFile:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        found = PositionFile(*(float(table[name]) for name in PositionFile._fields))
    except OSError as error:
        raise SetupError(
            f"--position: cannot read {path}: {error.strerror}; give LAT,LON,HEIGHT or a file "
            "of --save"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise SetupError(
            f"--position: {path} has no {', '.join(PositionFile._fields)}: give a file of --save"
        ) from None
    if problem := _problem(found):
        raise SetupError(f"--position: {path}: {problem}")
    return found


def _problem(found: PositionFile) -> str:
    """Return why this is not a place; empty for one."""
    if (
        not all(map(isfinite, found))
        or abs(found.latitude_deg) > 90.0
        or abs(found.longitude_deg) > 360.0
    ):
        return "latitude must be from -90 to 90, longitude from -180 to 360 degrees"
    return (
        ""
        if -500.0 <= found.height_m <= 9000.0
        else "the height must be from -500 to 9000 m above the ellipsoid"
    )


def _listen(text: str) -> ListenAddress:
    match = _LISTEN.match(text)
    if match is None or not 0 < int(match["port"]) < 65_536:
        raise ArgumentTypeError(f"expected PORT or HOST:PORT, not {text!r}")
    return ListenAddress((match["host"] or "").strip("[]"), int(match["port"]))


def _mountpoint(text: str) -> str:
    if not _NAME.match(text):
        raise ArgumentTypeError(f"expected letters, digits, dot, dash or underscore, not {text!r}")
    return text


def _upload(text: str) -> tuple[ListenAddress, str]:
    place, _, mountpoint = text.removeprefix("ntrip://").partition("/")
    match = _LISTEN.match(place)
    if match is None or not match["host"] or not 0 < int(match["port"]) < 65_536:
        raise ArgumentTypeError(f"expected HOST:PORT/MOUNTPOINT, not {text!r}")
    return ListenAddress(match["host"].strip("[]"), int(match["port"])), _mountpoint(mountpoint)


def base(arguments: Namespace) -> int:
    """Run the base station until it is stopped."""
    from vehicled.runtime.loop import new_event_loop
    from vehicled.runtime.ports import AddressError, make_port

    _check(arguments)
    if isinstance(arguments.position, Path):
        arguments.position = _read_position(arguments.position)
    kind = resolve("base station", arguments.receiver)
    params = kind.Params(
        ecef_m=arguments.position.ecef_m if arguments.position else None,
        survey_s=arguments.survey,
        survey_accuracy_m=arguments.accuracy,
        survey_timeout_s=arguments.survey_timeout,
        max_offset_m=arguments.max_offset,
        station=arguments.station,
        msm=arguments.msm,
        receiver_port=arguments.receiver_port,
    )
    try:
        port = make_port("base", arguments.port, "stream")
    except AddressError as error:
        raise SetupError(str(error)) from error
    run = _BaseRun(arguments, port, kind(params), _caster(arguments), _target(arguments))
    try:
        anyio.run(run.serve, backend_options={"loop_factory": new_event_loop})
    except KeyboardInterrupt:
        print("stopped", flush=True)
    return run.status


def _check(arguments: Namespace) -> None:
    if not (arguments.tcp or arguments.ntrip or arguments.upload or arguments.save):
        raise SetupError(
            "nothing would be done with the corrections: give --ntrip PORT, --tcp PORT, --upload "
            "CASTER, or --save FILE for a survey alone"
        )
    if bool(arguments.upload) != bool(arguments.upload_password_file):
        raise SetupError("--upload and --upload-password-file belong together")
    if arguments.upload_user and not arguments.upload:
        raise SetupError("--upload-user needs --upload")
    if bool(arguments.user) != bool(arguments.password_file):
        raise SetupError("--user and --password-file belong together: give both or neither")
    if arguments.user and not arguments.ntrip:
        raise SetupError("--user needs --ntrip: plain TCP knows no passwords")
    if arguments.save and arguments.position:
        raise SetupError(
            "--save writes the result of a survey, and --position makes one needless: give one "
            "of them"
        )
    if arguments.save and Path(arguments.save).exists():
        raise SetupError(
            f"{arguments.save} exists already: use it with --position {arguments.save}, or "
            "choose another name"
        )


def _caster(arguments: Namespace) -> CasterConfig:
    if not arguments.user:
        return CasterConfig(arguments.mountpoint)
    password, _ = read_secret(
        "password", key="--password-file", file=arguments.password_file, credential=""
    )
    return CasterConfig(arguments.mountpoint, arguments.user, password.rstrip("\r\n"))


def _target(arguments: Namespace) -> UploadTarget | None:
    if not arguments.upload:
        return None
    (host, port), mountpoint = arguments.upload
    password, _ = read_secret(
        "password", key="--upload-password-file", file=arguments.upload_password_file, credential=""
    )
    password = password.rstrip("\r\n")
    if not arguments.upload_user and (not password or any(each.isspace() for each in password)):
        raise SetupError(
            "--upload-password-file: a password of NTRIP version 1 has no spaces and is not empty"
        )
    return UploadTarget(
        host, port, mountpoint, password, arguments.upload_user or "",
        2 if arguments.upload_user else 1,
    )  # fmt: skip


class _BaseRun:
    """One run of the command: prints what happens, and decides when it ends."""

    def __init__(
        self,
        arguments: Namespace,
        port: Any,
        receiver: Any,
        caster: CasterConfig,
        target: UploadTarget | None,
    ) -> None:
        self._arguments = arguments
        self._port = port
        self._receiver = receiver
        self._caster = caster
        self._target = target
        self._place: tuple[float, float, float] | None = arguments.position
        self.status = 0
        self._servers = RoverServers(self._on_rover, lambda: receiver.ready, self._record)

    async def serve(self) -> None:
        """Listen first, so that a port that is taken shows at once; then run the receiver."""
        arguments = self._arguments
        self._session = BaseSession(
            self._port, self._receiver, self._servers, self._on_report, self._on_trouble
        )
        if arguments.tcp:
            await self._servers.listen(arguments.tcp, option="--tcp")
            self._say(f"plain RTCM for rovers on {arguments.tcp}")
        if arguments.ntrip:
            await self._servers.listen(arguments.ntrip, self._caster, option="--ntrip")
            login = f"user {arguments.user}" if arguments.user else "no password"
            self._say(
                f"NTRIP caster on {arguments.ntrip}, mountpoint {arguments.mountpoint}, {login}"
            )
        if self._target is None:
            await self._session.run(arguments.duration)
            return
        uploader = Uploader(self._target, self._on_upload, lambda: self._servers.station)
        self._servers.listen_to(uploader.send)
        async with anyio.create_task_group() as group:
            group.start_soon(uploader.run)
            await self._session.run(arguments.duration)
            group.cancel_scope.cancel()

    def _on_upload(self, news: UploadNews) -> None:
        again = f"; trying again in {news.pause_s:.0f} s" if news.pause_s else ""
        what = {"begun": "corrections are sent", "ended": "interrupted", "failed": "not possible"}
        reason = f", {printable(news.reason)}" if news.reason else ""
        self._say(f"upload to {self._target}: {what[news.kind]}{reason}{again}")

    def _say(self, text: str) -> None:
        print(text, flush=True)

    def _record(self) -> SourceRecord:
        params = self._receiver.params
        messages = ((1005, 5), *((kind, 1) for kind in params.observations), (1230, 5))
        latitude_deg, longitude_deg = (
            (self._place[0], self._place[1]) if self._place else (0.0, 0.0)
        )
        return SourceRecord(
            self._arguments.mountpoint,
            messages,
            latitude_deg,
            longitude_deg,
            bool(self._caster.user),
        )

    def _end(self, status: int) -> None:
        self.status = status
        self._session.stopped.set()

    def _on_trouble(self, reason: str) -> None:
        self._say(
            f"port: {printable(reason)}; retrying, Ctrl-C to stop" if reason else "port: open"
        )

    def _on_rover(self, news: RoverNews) -> None:
        who = f"{news.peer}{f' ({news.agent})' if news.agent else ''}"
        self._say(f"rover {who}: {_ROVER_TEXTS[news.kind]}")

    def _on_report(self, report: Any) -> None:
        arguments = self._arguments
        match report.kind:
            case "configured":
                doing = {
                    "locate": "measures where it is, to check --position",
                    "survey": f"surveys its position for at least {arguments.survey} s",
                    "fixed": "has its fixed position",
                }[report.stage]
                lacks = f"; it lacks {', '.join(report.lacking)}" if report.lacking else ""
                self._say(
                    f"receiver {printable(report.model) or arguments.receiver}: {doing}{lacks}"
                )
            case "configuration_failed":
                self._say(f"receiver: {printable(report.reason)}; trying again")
            case "located":
                self._say(
                    f"receiver: measures itself {report.offset_m:.1f} m from --position, which "
                    "is near enough"
                )
            case "misplaced":
                self._say(
                    f"--position is {_length(report.offset_m)} from where the receiver measures "
                    f"itself ({_geodetic(report.ecef_m)}): check signs and order, or raise "
                    "--max-offset"
                )
                self._end(1)
            case "without_position":
                self._say(
                    f"receiver: no position for {report.seconds:.0f} s; it needs a clear view "
                    "of the sky"
                )
            case "survey_progress":
                self._say(f"survey: {report.seconds:.0f} s{_accuracy(report.sigma_m)}")
            case "survey_unfinished":
                self._say(
                    f"no survey finished in {report.seconds:.0f} s{_accuracy(report.sigma_m)}: "
                    "give the antenna a clear view of the sky, or allow more with --accuracy or "
                    "--survey-timeout"
                )
                self._end(1)
            case "survey_finished":
                self._on_surveyed(report)
            case "ready":
                self._place = _geodetic(report.ecef_m)
                self._say(f"serving corrections for {self._place}")
            case "silent":
                self._say(f"receiver: silent for {report.seconds:.0f} s; setting it up again")
            case "interrupted":
                self._say("corrections are interrupted")

    def _on_surveyed(self, report: Any) -> None:
        found = _geodetic(report.ecef_m)
        self._say(
            f"survey: finished after {report.seconds:.0f} s{_accuracy(report.sigma_m)}: {found}"
        )
        target = self._arguments.save
        if target:
            _save(Path(target), found, report.sigma_m, report.seconds)
            self._say(f"survey: written to {target}; the next time give --position {target}")
            if not (self._arguments.tcp or self._arguments.ntrip or self._arguments.upload):
                self._end(0)


_ROVER_TEXTS = {
    "joined": "gets corrections",
    "left": "has left",
    "too_slow": "takes too little data, disconnected",
    "too_many": "refused, too many connections",
    "table": "asked for the source table",
    "wrong_password": "refused, wrong name or password",
    "unknown_mountpoint": "refused, it asked for another mountpoint",
    "not_ready": "refused, the position of the base is not known yet",
    "bad_request": "refused, its request is not NTRIP",
}


def _geodetic(ecef_m: Sequence[float]) -> PositionFile:
    latitude_rad, longitude_rad, height_m = ecef_to_geodetic(*ecef_m)
    return PositionFile(degrees(latitude_rad), degrees(longitude_rad), height_m)


def _length(metres: float) -> str:
    return f"{metres * 1e-3:.1f} km" if metres >= 10_000.0 else f"{metres:.0f} m"


def _accuracy(sigma_m: float) -> str:
    return f", accuracy {sigma_m:.2f} m" if isfinite(sigma_m) else ""


def _save(path: Path, found: PositionFile, sigma_m: float, seconds: float) -> None:
    lines = [
        (
            "# Position of a base station, surveyed by vehicled base. The height is above the "
            "ellipsoid."
        ),
        *(f"{name} = {text}" for name, text in zip(found._fields, str(found).split(","))),
        f"surveyed = {datetime.now(UTC).isoformat(timespec='seconds')}",
        f"seconds = {seconds:.0f}",
        *([f"sigma_m = {sigma_m:.3f}"] if isfinite(sigma_m) else []),
    ]
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}") from error
