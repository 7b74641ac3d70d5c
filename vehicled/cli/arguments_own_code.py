"""Arguments of ``vehicled new`` and ``vehicled list``."""

from argparse import _SubParsersAction

from vehicled.cli.parser import CommandParser

TEMPLATES = ("controller", "estimator", "driver")
KINDS = ("controllers", "estimators", "identifiers", "drivers", "decoders", "plants", "emulators")


def own_code_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add ``new`` and ``list``."""
    new = commands.add_parser(
        "new",
        help="begin a controller, an estimator or a driver of your own",
        description="Write a commented file NAME.py that works at once, and its test test_NAME.py. Change it, then drive with it.",
        examples=(
            "vehicled new controller my_law                 write it and its test",
            "vehicled sim --controller ./my_law.py:MyLaw    drive a lap with it",
        ),
    )
    new.add_argument("kind", choices=TEMPLATES, help="what to write")
    new.add_argument("name", metavar="NAME", help="lower-case name of the file without .py; the class is named after it")
    new.add_argument("--folder", default=".", metavar="DIR", help="folder of the two files (default: this one)")
    new.set_defaults(run="vehicled.cli.own_code:new")

    listed = commands.add_parser(
        "list",
        help="list the names that a profile may use",
        description="List built-in names, and those that installed packages offer. An offered name is used only where a profile or "
        "a command names it.",
    )
    listed.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    listed.add_argument("--json", action="store_true", help="print JSON")
    listed.set_defaults(run="vehicled.cli.own_code:list_names")
