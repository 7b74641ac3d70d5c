"""Parser of the whole command line. Groups of commands have their own modules, ``arguments_*``."""

from argparse import REMAINDER, _ArgumentGroup, _SubParsersAction

from vehicled.cli.argument_types import between, whole
from vehicled.cli.log_names import LOG_HELP, log_name
from vehicled.cli.parser import CommandParser, GroupedParser
from vehicled.runtime.simulator import add_options, add_world_options

_EXIT_STATUS = (
    "Exit status: 0 the true vehicle reached the end of the course, within its lanes, or with --by-hand was disarmed; 1 it "
    "did not, for whatever reason: a fault, a stop, --duration, a lost simulator; 2 invalid arguments, nothing was driven; "
    "130 interrupted. See docs/command_line.md."
)

_GROUPS = (
    ("Simulate a drive", ("sim", "simulator")),
    ("Drive a vehicle", ("run", "status", "arm", "mode", "teleop", "disarm", "stop", "why")),
    ("Change a drive", ("course", "goto", "return", "speed", "param", "topic")),
    ("Prepare a vehicle", ("check", "profiles", "courses", "record-path", "map", "doctor", "devices", "service")),
    ("Examine a drive", ("log", "replay")),
    ("Write your own code", ("new", "list")),
    ("Test and evaluate", ("study", "gap", "learn", "failsafe", "twin", "bench", "experiment", "data")),
    ("Your shell", ("completion",)),
)

_seconds = between(1e-9, 1e6, "expected a number of seconds above 0, at most 1e6")
_seed = whole(0, 10**20 - 1, "expected a whole number from 0 up")
_watch_rate = between(0.1, 20.0, "expected a rate from 0.1 to 20 Hz")
_count = whole(1, 10_000, "expected a whole number from 1 to 10000")
_rate = between(1.0, 1000.0, "expected a rate from 1 to 1000 Hz")
_duration = between(0.0, 1e6, "expected a number of seconds up to 1e6, or 0 for none")


def build_parser() -> GroupedParser:
    """Return the parser of the whole command line."""
    from vehicled import __version__
    from vehicled.cli.arguments_estimator import estimator_commands
    from vehicled.cli.arguments_gap import gap_command
    from vehicled.cli.arguments_learn import learn_commands
    from vehicled.cli.arguments_live import live_commands
    from vehicled.cli.arguments_log import log_commands
    from vehicled.cli.arguments_map import map_commands
    from vehicled.cli.arguments_own_code import own_code_commands
    from vehicled.cli.arguments_replay import replay_command
    from vehicled.cli.arguments_sensors import sensors_commands
    from vehicled.cli.arguments_service import service_commands
    from vehicled.cli.arguments_study import study_commands
    from vehicled.cli.arguments_teleop import teleop_commands
    from vehicled.cli.arguments_twin import twin_commands
    from vehicled.profile.registry import names

    parser = GroupedParser(
        prog="vehicled",
        usage="vehicled COMMAND [options]",
        description="Real-time daemon for small autonomous ground vehicles, with a simulator to test it.",
        examples=(
            "vehicled sim                          drive a lap in simulation, in seconds",
            "vehicled sim --clock wall --view      the same in real time, with a live page",
            "vehicled log report latest            one-page report of the newest drive",
            "vehicled check my.toml                list every mistake in a profile",
        ),
        epilog="'vehicled COMMAND --help' explains a command. Exit status: 0 success, 1 negative result, 2 invalid "
        "arguments, 130 interrupted.",
    )
    parser.groups = _GROUPS
    parser.add_argument("--version", action="version", version=f"vehicled {__version__}", help="show the version and exit")
    commands = parser.add_subparsers(prog="vehicled", dest="command", metavar="COMMAND", required=True, parser_class=CommandParser)

    sim = commands.add_parser(
        "sim",
        help="drive a course in simulation",
        description="Drive a course in the simulator and print the errors, deadlines and safety events of the drive.",
        examples=(
            "vehicled sim --course figure_eight --controller mpc",
            "vehicled sim --course circle_r5_ccw --laps 3 --plot laps.png",
            "vehicled sim --fail gnss:off@20+5     no fixes from 20 s on, for 5 s",
            "vehicled sim --set limits.max_speed_mps=2 --seed 7",
            "vehicled sim --like latest --controller mpc   the last run, changed",
            "vehicled sim --clock wall --by-hand --view   then: vehicled teleop",
        ),
        epilog=_EXIT_STATUS,
    )
    what = sim.add_argument_group("what to drive")
    _profile_arguments(what)
    what.add_argument(
        "--controller", metavar="NAME", help="use this controller instead of the profile's: a name, or a plugin FILE.py:NAME"
    )
    what.add_argument(
        "--estimator", metavar="NAME", help="use this estimator instead of the profile's: a name, or a plugin FILE.py:NAME"
    )
    what.add_argument("--identifier", metavar="NAME", help="identify the vehicle's parameters while driving: single_track")
    _programme_argument(what)
    what.add_argument(
        "--by-hand",
        action="store_true",
        help="drive it yourself with 'vehicled teleop'; needs --clock wall; ends when disarmed",
    )
    what.add_argument("--duration", type=_seconds, metavar="S", help="stop the drive after S seconds of simulated time")
    what.add_argument(
        "--like",
        type=log_name,
        metavar="RUN",
        help="drive the same again in closed loop: profile, course, seed, conditions and plugins from this log; other options "
        "change it",
    )
    what.add_argument(
        "--code",
        choices=("same", "log", "changed"),
        default="same",
        help="with --like: plugins from their files, which must be unchanged (default), from the texts in the log, if you "
        "trust it, or from their changed files",
    )
    world = sim.add_argument_group("simulated world")
    add_world_options(world)
    world.add_argument(
        "--board", metavar="FILE", help="replay the task times of a computer measured by vehicled doctor --measure-board"
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
        help="with --clock wall: a stall of this computer counts as missing sensor data, as on a vehicle; "
        "by default the simulated clock pauses during a stall",
    )
    world.add_argument("--connect", metavar="URL", help="connect to a running simulator: unix:PATH or tcp:HOST:PORT")
    world.add_argument(
        "--link-timeout",
        type=_seconds,
        metavar="S",
        help="end the run if the simulator sends nothing for S seconds (default 5, with --strict-clock 0.5)",
    )
    world.add_argument(
        "--async-backend", choices=("asyncio", "trio"), default="asyncio", help="event loop for --clock wall (default asyncio)"
    )
    output = sim.add_argument_group("output")
    output.add_argument("--plot", metavar="FILE", help="plot the drive into this file (.png, .pdf or .svg)")
    output.add_argument("--log", metavar="DIR", help="write the log to this folder instead of the profile's")
    output.add_argument("--no-log", action="store_true", help="write no log; the drive and its digest do not change")
    _view_argument(output)
    _ros2_arguments(output)
    _mavlink_arguments(output)
    output.add_argument("--json", action="store_true", help="print the result as JSON")
    output.add_argument("--quiet", action="store_true", help="no progress bar, only warnings and errors")
    sim.set_defaults(run="vehicled.cli.sim:run")

    run = commands.add_parser(
        "run",
        help="run the daemon on a vehicle",
        description="Run the daemon on the vehicle's devices until it is stopped. The systemd unit starts this command. "
        "A missing port is reported once and retried; the vehicle cannot be armed without it.",
        examples=("vehicled run --profile my.toml", "vehicled run --profile my.toml --course lot17 --view 0.0.0.0:8765"),
        epilog="Exit status: 130 stopped by a signal, after braking; 1 connection to the simulator lost; 2 invalid arguments.",
    )
    _profile_arguments(run)
    run.add_argument("--connect", metavar="URL", help="use the devices of a running simulator: unix:PATH or tcp:HOST:PORT")
    _programme_argument(run)
    run.add_argument("--log", metavar="DIR", help="write the log to this folder instead of the profile's")
    run.add_argument(
        "--link-timeout",
        type=_seconds,
        metavar="S",
        help="with --connect: end the run if the simulator sends nothing for S seconds (default 0.5)",
    )
    _view_argument(run)
    _ros2_arguments(run)
    _mavlink_arguments(run)
    run.set_defaults(run="vehicled.cli.run:serve")

    simulator = commands.add_parser(
        "simulator",
        help="run only the simulator, for a daemon in another process or on another computer",
        description="Run the simulator for a daemon in another process or on another computer. It serves one run and exits.",
        examples=(
            "vehicled simulator --listen tcp:0.0.0.0:7700",
            "    and for the daemon: vehicled sim --connect tcp:HOST:7700 --clock wall",
            "vehicled simulator --ptys /tmp/devices   serial ports for 'vehicled run'",
        ),
        epilog="Exit status: 0 the daemon ended the run; 1 connection to the daemon lost; 2 invalid arguments; 143 terminated.",
    )
    add_options(simulator)
    simulator.set_defaults(run="sim_backend.__main__:command")

    _control_commands(commands)
    live_commands(commands)
    _failsafe_arguments(commands.add_parser("failsafe", help="list the failsafe matrix, or test it by fault injection"))
    teleop_commands(commands)
    replay_command(commands)

    check = commands.add_parser(
        "check",
        help="check profiles or course files and list every mistake",
        examples=("vehicled check my.toml", "vehicled check art track.csv"),
        epilog="Exit status: 0 all files are valid; 1 at least one is invalid or missing; 2 invalid arguments.",
    )
    check.add_argument("what", nargs="+", metavar="FILE", help="profile (name or .toml) or course file")
    _site_argument(check)
    check.set_defaults(run="vehicled.cli.catalog:check")

    profiles = commands.add_parser("profiles", help="list the profiles")
    profiles.add_argument("--schema", action="store_true", help="print the JSON Schema of a profile instead")
    profiles.set_defaults(run="vehicled.cli.catalog:profiles")

    courses = commands.add_parser(
        "courses",
        help="list the courses, or show what a course file contains",
        epilog="Exit status: 0 all files are valid; 1 at least one is invalid or missing; 2 invalid arguments.",
    )
    courses.add_argument(
        "what",
        nargs="*",
        metavar="COURSE",
        help="names or files; parameters of a file follow it: FILE:columns=x,y,-, FILE:gaps=bridge, FILE:time=ms, FILE:line=2",
    )
    _site_argument(courses)
    courses.set_defaults(run="vehicled.cli.catalog:courses")

    service_commands(commands)
    study_commands(commands)
    gap_command(commands)
    learn_commands(commands)
    twin_commands(commands)
    estimator_commands(commands)
    sensors_commands(commands)
    map_commands(commands)
    _data_commands(commands)

    devices = commands.add_parser("devices", help="list ports, record a port, decode a recording").add_subparsers(
        dest="devices_command", metavar="COMMAND", required=True
    )
    record = devices.add_parser(
        "record",
        help="record the bytes that a port receives",
        epilog="Exit status: 0 recorded; 1 nothing was received, and no file written; 2 invalid arguments.",
    )
    record.add_argument(
        "port", metavar="URL", help="serial:/dev/serial/by-id/...?baud=N, tcp:HOST:PORT, tls:HOST:PORT, can:can0, ..."
    )
    record.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="output file; for a CAN bus FILE.log (candump), .asc, .blf or .csv"
    )
    record.add_argument("--duration", type=_seconds, metavar="S", help="stop after S seconds (default: until Ctrl-C)")
    record.set_defaults(run="vehicled.cli.devices:record")
    formats = ", ".join(sorted({*names("decoder"), *names("CAN decoder")}))
    decode = devices.add_parser(
        "decode",
        help="count and show the messages of a recording",
        epilog="Exit status: 0 messages were found; 1 none, or none of --only; 2 the file or its format cannot be read.",
    )
    decode.add_argument("file", metavar="FILE", help="recording, such as a capture or a CAN log")
    decode.add_argument(
        "--type",
        metavar="T",
        help=f"format, or your own decoder FILE.py:NAME (default: detected from the content): {formats}",
    )
    decode.add_argument("--only", metavar="NAME", help="only messages of this name")
    decode.add_argument("--show", action="store_true", help="print every message")
    decode.add_argument("--csv", metavar="FILE", help="write the message fields to this file")
    decode.set_defaults(run="vehicled.cli.devices:decode")

    own_code_commands(commands)
    _bench_arguments(commands.add_parser("bench", help="measure"))

    experiment = commands.add_parser(
        "experiment",
        help="repeat a published experiment",
        description="Repeat a published experiment and compare the results: ekf-circle, mpc-tracking, ins-check, sim-to-real, "
        "vepd. Each has its own --help.",
    )
    experiment.add_argument("rest", nargs=REMAINDER, metavar="EXPERIMENT ...", help="name of the experiment, and its options")
    experiment.set_defaults(run="vehicled.cli.experiment:run")

    logs = commands.add_parser(
        "log",
        help="examine a log: report, timing, compare, export, ...",
        description="Examine logs. Name a log by its file, by latest (latest:2 is the one before), or by the beginning of "
        "its name.",
        examples=(
            "vehicled log report latest",
            "vehicled log compare latest:2 latest",
            "vehicled log export latest --to csv -o out",
        ),
    )
    log = logs.add_subparsers(dest="log_command", metavar="COMMAND", required=True)
    info = log.add_parser("info", help="summary of a log: run, topics, message counts")
    timing = log.add_parser(
        "timing",
        help="lateness, response time, deadline misses and their causes, per task",
        epilog="Exit status: 0 all budgets of the profile were kept; 1 one was exceeded; 2 the log cannot be read.",
    )
    cat = log.add_parser("cat", help="print the messages as JSON lines")
    recover = log.add_parser(
        "recover",
        help="repair the log of a run that ended in a crash or power failure",
        epilog="Exit status: 0 nothing was lost; 1 the repaired log lacks something; 2 the log cannot be read.",
    )
    for command in (info, timing, cat, recover):
        command.add_argument("file", type=log_name, metavar="RUN", help=LOG_HELP)
    for command in (info, timing):
        command.add_argument("--json", action="store_true", help="print JSON")
    timing.add_argument("--all", action="store_true", help="list each missed deadline, also if they are many")
    recover.add_argument("-o", "--output", metavar="FILE", help="repaired file (default RUN_recovered.mcap)")
    cat.add_argument(
        "--topic", action="append", default=[], metavar="T", help="only this topic, such as state_estimate; repeatable"
    )
    cat.add_argument("--from", dest="start", type=float, metavar="S", help="start at this time since the start of the run")
    cat.add_argument("--to", dest="stop", type=float, metavar="S", help="stop at this time since the start of the run")
    cat.add_argument("--limit", type=int, metavar="N", help="print at most N lines")
    cat.set_defaults(run="vehicled.cli.log:cat")
    info.set_defaults(run="vehicled.cli.log:info")
    timing.set_defaults(run="vehicled.cli.log:timing")
    recover.set_defaults(run="vehicled.cli.log:recover")
    log_commands(log)

    completion = commands.add_parser(
        "completion",
        help="complete commands, options and names with the Tab key",
        description="Print the shell script that completes commands, options, profiles, courses, logs and failures.",
        examples=(
            'eval "$(vehicled completion bash)"     in ~/.bashrc',
            'eval "$(vehicled completion zsh)"      in ~/.zshrc, after compinit',
            "vehicled completion fish | source      in ~/.config/fish/config.fish",
        ),
    )
    completion.add_argument("shell", nargs="?", choices=("bash", "zsh", "fish"), help="your shell")
    completion.add_argument("--line", metavar="TEXT", help="print the completions of this command line instead")
    completion.set_defaults(run="vehicled.cli.completion:completion")
    return parser


def _site_argument(command: CommandParser) -> None:
    command.add_argument("--profile", metavar="P", help="say how far courses are from that of this profile")


def _control_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add the commands that talk to a daemon on this computer."""
    texts = {
        "status": "show what a running daemon is doing and waiting for",
        "arm": "arm a running daemon; waits for the arming checks",
        "disarm": "disarm it; a moving vehicle brakes first",
        "stop": "brake now",
        "mode": "drive the course, drive manually or by setpoints, find the heading by driving straight ahead, or disarm",
        "why": "explain the present mode, with the chain of causes",
    }
    for name, text in texts.items():
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "--profile", metavar="P", help="profile of the daemon, or its socket (default: the only running daemon)"
        )
        command.set_defaults(run=f"vehicled.cli.control:{name}")
        if name == "status":
            command.add_argument("--watch", action="store_true", help="repeat until Ctrl-C")
            command.add_argument(
                "--rate",
                type=_watch_rate,
                default=2.0,
                metavar="HZ",
                help="repetitions per second (default 2)",
            )
            command.add_argument("--json", action="store_true", help="print JSON")
        elif name == "stop":
            command.add_argument("--emergency", action="store_true", help="disable the drive until the vehicle is armed again")
        elif name == "why":
            command.add_argument("--margins", action="store_true", help="print value and limit of every rule, too")
        elif name == "mode":
            command.add_argument("mode", choices=("auto", "teleop", "offboard", "align", "standby"), help="mode to enter")
            command.add_argument("--arm", action="store_true", help="arm first, with the checks of this mode")


def _failsafe_arguments(failsafe: CommandParser) -> None:
    kinds = failsafe.add_subparsers(dest="failsafe_command", metavar="COMMAND", required=True)
    listing = kinds.add_parser("list", help="show the matrix as a table")
    listing.add_argument("--markdown", action="store_true", help="print docs/failsafe.md instead")
    listing.set_defaults(run="vehicled.offline.failsafe.command:listing")
    test = kinds.add_parser(
        "test",
        help="inject every fault of the matrix and measure the reaction",
        description="Inject every fault of the matrix into a closed-loop simulated drive; check the reactions and their times.",
        epilog="Exit status: 0 every trial passed; 1 at least one failed; 2 invalid arguments.",
    )
    test.add_argument("--row", type=int, action="append", default=[], metavar="N", help="only this row; repeatable")
    test.add_argument("--link", choices=("messages", "wires"), help="only this link (default both)")
    test.add_argument("--clock", choices=("lockstep", "wall"), help="only this clock (default both)")
    test.add_argument(
        "--n",
        type=_count,
        metavar="N",
        help="trials per fault, at random times (default 20 lockstep, 3 wall)",
    )
    test.add_argument(
        "--seed", type=_seed, default=1, metavar="S", help="seed of the first trial; each further trial adds 1 (default 1)"
    )
    test.add_argument("--json", action="store_true", help="print JSON")
    test.set_defaults(run="vehicled.offline.failsafe.command:test")


def _bench_arguments(bench: CommandParser) -> None:
    recorded = bench.add_subparsers(dest="bench_command", metavar="COMMAND", required=True).add_parser(
        "recorded",
        help="run an estimator over recorded drives and compare it with ground truth",
        description="Run an estimator over recorded drives: CSV files of the ART car, logs, ROS bags. Compare with truth.",
    )
    recorded.add_argument(
        "folder", nargs="?", metavar="DIR", help="file or folder (default ~/vehicled/data, filled by vehicled data fetch)"
    )
    recorded.add_argument("--estimator", default="ekf4", metavar="NAME", help="estimator (default ekf4)")
    recorded.add_argument(
        "--identifier", metavar="NAME", help="parameter identifier to run beside it, or none (default: the first)"
    )
    recorded.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a parameter: estimator.KEY or identifier.KEY; repeatable",
    )
    recorded.add_argument(
        "--kind",
        action="append",
        default=[],
        metavar="KIND",
        help="only recordings of this kind: mocap, rtk, plain, plain_start, path, ...; repeatable",
    )
    recorded.add_argument("--only", default="", metavar="NAME", help="only recordings whose name contains NAME")
    recorded.add_argument(
        "--rate",
        type=_rate,
        metavar="HZ",
        help="also step the estimator at this rate between the rows",
    )
    recorded.add_argument(
        "--outage",
        type=_duration,
        default=3.7,
        metavar="S",
        help="simulate an RTK outage of S seconds every 15 s; 0: none (default 3.7)",
    )
    recorded.add_argument(
        "--calibrated",
        action="store_true",
        help="run planar on each recording with the constants that vehicled estimator calibrate finds in others of its kind",
    )
    recorded.add_argument(
        "--profile",
        default="art_published",
        metavar="P",
        help="profile of the vehicle for CSV files and ROS bags (default art_published)",
    )
    recorded.add_argument("--json", action="store_true", help="print JSON")
    recorded.add_argument("--plot", metavar="PNG", help="plot the recording, or an overview of several, into this file")
    recorded.set_defaults(run="vehicled.cli.bench:recorded")


def _data_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    data = commands.add_parser("data", help="list and fetch public recordings").add_subparsers(
        dest="data_command", metavar="COMMAND", required=True
    )
    listing = data.add_parser("list", help="list the data sets with size, licence and origin")
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run="vehicled.cli.data:listing")
    fetch = data.add_parser(
        "fetch",
        help="download data sets from their authors' repositories",
        description="Download data sets from the public repositories of their authors. Existing files are kept, so an "
        "interrupted download can be continued.",
        epilog="Exit status: 0 all files are present; 2 a download failed.",
    )
    fetch.add_argument("name", nargs="+", metavar="NAME", help="name of a data set, see vehicled data list")
    fetch.add_argument("--accept-unknown-licence", action="store_true", help="download data whose authors state no licence")
    fetch.add_argument(
        "--mirror", default="https://raw.githubusercontent.com", metavar="URL",
        help="base URL for OWNER/REPOSITORY/COMMIT/PATH (default https://raw.githubusercontent.com)",
    )  # fmt: skip
    fetch.set_defaults(run="vehicled.cli.data:fetch")
    for command in (listing, fetch):
        command.add_argument("--to", default="~/vehicled/data", metavar="DIR", help="folder (default ~/vehicled/data)")


def _programme_argument(parser: "CommandParser | _ArgumentGroup") -> None:
    parser.add_argument(
        "--programme",
        metavar="P",
        help="drive an open-loop programme instead of the course: a .csv file or a name such as step_steer; see docs/manoeuvres.md",
    )


def _view_argument(parser: "CommandParser | _ArgumentGroup") -> None:
    parser.add_argument(
        "--view",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="serve the live view at HOST:PORT (default: view.address of the profile, 127.0.0.1:8765); see docs/live_view.md",
    )


def _ros2_arguments(parser: "CommandParser | _ArgumentGroup") -> None:
    parser.add_argument(
        "--ros2",
        nargs="?",
        const="",
        metavar="INTERFACE",
        help="publish ROS 2 topics to this computer, or on a network interface such as eth0; see docs/ros2.md",
    )
    parser.add_argument("--ros2-commands", action="store_true", help="with --ros2: let ROS nodes command the vehicle")


def _mavlink_arguments(parser: "CommandParser | _ArgumentGroup") -> None:
    parser.add_argument(
        "--mavlink",
        nargs="?",
        const="udp:127.0.0.1:14550",
        metavar="ADDRESS",
        help="speak MAVLink to ground stations: udp:HOST:PORT (default udp:127.0.0.1:14550), udpin:HOST:PORT or "
        "serial:PATH?baud=RATE; see docs/mavlink.md",
    )
    parser.add_argument("--mavlink-commands", action="store_true", help="with --mavlink: let ground stations command the vehicle")


def _profile_arguments(parser: "CommandParser | _ArgumentGroup") -> None:
    parser.add_argument("--profile", default="art", metavar="P", help="profile: a name or a .toml file (default art)")
    parser.add_argument("--course", metavar="C", help="course: a name or a path file (default: the profile's)")
    parser.add_argument("--laps", type=int, default=1, metavar="N", help="laps of a closed course (default 1)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of the profile; repeatable")
