"""``vehicled log info | timing | cat | recover``."""

import sys
from argparse import Namespace


def info(arguments: Namespace) -> int:
    """What a log holds."""
    from vehicled.log.info import info

    found = info(arguments.file)
    print(found.to_json() if arguments.json else found.to_text())
    return 0


def timing(arguments: Namespace) -> int:
    """Where the time went; status 1 when a budget is exceeded."""
    from vehicled.log.timing import timing

    found = timing(arguments.file)
    print(found.to_json() if arguments.json else found.to_text())
    for line in found.exceeded:
        print(f"budget exceeded: {line}", file=sys.stderr)
    return 1 if found.exceeded else 0


def cat(arguments: Namespace) -> int:
    """The messages as JSON lines."""
    from vehicled.log.cat import lines

    for line in lines(arguments.file, arguments.topic, start_s=arguments.start, stop_s=arguments.stop, limit=arguments.limit):
        print(line)
    return 0


def recover(arguments: Namespace) -> int:
    """Repair a log; the original is left as it is. Status 1 when something of it is lost."""
    from vehicled.log.recover import recover

    report = recover(arguments.file, arguments.output)
    print(report.to_text())
    return 1 if report.reasons else 0
