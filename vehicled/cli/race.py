"""Command ``vehicled race``: the race line of a track, and lap times of controllers on it."""

import re
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vehicled.core.errors import SetupError
from vehicled.run.argument_types import JOBS, KEY, PROFILE, NameType, between, whole
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_output, check_plot_file, write_output
from vehicled.run.terminal import Progress, print_table

if TYPE_CHECKING:
    from vehicled.offline.race.drive import DrivenLap
    from vehicled.offline.race.line import RaceLine

CONTROLLERS = "pure_pursuit,stanley,mpc"


def _tracks(text: str, before: Namespace) -> list[str]:
    from vehicled.offline.race.source import names
    from vehicled.paths import scenes

    return [*names(), *scenes.names()]


def _controllers(text: str) -> list[str]:
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise ArgumentTypeError("expected names of controllers, separated by commas")
    return found


TRACK = NameType(_tracks, or_file=True)


def declare_race(parser: CommandParser) -> None:
    """Find the fastest line of a track under the limits of a vehicle, write it as a course file,
    and drive it in the simulator with several controllers."""
    parser.describe(
        examples=(
            "vehicled race race_track --profile f1tenth --plot race.png",
            "vehicled race Spielberg_centerline.csv --profile f1tenth --controllers mpc",
            "vehicled race hall.yaml --profile roboracer    a map of ROS map_server",
            "vehicled race club --profile opencav --line curvature --controllers none",
        ),
        epilog=(
            "Exit status: 0 the line was written and every drive finished; 1 a drive did not "
            "finish; 2 invalid arguments, or a track that cannot be raced on. See docs/racing.md."
        ),
    )
    parser.add_argument(
        "track",
        type=TRACK,
        metavar="TRACK",
        help=(
            "name of a track or a scene, or a file: centre line with widths (.csv), map (.yaml), "
            "scene (.toml)"
        ),
    )
    parser.add_argument(
        "--profile", type=PROFILE, default="f1tenth", metavar="P", help="vehicle (default f1tenth)"
    )
    parser.add_argument(
        "--set",
        type=KEY,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a value of the profile; may be repeated",
    )
    line = parser.add_argument_group("line")
    line.add_argument(
        "--line",
        choices=("time", "curvature", "shortest", "mix", "centre"),
        default="time",
        help=(
            "least lap time (default), least curvature, shortest path, a mix of both, or the "
            "centre line"
        ),
    )
    line.add_argument(
        "--mix",
        type=between(0.0, 1.0, "expected a weight from 0 to 1"),
        default=0.5,
        metavar="W",
        help="weight of the shortest path for --line mix (default 0.5)",
    )
    line.add_argument(
        "--margin",
        type=between(0.0, 100.0, "expected metres from 0 to 100"),
        metavar="M",
        help="distance of the body from the walls (default half of its width)",
    )
    line.add_argument(
        "--use",
        type=between(0.1, 1.0, "expected a fraction from 0.1 to 1"),
        default=0.9,
        metavar="X",
        help="fraction of the vehicle's accelerations that the line uses (default 0.9)",
    )
    line.add_argument("--reverse", action="store_true", help="drive the track the other way round")
    drives = parser.add_argument_group("drives")
    drives.add_argument(
        "--controllers",
        type=_controllers,
        default=_controllers(CONTROLLERS),
        metavar="NAMES",
        help=f"controllers that drive the line, or none (default {CONTROLLERS})",
    )
    drives.add_argument(
        "--tuned",
        action="store_true",
        help=(
            "leave the speed control of each controller as the profile has it, instead of the "
            "accelerations of the line"
        ),
    )
    drives.add_argument(
        "--seed", type=whole(0, 2**32 - 1, "expected a whole number from 0"), default=0,
        metavar="N", help="seed of the noise (default 0)",
    )  # fmt: skip
    drives.add_argument(
        "--jobs", type=JOBS, metavar="N", help="processes (default: one for each core)"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=(
            "course file to write, and beside it a scene with the walls of a track that has none "
            "(default race_TRACK.csv)"
        ),
    )
    output.add_argument(
        "--plot", metavar="FILE", help="draw track, line and laps (.png, .pdf or .svg)"
    )
    output.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Make the line of a track and drive it. Raises the errors of tracks, profiles and drives."""
    from vehicled.offline.race.drive import course_text, drive_line
    from vehicled.offline.race.limits import MARGIN_RATIO, limits_of
    from vehicled.offline.race.line import race_line
    from vehicled.offline.race.source import load_track, walls_scene
    from vehicled.profile import load
    from vehicled.profile.registry import names as registered

    course = _course_file(arguments)
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    controllers = [] if arguments.controllers == ["none"] else arguments.controllers
    unknown = [
        name for name in controllers if name.isidentifier() and name not in registered("controller")
    ]
    if unknown:
        raise SetupError(
            f"--controllers: no controller {unknown[0]!r}; known: "
            f"{', '.join(sorted(registered('controller')))}"
        )
    overrides = tuple(arguments.set)
    profile = load(arguments.profile, overrides).profile
    source = load_track(arguments.track)
    track = source.track.reversed() if arguments.reverse else source.track
    margin = (
        MARGIN_RATIO * profile.vehicle.width_m if arguments.margin is None else arguments.margin
    )
    progress = Progress()
    try:
        line = race_line(
            track,
            limits_of(profile.vehicle, profile.limits, fraction=arguments.use),
            arguments.line,
            margin_m=margin,
            mix=arguments.mix,
            progress=progress.update,
        )
        write_output(course, course_text(line, Path(arguments.track).stem))
        scene = source.scene
        if not scene:
            file = course.with_suffix(".toml")
            write_output(file, walls_scene(track))
            scene = str(file)
        if controllers:
            progress.update(f"driving with {', '.join(controllers)}")
        laps = (
            drive_line(
                line,
                arguments.profile,
                profile,
                overrides,
                course,
                scene,
                controllers,
                seed=arguments.seed,
                jobs=arguments.jobs,
                tuned=arguments.tuned,
            )
            if controllers
            else []
        )
    finally:
        progress.close()
    if arguments.plot:
        from vehicled.offline.race.picture import plot_race

        plot_race(line, laps, arguments.plot)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(_facts(line, laps, course, scene))).decode())
    else:
        _show(line, laps, course, scene, arguments)
    return 0 if all(lap.finished for lap in laps) else 1


def _course_file(arguments: Namespace) -> Path:
    """Return the file of the course. A file that this command did not write is not replaced."""
    from vehicled.offline.race.drive import MARK

    if arguments.output:
        file = Path(arguments.output).expanduser()
        if file.suffix.lower() != ".csv":
            raise SetupError(f"--output {file}: a course file ends in .csv; choose such a name")
    else:
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", Path(arguments.track).stem)[:60] or "track"
        file = Path(f"race_{stem}.csv")
    check_output("--output", file)
    if file.exists():
        with file.open(encoding="utf-8", errors="replace") as text:
            first = text.readline()
        if MARK not in first:
            raise SetupError(
                f"{file}: exists already and is no race line, so it is not overwritten: choose "
                "another name with --output"
            )
    return file


def _facts(line: "RaceLine", laps: list["DrivenLap"], course: Path, scene: str) -> dict[str, Any]:
    return {
        "track": line.track.name, "track_m": line.track.length_m,
        "counter_clockwise": line.track.counter_clockwise, "objective": line.objective,
        "course": str(course), "scene": scene, "line_m": line.length_m,
        "ideal_s": line.lap.time_s, "centre_s": line.centre_time_s,
        "clearance_m": line.clearance_m, "clearance_at_m": line.clearance_at_m,
        "fastest_mps": float(line.speed_mps.max()), "slowest_mps": float(line.speed_mps.min()),
        "laps": [
            {
                "controller": lap.controller, "finished": lap.finished, "why": lap.why,
                "lap_s": lap.lap_s, "ratio": lap.ratio,
                "cross_track_max_m": lap.cross_track_max_m, "contacts": lap.contacts,
                "slips": lap.slips, "digest": lap.digest,
            }
            for lap in laps
        ],
    }  # fmt: skip


def _show(
    line: "RaceLine", laps: list["DrivenLap"], course: Path, scene: str, arguments: Namespace
) -> None:
    track = line.track
    direction = "counter-clockwise" if track.counter_clockwise else "clockwise"
    width = track.left_m + track.right_m
    rows = [
        [
            "track",
            f"{track.length_m:.1f} m {direction}, {width.min():.2f} to {width.max():.2f} m wide",
        ],
        *(["", remark] for remark in track.remarks),
        ["line", f"{line.objective}, {line.length_m:.1f} m"],
        [
            "ideal lap",
            f"{line.lap.time_s:.2f} s; centre line {line.centre_time_s:.2f} s",
        ],
        ["speed", f"{line.speed_mps.min():.2f} to {line.speed_mps.max():.2f} m/s"],
        [
            "nearest wall",
            (
                f"{line.clearance_m:.3f} m at ({line.clearance_at_m[0]:.2f}, "
                f"{line.clearance_at_m[1]:.2f}) m"
            ),
        ],
        ["course", f"{course}; scene: {scene}"],
    ]
    print_table(f"race line of {track.name}", ["", ""], rows)
    if laps:
        print_table(
            "flying laps in the simulator",
            ["controller", "lap", "over ideal", "cross-track max", "contacts", "slips", "result"],
            [
                [
                    lap.controller,
                    "-" if lap.lap_s != lap.lap_s else f"{lap.lap_s:.2f} s",
                    "-" if lap.lap_s != lap.lap_s else f"{lap.ratio:.3f}",
                    f"{lap.cross_track_max_m:.3f} m",
                    str(lap.contacts),
                    str(lap.slips),
                    "finished" if lap.finished else lap.why,
                ]
                for lap in laps
            ],
        )
    if arguments.plot:
        print(f"plot: {arguments.plot}")
