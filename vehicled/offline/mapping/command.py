"""Command ``vehicled map build``."""

from argparse import Namespace
from math import cos, degrees, sin
from pathlib import Path

import msgspec
import numpy as np

from vehicled.core.arrays import Array
from vehicled.maps.map_file import write_map
from vehicled.offline.mapping.build import (
    UNSEEN_M,
    Mapped,
    TrajectoryError,
    build_together,
    trajectory_error,
)
from vehicled.offline.mapping.drive import MappingDrive
from vehicled.offline.mapping.errors import MappingDriveError
from vehicled.offline.mapping.live import LiveMapping, MapWriter, follow, give_way
from vehicled.offline.mapping.quality import WINDOW_M
from vehicled.offline.mapping.reading import read
from vehicled.offline.recordings import mcap
from vehicled.paths.datum import Datum
from vehicled.paths.recorded import recorded
from vehicled.run.argument_types import FILE, LOG, between
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_output, check_plot_file, write_failed, write_output
from vehicled.run.terminal import Progress

SPACING_M = 0.1
MOST_REFUSED = 0.2
"""Fraction of refused closures from which a map is doubtful."""
MOST_RATIO, MOST_COURSE_RAD = 0.2, 0.2
"""Differences of turns and distances, and of the direction of motion, from which scans and odometry
contradict each other."""
_RESOLUTION = between(0.01, 1.0, "expected a cell of 0.01 to 1 m")
_EVERY = between(1.0, 3600.0, "expected 1 to 3600 s")
_OFFSET = between(-100.0, 100.0, "expected metres from -100 to 100")


def declare_map_build(parser: CommandParser) -> None:
    """Match the scans of a drive to each other, close its loops and write the map in the format of
    ROS map_server: a YAML file and a PGM image. Several drives of the same place make one map.
    Reads logs, ROS 1 and ROS 2 bags (LaserScan, Odometry) and CARMEN logs.
    """
    parser.describe(
        examples=(
            "vehicled map build latest -o hall.yaml --plot hall.png",
            "vehicled map build latest -o hall.yaml --path line.csv",
            "vehicled map build monday.mcap tuesday.mcap -o hall.yaml",
            "vehicled map build intel.log.gz -o intel.yaml",
            "vehicled map build latest --live -o hall.yaml",
        ),
        epilog=(
            "Exit status: 0 written; 2 invalid arguments, or the log shows nothing that can be "
            "mapped. See docs/mapping.md."
        ),
    )
    parser.add_argument(
        "log",
        type=LOG,
        nargs="+",
        metavar="LOG",
        help="logs, bags or CARMEN logs of drives; latest: the newest log",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=FILE,
        required=True,
        metavar="YAML",
        help="map file; the image is written beside it as .pgm",
    )
    parser.add_argument(
        "--resolution",
        type=_RESOLUTION,
        default=0.05,
        metavar="M",
        help="size of a cell, m (default 0.05)",
    )
    parser.add_argument(
        "--lidar", type=_OFFSET, nargs=2, default=(0.0, 0.0), metavar=("X", "Y"),
        help="scanner from the rear axle, forward and left, m, for files that do not say it",
    )  # fmt: skip
    parser.add_argument(
        "--ignore-gnss",
        action="store_true",
        help="map by scans and motion alone; the first pose is then the origin",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="map the drive that is being recorded in LOG, and write the map again and again until "
        "it ends or Ctrl-C",
    )
    parser.add_argument(
        "--every",
        type=_EVERY,
        default=5.0,
        metavar="S",
        help="with --live: time between two maps, s; longer where drawing takes long (default 5)",
    )
    parser.add_argument(
        "--path",
        metavar="CSV",
        help="write the driven path on the map as a course; of several drives the last one",
    )
    parser.add_argument(
        "--trajectory",
        metavar="FILE",
        help="write the poses of the keyframes in the format of TUM (for evo); of several drives "
        "those of the last one",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the map with the driven path (.png, .svg, .pdf)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=build_map)


def build_map(arguments: Namespace) -> int:
    """Build and write the map, and print what it rests on."""
    out = Path(arguments.output)
    if out.suffix.lower() not in (".yaml", ".yml"):
        raise MappingDriveError(
            f"{out}: a map is a YAML file with an image beside it: choose a name that ends in .yaml"
        )
    check_output("--output", out)
    for option in ("path", "trajectory"):
        if getattr(arguments, option):
            check_output(f"--{option}", Path(getattr(arguments, option)))
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    _check_libraries()
    line, live, warning = Progress(), None, ""
    try:
        if arguments.live:
            live, warning = _followed(arguments, out, line)
            drives = [live.drive]
        else:
            drives = [read(Path(log), tuple(arguments.lidar)) for log in arguments.log]
            if arguments.ignore_gnss:
                drives = [drive.without_gnss() for drive in drives]
        mapped = build_together(
            drives,
            arguments.resolution,
            lambda what, share: line.update(f"{what} {100 * share:.0f} %"),
            None if live is None else live.keyframes,
        )
    finally:
        line.close()
    try:
        image = write_map(out, mapped.grid)
    except OSError as failure:
        raise write_failed(out, failure) from None
    if live is not None:
        MapWriter(out).clean()
    scans = live.scans if live is not None else sum(len(each.scans) for each in drives)
    error = trajectory_error(drives, mapped)
    newest = mapped.drive(len(drives) - 1)
    if arguments.trajectory:
        write_output(Path(arguments.trajectory), _tum(newest))
    if arguments.path:
        path = Path(arguments.path)
        write_output(path, course_text(drives[-1], newest, path.stem, drives[0].datum))
    if arguments.plot:
        from vehicled.offline.mapping.picture import plot_map

        plot_map(mapped, arguments.plot)
    if arguments.json:
        facts = _facts(out, scans, len(drives), mapped, error)
        print(msgspec.json.encode(facts | ({"warning": warning} if warning else {})).decode())
    else:
        _print(out, image, scans, len(drives), mapped, error)
        if gaps := sum(drive.gaps for drive in drives):
            print(
                f"warning: the log lacks messages {gaps} times, because its disk was too slow: "
                "look at the disk, and drive there again"
            )
        if warning:
            print(f"warning: {warning}")
    return 0


def _followed(arguments: Namespace, out: Path, line: Progress) -> tuple[LiveMapping, str]:
    """Map the drive that is being recorded, until it ends."""
    log = Path(arguments.log[0])
    if len(arguments.log) > 1:
        raise MappingDriveError(
            "--live follows one log: build the map of several drives when they have ended"
        )
    if log.suffix != ".mcap" or not log.is_file() or not mcap.is_ours(log):
        raise MappingDriveError(f"{log}: --live follows a log (.mcap) that vehicled records")
    give_way()
    return follow(
        log,
        out,
        arguments.resolution,
        with_gnss=not arguments.ignore_gnss,
        every_s=arguments.every,
        show=line.update,
    )


def _check_libraries() -> None:
    try:
        import scipy  # noqa: F401
    except ImportError:
        raise MappingDriveError(
            'building maps needs scipy from the extra "mapping": pip install "vehicled[mapping]"'
        ) from None


def _facts(
    out: Path, scans: int, drives: int, mapped: Mapped, error: TrajectoryError | None
) -> dict[str, object]:
    rows, columns = mapped.grid.cells.shape
    q = mapped.quality
    return {
        "map": str(out), "drives": drives, "scans": scans,
        "keyframes": len(mapped.frames),
        "path_m": mapped.frames[-1].path_m, "columns": columns, "rows": rows,
        "resolution_m": mapped.grid.resolution_m, "closures": mapped.closures,
        "closures_refused": mapped.refused, "gnss_positions": mapped.places,
        "unmatched": mapped.unmatched, "drift_m": q.drift_m, "closure_residual_m": q.residual_m,
        "bend_m": q.bend_m, "bend_sigmas": q.bend_sigmas, "expected_error_m": q.sigma_m,
        "unseen_m": mapped.unseen_m, "odometry": q.odometry and q.odometry._asdict(),
        "revisits": len(q.revisits),
        "not_closed": [
            {"x_m": r.x_m, "y_m": r.y_m, "from_m": r.begin_m, "to_m": r.end_m, "reason": r.reason}
            for r in q.open_revisits
        ],
        "ate_m": error and error.rms_m, "ate_largest_m": error and error.largest_m,
        "yaw_rms_rad": error and error.rms_rad, "aligned": error and error.aligned,
    }  # fmt: skip


def _print(
    out: Path,
    image: Path,
    scans: int,
    drives: int,
    mapped: Mapped,
    error: TrajectoryError | None,
) -> None:
    grid, frames = mapped.grid, mapped.frames
    rows, columns = grid.cells.shape
    size = f"{columns * grid.resolution_m:.1f} m x {rows * grid.resolution_m:.1f} m"
    print(f"{out} and {image.name}: {size}, cells of {grid.resolution_m:g} m")
    print(
        f"{scans} scans over {frames[-1].path_m:.1f} m"
        f"{'' if drives == 1 else f' of {drives} drives'}; {len(frames)} keyframes, "
        f"{mapped.unmatched} of them unmatched"
    )
    for line in quality_lines(mapped):
        print(line)
    if error is not None:
        laid = ", map laid over the truth" if error.aligned else ""
        print(
            f"error against the truth: {error.rms_m:.3f} m root mean square, "
            f"{error.largest_m:.3f} m at most{laid}"
        )


def quality_lines(mapped: Mapped) -> list[str]:
    """Return what the drive itself shows about its map, and what to do about it."""
    q, frames = mapped.quality, mapped.frames
    refused = (
        f", {mapped.refused} refused because they contradict the rest" if mapped.refused else ""
    )
    lines = [f"{mapped.closures} loop closures{refused}; {mapped.places} positions by GNSS"]
    if mapped.closures:
        lines.append(
            f"loops took out up to {q.drift_m:.2f} m of drift over {q.drift_path_m:.0f} m; "
            f"they agree to {q.residual_m:.3f} m"
        )
    lines += [
        f"warning: no loop closed at ({each.x_m:.1f}, {each.y_m:.1f}) m, driven "
        f"{each.begin_m:.0f} to {each.end_m:.0f} m, where it had been at {each.earlier_m:.0f} m: "
        f"{each.reason}"
        for each in q.open_revisits
    ]
    if mapped.refused > MOST_REFUSED * (mapped.closures + mapped.refused):
        lines.append(
            "warning: many loop closures contradict each other: look for double walls "
            "(--plot), and drive there again"
        )
    lines += odometry_lines(mapped)
    if q.bent:
        lines.append(
            f"warning: the map is bent at ({q.bend_place_m[0]:.1f}, {q.bend_place_m[1]:.1f}) m: "
            f"its loops move the path by {q.bend_m:.2f} m within {WINDOW_M:g} m; drive there "
            "again, slower, and look at the scanner and its mounting"
        )
    if mapped.unmatched > 0.1 * len(frames):
        lines.append(
            "warning: many scans fit to nothing that was seen before; drive slower, and look "
            "at the scanner and its mounting"
        )
    if not q.revisits and not mapped.places:
        lines.append(
            "warning: the drive never came back to where it had been, so its drift stays in the "
            "map: drive the same way twice, or back to where you started"
        )
    lines.append(
        f"expected error: {q.sigma_m:.2f} m (one standard deviation), largest at "
        f"({q.sigma_place_m[0]:.1f}, {q.sigma_place_m[1]:.1f}) m"
    )
    return lines


def odometry_lines(mapped: Mapped) -> list[str]:
    """Return what contradicts the odometry, and what to do about it."""
    lines, compared = [], mapped.quality.odometry
    if mapped.unseen_m > UNSEEN_M:
        lines.append(
            f"warning: over {mapped.unseen_m:.0f} m by odometry the scans show no motion: the "
            "scanner stood still or sent nothing there; look at it, and drive again"
        )
    if compared is None:
        return lines
    if not abs(compared.turn_ratio - 1.0) < MOST_RATIO:
        lines.append(
            f"warning: by the scans the vehicle turned {compared.turn_ratio:.2f} times as much as "
            "by its odometry: look at angle_increment, at the gyro, and whether something covers "
            "the scanner"
        )
    if not abs(compared.distance_ratio - 1.0) < MOST_RATIO:
        lines.append(
            f"warning: by the scans the vehicle moved {compared.distance_ratio:.2f} times as far "
            "as by its odometry: look at wheel radius and gear, and whether something covers the "
            "scanner"
        )
    elif abs(compared.course_rad) > MOST_COURSE_RAD:
        side = "left" if compared.course_rad > 0.0 else "right"
        lines.append(
            f"warning: by the scans the vehicle moves {degrees(abs(compared.course_rad)):.0f} "
            f"degrees to the {side} of where it points: state how the scanner is turned"
        )
    return lines


def _tum(mapped: Mapped) -> str:
    lines = [
        (
            f"{k.t_ns * 1e-9:.9f} {p.x_m:.4f} {p.y_m:.4f} 0 0 0 {sin(0.5 * p.yaw_rad):.6f} "
            f"{cos(0.5 * p.yaw_rad):.6f}"
        )
        for k, p in zip(mapped.frames, mapped.poses)
    ]
    return "\n".join([*lines, ""])


def driven(drive: MappingDrive, mapped: Mapped) -> tuple[Array, Array, Array, Array]:
    """Return time, x, y and yaw (n,) of the whole drive on the map: dead reckoning, bent to the
    keyframes."""
    if drive.odometry is None:
        t_s = np.array([k.t_ns * 1e-9 for k in mapped.frames])
        columns = np.array(mapped.poses).T
        return t_s, columns[0], columns[1], np.unwrap(columns[2])
    own = drive.odometry
    inside = (own.t_ns >= mapped.frames[0].t_ns) & (own.t_ns <= mapped.frames[-1].t_ns)
    t_ns, ox, oy, oyaw = own.t_ns[inside], own.x_m[inside], own.y_m[inside], own.yaw_rad[inside]
    keys = np.array([k.t_ns for k in mapped.frames])
    # The pose of the odometry's frame on the map at each keyframe, on straight lines between them.
    frames = []
    for key, pose in zip(mapped.frames, mapped.poses):
        there = own.pose(key.t_ns)
        yaw = pose.yaw_rad - there.yaw_rad
        c, s = cos(yaw), sin(yaw)
        frames.append(
            (
                pose.x_m - c * there.x_m + s * there.y_m,
                pose.y_m - s * there.x_m - c * there.y_m,
                yaw,
            )
        )
    fx, fy, turn = np.array(frames).T
    turn = np.unwrap(turn)
    at = (t_ns - keys[0]) * 1e-9
    own_s = (keys - keys[0]) * 1e-9
    # Where the frame is far away, its turn must not be interpolated apart from its place: blend the
    # two placements of each pose.
    k = np.clip(np.searchsorted(own_s, at, side="right") - 1, 0, len(own_s) - 2)
    share = np.clip((at - own_s[k]) / (own_s[k + 1] - own_s[k]), 0.0, 1.0)
    x, y, way = np.zeros(len(at)), np.zeros(len(at)), np.zeros(len(at))
    for index, weight in ((k, 1.0 - share), (k + 1, share)):
        c, s = np.cos(turn[index]), np.sin(turn[index])
        x += weight * (fx[index] + c * ox - s * oy)
        y += weight * (fy[index] + s * ox + c * oy)
        way += weight * (oyaw + turn[index])
    return np.asarray(t_ns * 1e-9), x, y, way


def course_text(drive: MappingDrive, mapped: Mapped, name: str, datum: Datum | None = None) -> str:
    """Return the driven path on the map as the text of a course file. ``datum``: that of the map if
    it is not the drive's. Raises :class:`CourseError`."""
    t_s, x, y, yaw = driven(drive, mapped)
    dt = np.maximum(np.gradient(t_s), 1e-6)
    speed = (np.gradient(x) * np.cos(yaw) + np.gradient(y) * np.sin(yaw)) / dt
    window = max(round(0.3 / float(np.median(dt))), 1)
    speed = np.convolve(
        np.pad(speed, window // 2, mode="edge"), np.ones(window) / window, mode="valid"
    )[: len(t_s)]
    path = recorded(t_s, x, y, yaw, speed, spacing_m=SPACING_M)
    return path.to_csv(name[:60], datum or drive.datum or Datum(0.0, 0.0, 0.0))
