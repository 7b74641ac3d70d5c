"""Public recordings: where their authors publish them, under which licence, and how to get them
into the layout that is read here.

Nothing is bundled. Every file is named by a commit of the authors' repository, so that its address
always gives the same bytes. Files are fetched one by one: there is no archive to unpack, and what
is written is named by this table, never by the network.
"""

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException, HTTPMessage
from math import isfinite
from pathlib import Path
from typing import IO

from msgspec import Struct, structs

from vehicled.offline.recordings.errors import RecordingError

DATA_FOLDER = "~/vehicled/data"
"""Default folder of fetched data, and of the commands that read it."""
SOURCE = "https://raw.githubusercontent.com"
MAX_FILE_BYTES = 16 * 1024 * 1024
"""Larger than any file of the table by far."""
TIMEOUT_S = 30.0
ROW_S = 0.1
"""Period of the loggers that wrote no time."""

Fetch = Callable[[str], bytes]


class PublicFile(Struct, frozen=True):
    """A file to fetch. ``columns`` names the columns of a table without header; empty keeps the
    bytes as they are."""

    path: str
    """Target path, relative to the folder of its data set."""
    origin: str
    """OWNER/REPOSITORY/COMMIT/PATH."""
    columns: tuple[str, ...] = ()
    sha256: str = ""
    """Hash of the published file, hex."""


class DataSet(Struct, frozen=True):
    """Recordings that belong together. An empty ``licence`` means that the authors state none."""

    name: str
    what: str
    licence: str
    page: str
    """Address of the authors' repository, for people."""
    size_mb: float
    files: tuple[PublicFile, ...]


_LAPS = (
    "gps_x_m", "gps_y_m", "rtk_x_m", "rtk_y_m", "ekf_x_m", "ekf_y_m", "ekf_heading_rad",
    "ekf_speed_mps", "throttle_cmd", "steering_cmd", "gyro_yaw_rad", "gyro_roll_rad",
    "gyro_pitch_rad", "rtk_diff_speed_mps",
)  # fmt: skip
_PATH = (
    "x_m", "y_m", "heading_rad", "e_ahead_m", "e_left_m", "e_heading_rad", "e_speed_mps",
    "throttle_cmd", "steering_cmd",
)  # fmt: skip
_MOCAP = (
    "noisy_x_m", "noisy_y_m", "mocap_x_m", "mocap_y_m", "ekf_x_m", "ekf_y_m", "mocap_heading_rad",
    "throttle_cmd", "steering_cmd", "stamp_s",
)  # fmt: skip
_CIRCLE = (*_LAPS[:10], "col10_unverified")
_WAYPOINTS = ("x_m", "y_m", "heading_rad", "speed_mps")

_SBEL = "uwsbel/sbel-reproducibility"
_ART = "uwsbel/autonomy-research-testbed"
_ML = "harryzhang1018/ML_Control"
_CIRCLES = "harryzhang1018/Reality_Testing_Data_Lib"
_GPSD = "ntpsec/gpsd"
_TESTING = (
    f"{_SBEL}/701b3294f8b69e20ab42c4475fb8bca21aaa76c0/2024/PathFollowingSim2real/TestingData"
)
_MODEL_2 = f"{_SBEL}/2348b2aa45859ad2ab1fe10d306ff4f8b02c9b51/2023/Unjhawala-IEEE-ExpressiveVM"
_MOCAP_2 = f"{_MODEL_2}/calibration/ART/data"
_MOCAP_1 = f"{_SBEL}/b1deb676c713af6780da04f68b1781e188ca3762/2023/8DOF-ROM/calibration/ART/data"
_PLANNING = (
    f"{_ART}/a48d51be4695b0e395b62f5d6eb5c4b5f19ee4a4/workspace/src/path_planning/path_planning"
)


def _path_following() -> tuple[PublicFile, ...]:
    files = []
    for place in ("lot17", "rd_path", "syn_path"):
        # The networks' laps of lot17 have other columns: they are in the set of those.
        laws = ("mpc", "pid") if place == "lot17" else ("mpc", "pid", "nn_mpc", "nn_mc")
        for law in laws:
            files += [
                PublicFile(
                    f"real/{place}/{law}_{n}.csv",
                    f"{_TESTING}/{place}/{law}_{n}.csv",
                    ("time_nominal_s", *_PATH),
                )
                for n in range(1, 6)
            ]
        files += [
            PublicFile(
                f"sim/{place}/{law}.csv",
                f"{_TESTING}/{place}/sim_{law}.csv",
                ("time_nominal_s", *_PATH),
            )
            for law in ("mpc", "pid", "nn_mpc", "nn_mc")
        ]
    return tuple(files)


def _mocap() -> tuple[PublicFile, ...]:
    # The same recordings lie in two folders of the repository; each one is fetched where it is
    # known to be.
    first = {"Sin_2": (0, 1, 7, 8, 9), "Sin_3": (1, 2, 4, 6, 9)}
    files = []
    for course, numbers in first.items():
        for n in range(10):
            root = _MOCAP_1 if n in numbers else _MOCAP_2
            files.append(
                PublicFile(
                    f"{course.lower()}/r{n}.csv",
                    f"{root}/ART1_032523_mocap/raw/{course}/r{n}.csv",
                    ("time_s", *_MOCAP),
                )
            )
    return tuple(files)


def _with_hashes(data: DataSet, hashes: Mapping[str, str]) -> DataSet:
    """Return a data set whose files have the hashes of their paths."""
    files = (
        structs.replace(file, sha256=hashes[f"{data.name}/{file.path}"]) for file in data.files
    )
    return structs.replace(data, files=tuple(files))


def _hashes() -> dict[str, str]:
    """Return the hash of each published file by data set and path; ``sha256sum`` reads the same
    format."""
    lines = Path(__file__).with_suffix(".sha256").read_text().splitlines()
    return {path: digest for digest, path in (line.split("  ") for line in lines)}


_HASHES = _hashes()

DATA_SETS: dict[str, DataSet] = {
    data.name: _with_hashes(data, _HASHES)
    for data in (
        DataSet(
            "lot17_rtk_gps_2023",
            "ART 1/6 car, laps of a car park: plain GNSS, RTK, gyro, the filter on board",
            "",
            f"https://github.com/{_SBEL}",
            9.0,
            (
                *(
                    PublicFile(
                        f"single_speed/nn_{law}_{n}.csv",
                        f"{_TESTING}/lot17/{law}_bb_{n}.csv",
                        ("time_nominal_s", *_LAPS),
                    )
                    for law in ("mc", "mpc")
                    for n in range(1, 6)
                ),
                *(
                    PublicFile(
                        f"multi_speed/nn_{law}_{n}.csv",
                        f"{_ML}/8ec18ba4150a1183c2e2a3a6cca1151fd74c0152/ICRA2024_plots/data/ms_{law}_bb_{n}.csv",
                        ("time_nominal_s", *_LAPS),
                    )
                    for law in ("mc", "mpc")
                    for n in range(1, 6)
                ),
            ),
        ),
        DataSet(
            "path_following_2024",
            (
                "ART 1/6 car and its simulator: three paths, four controllers, error state and "
                "commands"
            ),
            "",
            f"https://github.com/{_SBEL}",
            10.0,
            _path_following(),
        ),
        DataSet(
            "mocap_ekf_mpc_2023",
            "ART 1/6 car indoors: noisy positions, motion-capture truth",
            "",
            f"https://github.com/{_SBEL}",
            0.5,
            _mocap(),
        ),
        DataSet(
            "art_circle_2023",
            "ART 1/6 car: circles at constant commands, RTK",
            "",
            f"https://github.com/{_CIRCLES}",
            0.2,
            tuple(
                PublicFile(
                    f"{name}.csv",
                    f"{_CIRCLES}/742dbd504cc42e532159591c2efd2d62bee82b21/Circle/{name}.csv",
                    ("time_nominal_s", *_CIRCLE),
                )
                for name in ("single_circle", "circle_r1")
            ),
        ),
        DataSet(
            "reference_paths",
            "waypoints of the courses that those drives follow",
            "MIT",
            f"https://github.com/{_ART}",
            0.1,
            tuple(
                PublicFile(f"{ours}.csv", f"{_PLANNING}/{theirs}.csv", _WAYPOINTS)
                for ours, theirs in (
                    ("lot17_sinsquare_sv", "lot17_sinsquare_sv"),
                    ("lot17_sinsquare_multi_vels", "lot17_sinsquare_multi_vels"),
                    ("mocap_sin_1", "Sin_Traj_Mocap_1"),
                    ("mocap_sin_2", "Sin_Traj_Mocap_2"),
                    ("mocap_sin_3", "Sin_Traj_Mocap_3"),
                    ("mocap_circle", "Circle_Traj_Mocap"),
                    ("u_shape", "U_Shape"),
                    ("straight_20m", "straight_line_20"),
                )
            ),
        ),
        DataSet(
            "captures",
            "bytes of real u-blox receivers and an Xsens IMU, for vehicled devices decode",
            "BSD-2-Clause (gpsd), BSD-3-Clause (pyubx2), MIT (xsens-go)",
            f"https://github.com/{_GPSD}",
            0.2,
            (
                PublicFile(
                    "gnss/gpsd__ublox-zed-f9r.log",
                    f"{_GPSD}/2fc6e816c935ec3936a01a67f43fdb9f121db969/test/daemon/ublox-zed-f9r.log",
                ),
                PublicFile(
                    "gnss/gpsd__ublox-zed-f9p-rtk.log",
                    f"{_GPSD}/dda46d739d64d20a32f61a60ecb9f716d1f3d9d5/test/daemon/ublox-zed-f9p-rtk.log",
                ),
                PublicFile(
                    "gnss/pyubx2__pygpsdata-MIXED.log",
                    "semuconsulting/pyubx2/1b36e02c63fcd1b12d13f3496c41c455bffbe2b4/tests/pygpsdata-MIXED.log",
                ),
                PublicFile(
                    "imu/xsens-go__1_output.bin",
                    "einride/xsens-go/94c6b945c6f287e5a4aa3d051dde21545f5679d9/testdata/1/output.bin",
                ),
            ),
        ),
    )
}


def chosen(name: str) -> DataSet:
    """Return the data set of that name. Raises :class:`RecordingError` naming those that exist."""
    if name not in DATA_SETS:
        raise RecordingError(
            f"{name}: no such data set; there are {', '.join(DATA_SETS)}: vehicled data list"
        )
    return DATA_SETS[name]


def data_folder(given: str | None, *names: str) -> str:
    """Return the folder to read: the one given, else the default, which must exist. ``names`` are
    the sets that would fill it.

    Raises :class:`RecordingError` with the command that fetches them.
    """
    if given is not None:
        return given
    folder = Path(DATA_FOLDER).expanduser()
    if not folder.is_dir():
        raise RecordingError(
            f"{folder}: no data has been fetched yet; name a folder of recordings, or run: "
            f"vehicled data fetch {' '.join(names)}"
        )
    return str(folder)


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but never from https to something unencrypted."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise RecordingError(
                f"{req.full_url}: redirects to {newurl}, which is not encrypted; nothing was "
                "fetched from there"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(url: str) -> bytes:
    """Return what an address holds, at most ``MAX_FILE_BYTES``. Raises :class:`RecordingError`."""
    if not url.startswith(("https://", "http://")):
        raise RecordingError(f"{url}: an address begins with https:// or http://")
    # Add only these handlers: a default opener would also read file: and ftp: addresses.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _SafeRedirects(),
    ):
        opener.add_handler(handler)
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "vehicled"})  # noqa: S310 - checked above
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            data: bytes = answer.read(MAX_FILE_BYTES + 1)
            announced = answer.headers.get("Content-Length")
    except urllib.error.HTTPError as error:
        error.close()
        cure = (
            "the authors have moved it; look at the page of the data set"
            if error.code == 404
            else "try again later"
        )
        raise RecordingError(
            f"{url}: the server answers {error.code} {error.reason}; {cure}"
        ) from None
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise RecordingError(
            f"{url}: cannot be fetched: {reason}; is there a network? What is fetched already "
            "is kept"
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise RecordingError(
            f"{url}: more than {MAX_FILE_BYTES // 2**20} MiB: not the file that was expected, "
            "nothing was kept"
        )
    if announced is not None and announced.isdecimal() and len(data) < int(announced):
        raise RecordingError(
            f"{url}: the connection broke after {len(data)} of {announced} bytes; run the "
            "command again"
        )
    return data


def with_header(data: bytes, columns: tuple[str, ...], place: str) -> bytes:
    """Return a table of numbers without header as one with it, a first column of time added. Raises
    :class:`RecordingError`.

    ``time_nominal_s`` counts rows of 0.1 s; ``time_s`` is the last column minus its first value,
    and takes its place.
    """
    stamped, nominal = columns[0] == "time_s", columns[0] == "time_nominal_s"
    raw = len(columns) - (1 if stamped or nominal else 0)
    lines = [",".join(columns[:-1] if stamped else columns)]
    first_s = 0.0
    try:
        rows = [row for row in data.decode("ascii").splitlines() if row.strip()]
        for number, row in enumerate(rows):
            fields = row.split(",")
            values = [float(field) for field in fields]
            if len(values) != raw or not all(map(isfinite, values)):
                raise ValueError
            if stamped:
                first_s = first_s if number else values[-1]
                fields = [f"{values[-1] - first_s:.6f}", *fields[:-1]]
            elif nominal:
                fields = [f"{ROW_S * number:.1f}", *fields]
            lines.append(",".join(fields))
    except ValueError:
        raise RecordingError(
            f"{place}: line {len(lines)} is not {raw} numbers: the file is not the one expected"
        ) from None
    if len(lines) < 2:
        raise RecordingError(f"{place}: is empty: the file is not the one expected")
    return ("\n".join(lines) + "\n").encode()


def fetch(
    data: DataSet,
    folder: Path,
    report: Callable[[str], None],
    *,
    source: str = SOURCE,
    get: Fetch = download,
) -> int:
    """Fetch what is missing of a data set into ``folder/NAME``, and return the number of files
    fetched.

    A file appears whole or not at all, so an interrupted fetch goes on where it ended. Raises
    :class:`RecordingError`.
    """
    fetched = 0
    for number, file in enumerate(data.files, start=1):
        target = folder / data.name / file.path
        if target.is_file():
            continue
        report(f"{data.name}: {number} of {len(data.files)}: {file.path}")
        url = f"{source.rstrip('/')}/{file.origin}"
        content = get(url)
        if hashlib.sha256(content).hexdigest() != file.sha256:
            raise RecordingError(
                f"{url}: its content is not the one that is known by its hash; nothing was kept"
            )
        if file.columns:
            content = with_header(content, file.columns, url)
        _write(target, content)
        fetched += 1
    _write(folder / data.name / "ORIGIN.txt", _origin(data).encode())
    return fetched


def _origin(data: DataSet) -> str:
    licence = data.licence or "none stated by the authors: not ours or yours to pass on"
    return f"{data.what}\nPage: {data.page}\nLicence: {licence}\n" + "".join(
        f"{file.path} <- {file.origin}\n" for file in data.files
    )


def _write(target: Path, content: bytes) -> None:
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        os.replace(part, target)
    except OSError as error:
        raise RecordingError(
            f"{target}: cannot be written: {error.strerror or error}; name another folder with --to"
        ) from error
