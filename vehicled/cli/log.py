"""Commands ``vehicled log info | timing | cat | recover | compare | export | extract | import | report | plot``."""

import shlex
import sys
from argparse import Namespace

from vehicled.log.errors import LogError

DAMAGE_LINES = 10


def info(arguments: Namespace) -> int:
    """Print a summary of a log."""
    from vehicled.log.info import info

    found = info(arguments.file)
    print(found.to_json() if arguments.json else found.to_text())
    return 0


def timing(arguments: Namespace) -> int:
    """Print the timing of the tasks; status 1 if a budget is exceeded."""
    from vehicled.offline.analysis.timing import timing

    found = timing(arguments.file)
    print(found.to_json(every=arguments.all) if arguments.json else found.to_text(every=arguments.all))
    for line in found.exceeded:
        print(f"budget exceeded: {line}", file=sys.stderr)
    return _status([arguments.file], bad=bool(found.exceeded))


def cat(arguments: Namespace) -> int:
    """Print the messages as JSON lines."""
    from vehicled.log.cat import lines

    for line in lines(arguments.file, arguments.topic, start_s=arguments.start, stop_s=arguments.stop, limit=arguments.limit):
        print(line)
    return 0


def recover(arguments: Namespace) -> int:
    """Repair a log into a new file. Status 1 if data was lost."""
    from vehicled.log.recover import recover

    report = recover(arguments.file, arguments.output)
    print(report.to_text())
    return 1 if report.loses else 0


def compare(arguments: Namespace) -> int:
    """Compare the metrics of runs, or the messages of two; status 1 if one became worse, or differs."""
    from vehicled.offline.analysis.compare.comparison import compare

    old, new = arguments.files, arguments.against
    if not new:
        if len(old) != 2:
            raise LogError("give an old and a new run, or several of each: A1 A2 --against B1 B2")
        old, new = old[:1], old[1:]
    if arguments.topic and not arguments.messages:
        raise LogError("--topic needs --messages")
    if arguments.messages:
        return _compare_messages(old, new, arguments)
    found = compare(old, new, seed=arguments.seed, threshold=arguments.threshold)
    print(found.to_json() if arguments.json else found.to_text(every=arguments.all))
    return _status([*old, *new], bad=bool(arguments.fail_on and found.count("regression")))


def _compare_messages(old: list[str], new: list[str], arguments: Namespace) -> int:
    """Print the first difference of each topic; status 1 if any."""
    from vehicled.offline.analysis.compare.messages import compare_messages

    if len(old) + len(new) != 2:
        raise LogError("--messages compares exactly two runs")
    found = compare_messages(old[0], new[0], tuple(arguments.topic))
    print(found.to_json() if arguments.json else found.to_text())
    return _status([*old, *new], bad=not found.same)


def export(arguments: Namespace) -> int:
    """Export a log into another format."""
    from vehicled.offline.analysis.export.exporting import export

    done = export(arguments.file, arguments.to, arguments.output, topics=arguments.topic, rate_hz=arguments.rate)
    print(done.to_text())
    return _status([arguments.file])


def extract(arguments: Namespace) -> int:
    """Write the files that a run was built from into a folder."""
    from vehicled.offline.replay.extraction import extract

    done = extract(arguments.file, arguments.output or _beside(arguments.file, "_files"))
    print(done.to_text())
    again = f"vehicled sim --like {shlex.quote(arguments.file)}"
    if done.course:
        print(f"to drive the same again: {again}; with changed files: vehicled sim --profile {shlex.quote(done.profile)}")
    return 0


def import_(arguments: Namespace) -> int:
    """Convert a foreign log into a vehicled log."""
    from vehicled.offline.recordings.foreign.importing import import_log

    done = import_log(
        arguments.source, arguments.output, mapping=arguments.map, profile=arguments.profile, format_name=arguments.format
    )
    print(done.to_text())
    return 0


def report(arguments: Namespace) -> int:
    """Write a one-page report of a run."""
    from vehicled.offline.analysis.report.page import write_report

    output = arguments.output or _beside(arguments.file, ".html")
    judged = write_report(arguments.file, output)
    print(judged.headline)
    print(output)
    return _status([arguments.file])


def plot(arguments: Namespace) -> int:
    """Plot fields over time."""
    from vehicled.offline.analysis.plot import plot

    output = arguments.output or _beside(arguments.file, ".png")
    plot(arguments.file, arguments.topic, output)
    print(output)
    return _status([arguments.file])


def _status(runs: list[str], *, bad: bool = False) -> int:
    """Return 1 if something is bad or a log is damaged, else 0. Print the damage: what was said is of the intact rest."""
    from vehicled.log.damage import damage_of
    from vehicled.log.reader import run_parts

    damage = [each for run in dict.fromkeys(runs) for each in damage_of(run_parts(run))]
    for each in damage[:DAMAGE_LINES]:
        print(f"vehicled: damaged: {each}", file=sys.stderr)
    if len(damage) > DAMAGE_LINES:
        print(f"vehicled: ... and {len(damage) - DAMAGE_LINES} more damaged places", file=sys.stderr)
    if damage:
        print("vehicled: what was printed is of the intact rest; `vehicled log recover` saves it into a new file", file=sys.stderr)
    return 1 if bad or damage else 0


def _beside(file: str, ending: str) -> str:
    return file.removesuffix(".mcap") + ending
