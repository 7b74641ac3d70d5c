"""Command ``vehicled scenes``: list the scenes, show what one holds, draw it."""

import json
from argparse import Namespace
from pathlib import Path

from sim_backend.scene.describe import SceneView, view_of
from vehicled.core.errors import SetupError
from vehicled.paths import scenes
from vehicled.run.argument_types import SCENE
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_plot_file
from vehicled.run.terminal import print_table


def declare_scenes(parser: CommandParser) -> None:
    """List the scenes of the simulator, show what one holds, or draw it."""
    parser.describe(
        examples=(
            "vehicled scenes",
            "vehicled scenes town --plot town.png",
            "vehicled sim --scene town --course town/delivery --profile opencav",
            "vehicled scenes town@0.1     the same, a tenth as large",
        ),
        epilog=(
            "Exit status: 0 shown; 2 there is no such scene, its file is not valid, or the "
            "picture cannot be written."
        ),
    )
    parser.add_argument(
        "scene",
        type=SCENE,
        nargs="?",
        metavar="SCENE",
        help=(
            "name, or a file (.toml, .geojson, or the .yaml of a map); SCENE@0.1 is a tenth as "
            "large"
        ),
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the scene into this file (.png, .pdf or .svg)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """List the scenes, or show and draw one. Raises SceneError and SetupError."""
    if arguments.scene is None:
        if arguments.plot:
            raise SetupError(
                "--plot draws one scene: name it, such as vehicled scenes town --plot town.png"
            )
        views = [view_of(name) for name in scenes.names()]
        if arguments.json:
            print(
                json.dumps([{"name": view.name, "title": view.title} for view in views], indent=2)
            )
        else:
            print_table("", ["scene", "", "extent", "courses"], [_row(view) for view in views])
        return 0
    name = scenes.absolute(arguments.scene)
    view = view_of(name)
    if arguments.plot:
        from vehicled.offline.twin.scene_plot import plot_scene

        check_plot_file(Path(arguments.plot))
        plot_scene(view, arguments.plot)
    if arguments.json:
        contents: dict[str, list[str]] = {}
        for kind, text in view.contents():
            contents.setdefault(kind, []).append(text)
        print(json.dumps({"name": view.name, "title": view.title, **contents}, indent=2))
        return 0
    title = f"{scenes.title_of(name)}: {view.title}" if view.title else scenes.title_of(name)
    print_table(title, ["", ""], [list(row) for row in view.contents()])
    if arguments.plot:
        print(f"plot: {arguments.plot}")
    return 0


def _row(view: SceneView) -> list[str]:
    x1, y1, x2, y2 = view.extent_m
    courses = ", ".join(course.name.rpartition("/")[2] for course, _ in view.courses)
    return [view.name, view.title, f"{x2 - x1:.0f} x {y2 - y1:.0f} m", courses]
