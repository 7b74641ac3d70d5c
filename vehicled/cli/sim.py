"""Commands ``vehicled sim | simulator``."""

import sys
from argparse import Namespace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from vehicled.cli.drive_options import (
    SECONDS,
    add_backend,
    add_connect_timeout,
    add_mavlink,
    add_mixed,
    add_noise,
    add_profile,
    add_programme,
    add_ros2,
    add_view,
)
from vehicled.core.errors import SetupError
from vehicled.core.messages import Event, Fault, ModeChange
from vehicled.run.argument_types import (
    CONTROLLER,
    ESTIMATOR,
    FAILURE,
    FILE,
    IDENTIFIER,
    LOG,
    SCENE,
    TEXT,
    log_folder,
)
from vehicled.run.command_line import CommandParser
from vehicled.run.spec import START_TIMEOUT_S, VEHICLE_NAME, RunSpec
from vehicled.run.terminal import Progress
from vehicled.runtime.simulator import add_world_options

if TYPE_CHECKING:
    from vehicled.cli.sim_like import Likeness
    from vehicled.daemon.machine import Machine
    from vehicled.run.judge import Judge


_EXIT_STATUS = (
    "Exit status: 0 the true vehicle reached the end of the course, within its lanes, or with "
    "--by-hand was disarmed; 1 it did not, for whatever reason: a fault, a stop, --duration, a "
    "lost simulator; 2 invalid arguments, nothing was driven; 130 interrupted. See "
    "docs/command_line.md."
)


def declare_sim(parser: CommandParser) -> None:
    """Drive a course in the simulator and print the errors, deadlines and safety events of the
    drive."""
    parser.describe(
        examples=(
            "vehicled sim --course figure_eight --controller mpc",
            "vehicled sim --course circle_r5_ccw --laps 3 --plot laps.png",
            "vehicled sim --fail gnss:off@20+5     no fixes from 20 s on, for 5 s",
            "vehicled sim --set limits.max_speed_mps=2 --seed 7",
            "vehicled sim --like latest --controller mpc   the last run, changed",
            "vehicled sim --clock wall --by-hand --view   then: vehicled teleop",
            "vehicled sim --vehicle a=art --vehicle b=art,from_m=5   two in one world",
        ),
        epilog=_EXIT_STATUS,
    )
    what = parser.add_argument_group("what to drive")
    add_profile(what)
    what.add_argument(
        "--controller",
        type=CONTROLLER,
        metavar="NAME",
        help="use this controller instead of the profile's: a name, or a plugin FILE.py:NAME",
    )
    what.add_argument(
        "--estimator",
        type=ESTIMATOR,
        metavar="NAME",
        help="use this estimator instead of the profile's: a name, or a plugin FILE.py:NAME",
    )
    what.add_argument(
        "--identifier",
        type=IDENTIFIER,
        metavar="NAME",
        help="identify the vehicle's parameters while driving: single_track",
    )
    add_programme(what)
    add_noise(what)
    what.add_argument(
        "--by-hand",
        action="store_true",
        help="drive it yourself with 'vehicled teleop'; needs --clock wall; ends when disarmed",
    )
    what.add_argument(
        "--duration",
        type=SECONDS,
        metavar="S",
        help="stop the drive after S seconds of simulated time",
    )
    what.add_argument(
        "--like",
        type=LOG,
        metavar="RUN",
        help="drive the same again in closed loop: profile, course, seed, conditions and plugins "
        "from this log; other options "
        "change it",
    )
    what.add_argument(
        "--code",
        choices=("same", "log", "changed"),
        default="same",
        help="with --like: plugins from their files, which must be unchanged (default), from the "
        "texts in the log, if you "
        "trust it, or from their changed files",
    )
    fleet = parser.add_argument_group("several vehicles in one world")
    fleet.add_argument(
        "--vehicle",
        type=TEXT,
        action="append",
        default=[],
        metavar="NAME=PROFILE[,KEY=VALUE]",
        help="a vehicle of a fleet; repeatable; keys: course, laps, from_m, start, delay_s, seed, "
        "controller, estimator, link, latency, fail, and dotted keys of its profile; see "
        "docs/fleets.md",
    )
    fleet.add_argument(
        "--fleet", type=FILE, metavar="FILE", help="file of a fleet (.toml); see docs/fleets.md"
    )
    world = parser.add_argument_group("simulated world")
    add_world_options(world)
    parser.complete(fail=FAILURE, scene=SCENE)
    world.add_argument(
        "--board",
        metavar="FILE",
        help="replay the task times of a computer measured by vehicled doctor --measure-board",
    )
    world.add_argument(
        "--clock",
        choices=("lockstep", "wall"),
        default="lockstep",
        help="lockstep: as fast as possible and reproducible (default); wall: in real time",
    )
    world.add_argument(
        "--strict-clock",
        action="store_true",
        help="with --clock wall: a stall of this computer counts as missing sensor data, as on a "
        "vehicle; "
        "by default the simulated clock pauses during a stall",
    )
    world.add_argument(
        "--connect",
        type=TEXT,
        metavar="URL",
        help="connect to a running simulator: unix:PATH or tcp:HOST:PORT",
    )
    add_connect_timeout(world)
    world.add_argument(
        "--link-timeout",
        type=SECONDS,
        metavar="S",
        help=(
            "end the run if the simulator sends nothing for S seconds (default 5, with "
            "--strict-clock 0.5)"
        ),
    )
    add_backend(world, "event loop for --clock wall")
    add_mixed(world)
    world.add_argument(
        "--name",
        type=TEXT,
        metavar="NAME",
        help="with --clock wall: name for 'vehicled status --profile NAME' and the like, instead "
        "of the profile's",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--plot", metavar="FILE", help="plot the drive into this file (.png, .pdf or .svg)"
    )
    output.add_argument(
        "--log",
        type=log_folder,
        metavar="DIR",
        help="write the log to this folder instead of the profile's",
    )
    output.add_argument(
        "--no-log", action="store_true", help="write no log; the drive and its digest do not change"
    )
    add_view(output)
    add_ros2(output)
    add_mavlink(output)
    output.add_argument("--json", action="store_true", help="print the result as JSON")
    output.add_argument(
        "--quiet", action="store_true", help="no progress bar, only warnings and errors"
    )
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Drive a course in simulation and print the result."""
    if arguments.vehicle or arguments.fleet:
        from vehicled.cli.fleet import run_fleet

        return run_fleet(arguments)
    if not arguments.like:
        if arguments.code != "same":
            raise SetupError("--code needs --like: it says where the plugins of the log come from")
        return _run(arguments, None)
    from tempfile import TemporaryDirectory

    from vehicled.cli.sim_like import take_over

    with TemporaryDirectory(prefix="vehicled_like_") as folder:
        return _run(arguments, take_over(arguments, Path(folder)))


def _run(arguments: Namespace, likeness: "Likeness | None") -> int:
    # Imported here, because they bring numpy, for which help and completion need not wait.
    from vehicled.run.findings import print_warnings
    from vehicled.run.injected import announce
    from vehicled.run.output import check_plot_file
    from vehicled.run.plan import Plan
    from vehicled.run.result import exit_status
    from vehicled.run.simulation import SimulationSpec, simulate
    from vehicled.runtime.events import EventLog

    _check_options(arguments)
    plan = Plan.of(spec_of(arguments))
    print_warnings(plan.findings)
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    if plan.spec.bridged:
        from vehicled.run.bridges import check_bridges

        check_bridges(plan.spec, plan.loaded.profile.view)
    if not arguments.quiet and not arguments.by_hand:
        for note in plan.course_notes:
            print(f"note: {note}", file=sys.stderr)
    line = _DriveProgress(plan.course.length_m)
    events = EventLog(
        line.progress.above(), json=False, quiet=True, ready=arguments.clock == "wall"
    )
    done = simulate(
        plan,
        SimulationSpec(
            failures=tuple(arguments.fail),
            start=arguments.start or "",
            by_hand=arguments.by_hand,
            connect=arguments.connect or "",
            connect_timeout_s=arguments.connect_timeout or 0.0,
        ),
        keep_trace=bool(arguments.plot),
        listeners=[
            ((Fault, ModeChange, Event), events.record),
            ((Event,), lambda message, log_time_ns: announce(line.progress.above(), message)),
        ],
        progress=None if arguments.quiet else line.show,
        keeps_signal=True,
    )
    line.progress.close()
    result = done.result
    if arguments.json:
        print(result.to_json())
    elif arguments.by_hand:
        print(f"{result.why}; log: {result.log_problem or result.log or 'none written'}")
        if result.log:
            print(f"to save the path as a course: vehicled record-path {result.log}")
    else:
        result.show()
    if arguments.plot:
        from vehicled.offline.analysis.lap_plot import plot_drive
        from vehicled.offline.twin.scene_plot import things_of_plan

        plot_drive(plan.course, done.trace, result, arguments.plot, things_of_plan(plan))
        if not arguments.json:
            print(f"plot: {arguments.plot}")
    if likeness is not None:
        print(likeness.judge(result.digest), file=sys.stderr)
    ending = done.drive.ending
    return (
        int(ending.outcome)
        if arguments.by_hand
        else exit_status(ending, result.finished, result.markings_passed)
    )


class _DriveProgress:
    """Progress of a drive: distance, speed, time and mode."""

    def __init__(self, length_m: float) -> None:
        self.progress = Progress()
        self._length_m = length_m
        self._started_ns = 0

    def show(self, machine: "Machine", judge: "Judge", now_ns: int) -> None:
        """Update the line if it is due."""
        self._started_ns = self._started_ns or now_ns
        if not self.progress.due():
            return
        estimate = machine.estimate
        known = estimate is not None and isfinite(estimate.speed_mps)
        speed = (
            f"{estimate.speed_mps:4.2f} m/s"
            if estimate is not None and known
            else "no estimate yet"
        )
        bar = "#" * round(24 * min(1.0, judge.driven_m / self._length_m))
        time_s = (now_ns - self._started_ns) * 1e-9
        distance = f"{judge.driven_m:6.1f} of {self._length_m:.1f} m"
        self.progress.show(
            f"[{bar:<24}] {distance}  {speed}  t = {time_s:6.1f} s  {machine.mode.name.lower()}"
        )


def spec_of(arguments: Namespace) -> RunSpec:
    """Return the run that the options ask for."""
    return RunSpec(
        profile=arguments.profile,
        overrides=(*arguments.set, *(["sim.contact=end"] if arguments.end_on_contact else [])),
        controller=arguments.controller or "",
        estimator=arguments.estimator or "",
        identifier=arguments.identifier or "",
        programme=arguments.programme or "",
        course=arguments.course or "",
        scene=arguments.scene or "",
        laps=arguments.laps,
        link=arguments.link,
        clock=arguments.clock,
        shared_clock=arguments.clock == "wall" and not arguments.strict_clock,
        latency=arguments.latency or "",
        noise=arguments.noise,
        board=arguments.board or "",
        seed=arguments.seed,
        link_timeout_s=arguments.link_timeout,
        backend=arguments.async_backend,
        duration_s=arguments.duration,
        # A person may take any time and drive repeatedly.
        start_timeout_s=None if arguments.by_hand else START_TIMEOUT_S,
        stays=arguments.by_hand,
        ends_disarmed=arguments.by_hand,
        log_folder=None if arguments.no_log else arguments.log or "",
        control_socket="any",
        name=arguments.name or "",
        view=arguments.view,
        ros2=arguments.ros2,
        ros2_commands=arguments.ros2_commands,
        ros2_autoware=arguments.ros2_autoware,
        ros2_autoware_auto=arguments.ros2_autoware_auto,
        mavlink=arguments.mavlink,
        mavlink_commands=arguments.mavlink_commands,
        mavlink_id=arguments.mavlink_id,
        mixed=arguments.mixed or "",
        mixed_vehicles=tuple(arguments.mixed_vehicle),
        mixed_loss=arguments.mixed_loss,
        mixed_seed=arguments.mixed_seed,
    )


def _check_options(arguments: Namespace) -> None:
    """Raise :class:`SetupError` for options that exclude each other."""
    if arguments.by_hand and arguments.clock != "wall":
        raise SetupError("manual driving (--by-hand) needs --clock wall")
    if arguments.by_hand and arguments.start:
        raise SetupError("--start cannot be combined with --by-hand: leave out one of them")
    if arguments.name and (arguments.clock != "wall" or not VEHICLE_NAME.fullmatch(arguments.name)):
        raise SetupError(
            "--name needs --clock wall and 1 to 32 small letters, digits, - and _: it names the "
            "control socket"
        )
    if arguments.view is not None and arguments.clock != "wall":
        raise SetupError(
            "--view needs --clock wall: a lockstep drive ends before a page has loaded"
        )
    if arguments.connect and arguments.fail:
        raise SetupError(
            "with --connect, give --fail to 'vehicled simulator' on the other computer"
        )
    if arguments.connect and arguments.latency:
        raise SetupError(
            "with --connect, give --latency to 'vehicled simulator' on the other computer"
        )
    if arguments.connect and arguments.end_on_contact:
        raise SetupError("with --connect, give --end-on-contact to 'vehicled simulator'")
    if arguments.connect and arguments.start:
        raise SetupError("with --connect, give --start to 'vehicled simulator'")
    if arguments.connect and arguments.by_hand:
        raise SetupError(
            "with --connect, give --by-hand to 'vehicled simulator'; see also vehicled run"
        )
