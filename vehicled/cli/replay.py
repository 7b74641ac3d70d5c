"""Command ``vehicled replay``: run the daemon's logic again on a recorded log."""

from argparse import Namespace
from math import nan
from pathlib import Path

from vehicled.core.errors import SetupError
from vehicled.core.messages import ActuatorCommand, Event, Fault, Message, ModeChange, PortEvent
from vehicled.daemon.machine import Machine
from vehicled.offline.replay.drive import DAMAGED, DIFFERENT, NOTHING, WHAT_IF, Replay, ReplayResult
from vehicled.offline.replay.journal import Journal
from vehicled.offline.replay.numbers import ReplayDifferences, rows
from vehicled.run.argument_types import CONTROLLER, ESTIMATOR, KEY, LOG, between
from vehicled.run.command_line import CommandParser
from vehicled.run.log_names import LOG_HELP
from vehicled.run.output import check_plot_file
from vehicled.run.terminal import Progress, print_table

ALTERED_LINES = 5
PARTING_LINES = 5
DAMAGE_LINES = 10
LINE_NS = 100_000_000
"""Interval of the commands shown after ``--from``."""


def declare_replay(parser: CommandParser) -> None:
    """Run the daemon's logic again on the recorded bytes and times, and compare all outputs bit for
    bit. With --set, --estimator or --controller: what a changed configuration would have computed,
    open loop.
    """
    parser.describe(
        epilog="Exit status: 0 all outputs are equal, or a what-if; 1 difference, damaged log, "
        "or nothing to compare; "
        "2 the log cannot be replayed."
    )
    parser.add_argument(
        "file", type=LOG, metavar="RUN", help=f"{LOG_HELP}; of a rotated log its first part"
    )
    parser.add_argument("--until-diff", action="store_true", help="stop at the first difference")
    parser.add_argument(
        "--from",
        dest="from_s",
        type=between(0.0, 1e6, "expected a time since the start of the run in seconds"),
        metavar="T0",
        help="replay from the start, but show and count only from T0 seconds on",
    )
    parser.add_argument(
        "--set",
        type=KEY,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="what-if: change a key of the profile; repeatable",
    )
    parser.add_argument(
        "--estimator",
        type=ESTIMATOR,
        metavar="NAME",
        help="what-if: use this estimator; FILE.py:NAME is your own",
    )
    parser.add_argument(
        "--controller",
        type=CONTROLLER,
        metavar="NAME",
        help="what-if: use this controller; FILE.py:NAME is your own",
    )
    parser.add_argument(
        "--code",
        choices=("same", "log", "changed"),
        default="same",
        help="source of the run's plugins: their unchanged files (default), the texts in the "
        "log, if you trust it, or what-if: "
        "their changed files",
    )
    parser.add_argument("--plot", metavar="PNG", help="plot the differences into this file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=replay)


def replay(arguments: Namespace) -> int:
    """Replay a log; status 0 if all outputs are equal, 1 if one differs, the log is damaged or
    nothing could be compared.

    A what-if of an undamaged log has status 0.
    """
    overrides = list(arguments.set)
    overrides += [
        f"{table}.name={name}"
        for table in ("estimator", "controller")
        if (name := getattr(arguments, table))
    ]
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    if (overrides or arguments.code == "changed") and arguments.until_diff:
        raise SetupError(
            "--until-diff cannot be used with a what-if, which differs on purpose: leave out "
            "one of them"
        )
    progress = Progress()
    with Journal(arguments.file) as journal:
        shows = arguments.from_s is not None and not arguments.json
        lines = Lines(journal.start_ns, arguments.from_s) if shows else None
        run = Replay(
            journal,
            overrides,
            until_difference=arguments.until_diff,
            from_s=arguments.from_s or 0.0,
            keep=bool(arguments.plot),
            show=lines.show if lines is not None else None,
            code=arguments.code,
        )
        if not arguments.json:
            _introduce(run)
        total_s = max(journal.duration_s, 1e-9)

        def bar(t_s: float) -> None:
            if progress.due():
                share = min(1.0, t_s / total_s)
                progress.show(
                    f"[{'#' * round(24 * share):<24}] t = {t_s:7.1f} of {total_s:.1f} s, "
                    f"{t_s / progress.elapsed_s:.0f} x"
                )

        result = run.run(None if arguments.quiet else bar)
        progress.close()
        print(result.to_json() if arguments.json else to_text(result))
        if result.numbers is not None and result.numbers.frames and not arguments.json:
            _print_numbers(result.numbers)
        if arguments.plot:
            _plot(run, result, arguments.plot, quiet=arguments.json)
    return 0 if result.ok else 1


def to_text(result: ReplayResult) -> str:
    """Return verdict and numbers as text."""
    lines = []
    if result.verdict == WHAT_IF:
        lines.append(f"WHAT IF {', '.join(result.changed)}")
        lines.append("open loop: the vehicle moves as recorded, whatever is commanded now")
        lines += [each.to_text() for each in result.partings[:PARTING_LINES]]
        if len(result.partings) > PARTING_LINES:
            lines.append(f"... and {len(result.partings) - PARTING_LINES} more; --json lists them")
    elif result.verdict == DIFFERENT:
        if result.first is None and result.altered:
            lines.append("DIFFERENT: bytes of the log were altered; the outputs are equal")
        else:
            lines.append(
                f"DIFFERENT: the first {result.records} records are equal, the next one differs"
            )
        lines += [
            f"ALTERED: {each}: the checksum does not match"
            for each in result.altered[:ALTERED_LINES]
        ]
        if result.first is not None:
            lines.append(result.first.to_text())
        if result.first_frame is not None:
            lines.append(result.first_frame.to_text())
        if result.first is None and result.digest != result.digest_in_log:
            lines.append(f"digest {result.digest}, in the log {result.digest_in_log}")
    else:
        known = (
            f"equal to the recorded digest: {result.digest}"
            if result.digest == result.digest_in_log
            else result.digest
        )
        found = f"{result.records} records, {result.frames} frames and {result.ticks} ticks"
        until = f" up to t = {result.replayed_s:.3f} s" if result.incomplete else ""
        if result.verdict == NOTHING:
            lines.append(f"NOTHING COMPARED: {found} can be replayed of this log")
        elif result.verdict == DAMAGED:
            lines.append(
                f"DAMAGED: the log is damaged; what can be replayed is identical{until}: "
                f"{found}, bit for bit"
            )
        else:
            lines.append(f"IDENTICAL{until}: {found}, bit for bit")
            lines.append(f"digest {known}")
    lines += [f"damaged: {each}" for each in result.damage[:DAMAGE_LINES]]
    if len(result.damage) > DAMAGE_LINES:
        lines.append(f"... and {len(result.damage) - DAMAGE_LINES} more; --json lists them")
    if result.missing:
        lines.append(
            f"{result.missing} records are missing in the log: dropped by a slow disk, removed "
            "by a tool, or unreadable"
        )
    if result.incomplete:
        lines.append(f"incomplete run: {result.incomplete}")
    lines.append(
        f"{result.replayed_s:.1f} s of the run in {result.spent_s:.1f} s: {result.speed:.1f} x "
        "real time"
    )
    return "\n".join(lines)


def _introduce(run: Replay) -> None:
    header = run.journal.header
    seed = f", seed {header.seed}" if header.seed is not None and header.clock == "lockstep" else ""
    print(
        f"{header.profile} on {header.course}, {header.controller}, {header.estimator}, "
        f"{header.clock}, {header.link}{seed}"
    )
    for note in run.notes:
        print(f"note: {note}")


def _print_numbers(numbers: ReplayDifferences) -> None:
    table = [
        [
            name,
            f"{spread.rms:.4g} {unit}",
            f"{spread.max:.4g} {unit}",
            f"{spread.max_t_s:.3f} s",
            f"{spread.unequal} of {spread.n}",
        ]
        for name, spread, unit in rows(numbers)
    ]
    print_table("now minus log", ["", "RMS", "max", "at t", "differ"], table)
    log, now = numbers.log_error_m, numbers.now_error_m
    if log.n:
        truth = [
            [name, f"{e.rms:.4f} m", f"{e.max:.4f} m", f"{e.max_t_s:.3f} s"]
            for name, e in (("log", log), ("now", now))
        ]
        print_table("estimate against truth", ["", "RMS", "max", "at t"], truth)
    print(
        f"{numbers.frames_differ} of {numbers.frames} frames differ; "
        f"{numbers.other_mode} of {numbers.throttle.n} commands have another mode or reaction"
    )


def _plot(run: Replay, result: ReplayResult, file: str, *, quiet: bool) -> None:
    if result.numbers is None:
        if not quiet:
            print("no plot written: there are no differences")
        return
    from vehicled.offline.replay.plot import plot_replay

    plot_replay(run.parts.course, run.meter, result, file)
    if not quiet:
        print(f"plot: {file}")


class Lines:
    """Prints what the replayed machine does: events, and ten commands per second."""

    def __init__(self, start_ns: int, from_s: float) -> None:
        self._start_ns = start_ns
        self._from_ns = start_ns + round(from_s * 1e9)
        self._next_ns = 0

    def show(self, machine: Machine, message: Message, t_ns: int) -> None:
        """Print one record."""
        if t_ns < self._from_ns:
            return
        at = f"{(t_ns - self._start_ns) * 1e-9:9.3f} s"
        if isinstance(message, Fault):
            state = "" if message.active else " (over)"
            print(
                f"{at}  {message.code}{state}: {message.reason} [{message.reaction.name.lower()}]"
            )
        elif isinstance(message, ModeChange):
            print(
                f"{at}  {message.before.name} -> {message.after.name}: {message.reason} "
                f"[{message.reaction.name.lower()}]"
            )
        elif isinstance(message, Event):
            print(f"{at}  {message.name} {message.fields}")
        elif isinstance(message, PortEvent):
            print(f"{at}  port {message.port} {message.state.name.lower()}: {message.detail}")
        elif isinstance(message, ActuatorCommand) and t_ns >= self._next_ns:
            self._next_ns = t_ns + LINE_NS
            print(f"{at}  {_command_text(machine, message)}")


def _command_text(machine: Machine, command: ActuatorCommand) -> str:
    estimate, control = machine.estimate, machine.pipeline.newest_command.value
    x, y, yaw, speed = (
        (estimate.x_m, estimate.y_m, estimate.yaw_rad, estimate.speed_mps)
        if estimate is not None
        else (nan,) * 4
    )
    off = control.cross_track_m if control is not None else nan
    return (
        f"{command.mode.name.lower():<9} x {x:8.3f}  y {y:8.3f} m  yaw {yaw:7.4f} rad  "
        f"{speed:6.3f} m/s  off {off:7.3f} m  wheel {command.wheel_angle_rad:7.4f} rad  throttle "
        f"{command.throttle:6.3f}  brake {command.brake:5.3f}"
    )
