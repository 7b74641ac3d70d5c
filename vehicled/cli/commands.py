"""Table of all commands, in the order of the help: name, one line of help, and the module that
declares and runs it."""

from vehicled.run.command_line import CommandParser, CommandRow, GroupedParser

# One command, one line.
# fmt: off
GROUPS = (
    ("Simulate a drive", (
        CommandRow("sim", "drive a course in simulation", "vehicled.cli.sim"),
        CommandRow(
            "simulator",
            "run only the simulator, for a daemon in another process or on another computer",
            "vehicled.cli.simulator"),
        CommandRow(
            "scenes", "list the scenes of the simulator, show what one holds, or draw it",
            "vehicled.cli.scenes"),
        CommandRow(
            "race", "find the race line of a track, and drive it with several controllers",
            "vehicled.cli.race"),
    )),
    ("Drive a vehicle", (
        CommandRow("run", "run the daemon on a vehicle", "vehicled.cli.run"),
        CommandRow(
            "status", "show what a running daemon is doing and waiting for", "vehicled.cli.control",
        ),
        CommandRow(
            "arm", "arm a running daemon; waits for the arming checks", "vehicled.cli.control",
        ),
        CommandRow(
            "mode",
            (
                "drive the course, drive manually or by setpoints, find the heading by driving "
                "straight ahead, or disarm"
            ),
            "vehicled.cli.control"),
        CommandRow(
            "teleop", "drive manually with keyboard, gamepad or steering wheel",
            "vehicled.cli.teleop",
        ),
        CommandRow("disarm", "disarm it; a moving vehicle brakes first", "vehicled.cli.control"),
        CommandRow("stop", "brake now", "vehicled.cli.control"),
        CommandRow(
            "why", "explain the present mode, with the chain of causes", "vehicled.cli.control",
        ),
    )),
    ("Change a drive", (
        CommandRow("course", "change the course of a running daemon", "vehicled.cli.live_changes", (
            CommandRow("set", "drive another course from now on"),
        )),
        CommandRow(
            "goto", "plan a path to a place, and take it as the course",
            "vehicled.cli.live_changes",
        ),
        CommandRow(
            "return", "plan a path to where the vehicle was armed, and take it as the course",
            "vehicled.cli.live_changes"),
        CommandRow(
            "speed", "limit the speed below the profile's limit", "vehicled.cli.live_changes",
        ),
        CommandRow(
            "param", "list and change the controller's parameters of a running daemon",
            "vehicled.cli.live_changes", (
            CommandRow("list", "print the parameters that may be changed, with their ranges"),
            CommandRow("get", "print one parameter"),
            CommandRow("set", "change one parameter between two ticks"),
        )),
        CommandRow(
            "topic", "list topics of a running daemon, show their messages or rates",
            "vehicled.cli.topic", (
            CommandRow("list", "print every topic with its type and its rate"),
            CommandRow("echo", "print the messages of a topic, the newest at most at a rate"),
            CommandRow("hz", "print the rate of a topic every second"),
        )),
    )),
    ("Connect a program", (
        CommandRow(
            "serve", "let programs in other languages step a simulation, or reach a daemon by TCP",
            "vehicled.cli.serve", (
            CommandRow("simulation", "let a program step a simulated drive over a socket"),
            CommandRow("control", "relay a TCP port to the control socket of a running daemon"),
        )),
    )),
    ("Prepare a vehicle", (
        CommandRow(
            "setup", "measure a vehicle step by step, and write its profile", "vehicled.cli.setup",
        ),
        CommandRow(
            "check", "check profiles or course files and list every mistake",
            "vehicled.cli.catalog",
        ),
        CommandRow("profiles", "list the profiles", "vehicled.cli.catalog"),
        CommandRow(
            "courses", "list the courses, or show what a course file contains",
            "vehicled.cli.catalog",
        ),
        CommandRow(
            "record-path", "save the driven path of a log as a course", "vehicled.cli.record_path",
        ),
        CommandRow("map", "build a map from a drive with a laser scanner",
            "vehicled.offline.mapping.command", (
            CommandRow("build", "build the map of a place from the log of a drive"),
        )),
        CommandRow(
            "doctor", "check this computer: ports, real-time performance, missing settings",
            "vehicled.cli.doctor"),
        CommandRow("devices", "list supported devices, record a port, decode a recording",
            "vehicled.cli.devices", (
            CommandRow("list", "list the supported devices, and the evidence for each"),
            CommandRow("record", "record the bytes that a port receives"),
            CommandRow("decode", "count and show the messages of a recording"),
            CommandRow("ouster", "make the table of a profile of the metadata of an Ouster sensor"),
        )),
        CommandRow(
            "base", "make a GNSS receiver a base station, and serve its corrections to rovers",
            "vehicled.cli.base"),
        CommandRow("service", "install or remove the systemd service", "vehicled.cli.service", (
            CommandRow("install", "install unit, user, udev rules and profile"),
            CommandRow("uninstall", "remove what was installed and not edited since"),
        )),
    )),
    ("Examine a drive", (
        CommandRow("log", "examine a log: report, timing, compare, export, ...", "vehicled.cli.log",
            (
            CommandRow("info", "summary of a log: run, topics, message counts"),
            CommandRow(
                "timing", "lateness, response time, deadline misses and their causes, per task",
            ),
            CommandRow("cat", "print the messages as JSON lines"),
            CommandRow("recover", "repair the log of a run that ended in a crash or power failure"),
            CommandRow("compare", "compare the metrics of runs, with confidence intervals"),
            CommandRow(
                "export",
                "convert a log for other tools: CSV, Parquet, GPX, GeoJSON, KML, a rosbag2 folder",
            ),
            CommandRow(
                "extract", "give the profile, course, plugins and scene of a run back as files",
            ),
            CommandRow(
                "import",
                (
                    "convert a ROS bag, CSV, a u-blox capture, an ArduPilot or a PX4 log into a "
                    "vehicled log"
                ),
            ),
            CommandRow(
                "report", "write a one-page report: verdict, deadlines, errors, commands, map",
            ),
            CommandRow("plot", "plot fields over time (needs matplotlib)"),
        )),
        CommandRow("replay", "replay a run from its log", "vehicled.cli.replay"),
    )),
    ("Write your own code", (
        CommandRow("new", "begin a profile, controller, estimator, driver or client of your own",
            commands=(
            CommandRow(
                "profile", "write the profile of a vehicle of your own", "vehicled.cli.new_profile",
            ),
            CommandRow("controller", "write a controller and its test", "vehicled.cli.own_code"),
            CommandRow("estimator", "write an estimator and its test", "vehicled.cli.own_code"),
            CommandRow("driver", "write a driver and its test", "vehicled.cli.own_code"),
            CommandRow(
                "client", "write a program in C++ or MATLAB that drives", "vehicled.cli.new_client",
            ),
        )),
        CommandRow("list", "list the names that a profile may use", "vehicled.cli.own_code"),
    )),
    ("Test and evaluate", (
        CommandRow(
            "study", "drive many simulations from one file, and report effects with intervals",
            "vehicled.cli.study", (
            CommandRow("run", "drive what is missing of a study, and write its report"),
            CommandRow("report", "write the report of a study, or a figure for a paper"),
            CommandRow("export", "write the table of a study as CSV or Parquet"),
            CommandRow("list", "list the studies that ship with vehicled"),
        ), implied="run"),
        CommandRow(
            "gap",
            "measure how far simulated runs are from real ones, with a noise floor and a verdict",
            "vehicled.cli.gap"),
        CommandRow("learn", "train a network on drives, and use it as a controller",
            "vehicled.cli.learn", (
            CommandRow("collect", "let a controller drive courses in simulation, with logs"),
            CommandRow("dataset", "make a data set of logs"),
            CommandRow("train", "train a network on a data set"),
            CommandRow("features", "list the features that a network may have"),
        )),
        CommandRow(
            "failsafe", "list the failsafe matrix, or test it by fault injection",
            "vehicled.offline.failsafe.command", (
            CommandRow("list", "show the matrix as a table"),
            CommandRow("test", "inject every fault of the matrix and measure the reaction"),
        )),
        CommandRow("twin", "validate, show and calibrate the simulator's vehicle models", commands=(
            CommandRow(
                "validate",
                "compare our vehicle models with published reference runs and with theory",
                "vehicled.offline.twin.validate"),
            CommandRow(
                "list", "list the vehicles of the double-track model", "vehicled.offline.twin.show",
            ),
            CommandRow(
                "show", "show every parameter of a vehicle, with status, uncertainty and origin",
                "vehicled.offline.twin.show"),
            CommandRow(
                "terrain", "inspect a terrain file: extent, slopes, holes",
                "vehicled.offline.twin.terrain"),
            CommandRow(
                "calibrate", "fit the parameters of a vehicle to recorded drives",
                "vehicled.offline.twin.calibrate"),
            CommandRow(
                "predict",
                (
                    "identify the twin from one recorded drive and predict the cross-track error "
                    "of the others"
                ),
                "vehicled.offline.replications.predict"),
        )),
        CommandRow(
            "estimator", "fit the constants of the estimator planar to drives",
            "vehicled.cli.estimator", (
            CommandRow(
                "calibrate",
                "find misalignment, drive, friction and steering in your own first drives",
            ),
        )),
        CommandRow(
            "sensors",
            "fit sensor models to recordings, simulate a sensor in them, check a reference system",
            commands=(
            CommandRow(
                "fit", "fit the models of a GNSS receiver and an inertial unit to recordings",
                "vehicled.offline.sensors.fit"),
            CommandRow(
                "simulate",
                "write recorded runs again with a simulated sensor in the place of the real one",
                "vehicled.offline.sensors.simulate"),
            CommandRow(
                "check-truth",
                "say how accurate a reference system is, before it judges an estimator",
                "vehicled.offline.sensors.check_truth"),
        )),
        CommandRow("bench", "measure", "vehicled.cli.bench", (
            CommandRow(
                "recorded",
                "run an estimator over recorded drives and compare it with ground truth",
            ),
        )),
        CommandRow(
            "experiment", "repeat a published experiment",
            "vehicled.offline.replications.experiments.common", (
            CommandRow(
                "ekf-circle", "ten circles on wandering GPS: filters against the measurement",
                "vehicled.offline.replications.experiments.ekf_circle"),
            CommandRow(
                "mpc-tracking", "two trajectories, five tests each: predictive control in the loop",
                "vehicled.offline.replications.experiments.mpc_tracking"),
            CommandRow(
                "mocap-tracking",
                "the same indoors: motion capture with noise, drivers and daemon in the loop",
                "vehicled.offline.replications.experiments.mocap_tracking"),
            CommandRow(
                "standing-receiver", "a standing receiver: recorded and simulated positions",
                "vehicled.offline.replications.experiments.standing_receiver"),
            CommandRow(
                "ins-check", "straight drives of known length: is the speed of the INS a truth?",
                "vehicled.offline.replications.experiments.ins_check"),
            CommandRow(
                "sim-to-real",
                "commands, errors and speed of simulated drives beside recorded ones",
                "vehicled.offline.replications.experiments.sim_to_real"),
            CommandRow(
                "vepd",
                "three manoeuvres, five receiver models, ten drives: which is like a real receiver",
                "vehicled.offline.replications.experiments.vepd"),
            CommandRow(
                "case-study",
                "one stack at every scale: parking, racing, off-road, tracking, judged",
                "vehicled.offline.replications.experiments.case_study"),
        )),
        CommandRow("data", "list and fetch public recordings", "vehicled.cli.data", (
            CommandRow("list", "list the data sets with size, licence and origin"),
            CommandRow("fetch", "download data sets from their authors' repositories"),
        )),
    )),
    ("Your shell", (
        CommandRow(
            "completion", "complete commands, options and names with the Tab key",
            "vehicled.cli.completion"),
    )),
)
# fmt: on
"""Titles of the help, and their commands."""


def build_parser() -> CommandParser:
    """Return the parser of the whole command line."""
    from vehicled import __version__

    parser = GroupedParser(
        GROUPS,
        prog="vehicled",
        usage="vehicled COMMAND [options]",
    )
    parser.describe(
        "Real-time daemon for small autonomous ground vehicles, with a simulator to test it.",
        examples=(
            "vehicled sim                          drive a lap in simulation, in seconds",
            "vehicled sim --clock wall --view      the same in real time, with a live page",
            "vehicled log report latest            one-page report of the newest drive",
            "vehicled check my.toml                list every mistake in a profile",
        ),
        epilog="'vehicled COMMAND --help' explains a command. Exit status: 0 success, 1 negative "
        "result, 2 invalid "
        "arguments, 130 interrupted.",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"vehicled {__version__}",
        help="show the version and exit",
    )
    return parser
