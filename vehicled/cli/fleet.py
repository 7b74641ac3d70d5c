"""Several vehicles in one world: ``vehicled sim --vehicle`` and ``--fleet``."""

import sys
from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import replace

from sim_backend.fleet.order import FleetProgress
from vehicled.cli.sim import spec_of
from vehicled.cli.sim_like import given
from vehicled.core.errors import SetupError
from vehicled.run.fleet import FleetFile, FleetPlan, parse_vehicle, plan_fleet, read_fleet, varied
from vehicled.run.fleet_bridges import FleetBridges
from vehicled.run.fleet_processes import drive_fleet
from vehicled.run.fleet_result import FleetOutcome
from vehicled.run.output import check_plot_file
from vehicled.run.terminal import Progress

if TYPE_CHECKING:
    from vehicled.run.fleet_view import FleetView

TIMEOUT_S = 30.0
WALL_TIMEOUT_S = 2.0
"""Time of the computer after which a daemon that does not answer is left behind, s: in lockstep all
wait for it, on the wall clock its own vehicle."""
_ALONE = {
    "like": "--like repeats the drive of one vehicle",
    "by_hand": "--by-hand drives one vehicle",
    "connect": "a fleet starts a simulator of its own",
    "name": "--name is of one vehicle: those of a fleet have names",
    "fail": "--fail names a device of one vehicle: give fail= to that vehicle",
    "mixed": "--mixed adds virtual bodies to one vehicle",
    "mixed_vehicle": "--mixed-vehicle adds virtual vehicles to one vehicle",
    "start": "--start belongs to one vehicle: give start= to that vehicle",
}
"""Options that a fleet does not take, with the reason."""


def run_fleet(arguments: Namespace) -> int:
    """Drive the vehicles of the options and of the file, and print the result."""
    stated = given(arguments.argv)
    _check_options(arguments, stated)
    file = read_fleet(Path(arguments.fleet)) if arguments.fleet else FleetFile()
    entries = [*file.vehicle, *map(parse_vehicle, arguments.vehicle)]
    spec = spec_of(arguments)
    if "scene" not in stated and file.scene:
        spec = replace(spec, scene=file.scene)
    if "seed" not in stated and file.seed is not None:
        spec = replace(spec, seed=file.seed)
    if "duration" not in stated:
        spec = replace(spec, duration_s=file.duration_s)
    # Each vehicle takes this, and its end on contact is the simulator's.
    entries, radio, overrides = varied(entries, file.radio, arguments.set)
    spec = replace(spec, overrides=overrides)
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    line = _FleetLine(len(entries))
    with TemporaryDirectory(prefix="vehicled_fleet_") as folder:
        plan = plan_fleet(entries, spec, Path(folder), radio)
        bridges = FleetBridges.of(plan, spec)
        view = _view(plan, arguments, Path(folder))
        if bridges.text:
            print(bridges.text, file=sys.stderr, flush=True)
        end = drive_fleet(
            plan,
            arguments.link_timeout or (WALL_TIMEOUT_S if arguments.clock == "wall" else TIMEOUT_S),
            ends_on_contact=arguments.end_on_contact,
            trace=bool(arguments.plot),
            view=view,
            bridges=bridges,
            progress=(lambda _: None) if arguments.quiet else line.show,
        )
    line.progress.close()
    outcome = FleetOutcome.of(plan, end)
    for each in outcome.vehicles:
        # Addresses of the pages that the page of the fleet leads to.
        shown = [text for text in each.warnings.splitlines() if not text.startswith("live view")]
        for text in shown:
            print(f"{each.name}: {text}", file=sys.stderr)
    if outcome.failure:
        print(f"vehicled: {outcome.failure}", file=sys.stderr)
    if arguments.json:
        print(outcome.to_json())
    else:
        outcome.show()
    if arguments.plot:
        from vehicled.offline.twin.fleet_plot import plot_fleet

        plot_fleet(plan, outcome, arguments.plot)
        if not arguments.json:
            print(f"plot: {arguments.plot}")
    return outcome.status


def _check_options(arguments: Namespace, stated: Collection[str]) -> None:
    for name, reason in _ALONE.items():
        if name in stated and getattr(arguments, name) not in (None, False, []):
            raise SetupError(f"--{name.replace('_', '-')} and a fleet: {reason}")


def _view(plan: FleetPlan, arguments: Namespace, folder: Path) -> "FleetView | None":
    if arguments.view is None:
        return None
    if arguments.clock != "wall":
        raise SetupError(
            "--view needs --clock wall: a lockstep drive ends before a page has loaded"
        )
    from vehicled.run.fleet_view import FleetView

    return FleetView.of(plan, arguments.view, folder)


class _FleetLine:
    """Progress of a fleet: simulated time, and the distance of each vehicle."""

    def __init__(self, count: int) -> None:
        self.progress = Progress()
        self._count = count

    def show(self, news: FleetProgress) -> None:
        """Update the line if it is due."""
        driven = "  ".join(f"{name} {driven_m:.0f} m" for name, driven_m in news.driven_m.items())
        self.progress.update(
            f"t = {news.time_s:6.1f} s  {news.running} of {self._count} drive  {driven}"
        )
