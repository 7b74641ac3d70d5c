"""Errors and warnings that ``check``, ``sim`` and ``run`` report about a profile before driving."""

import sys
from collections.abc import Iterator, Sequence

from vehicled.daemon.live_changes import outside_fence
from vehicled.paths.course import Course
from vehicled.profile import Loaded, Note, ProfileError
from vehicled.profile.notes import devices_of, noise_of
from vehicled.profile.plugins import is_network
from vehicled.profile.problems import by_line
from vehicled.profile.registry import resolve
from vehicled.runtime.ports.sharing import judge_ports
from vehicled.safety.fence import Fence


def findings(
    loaded: Loaded, course: Course | None = None, fence: Fence | None = None, *, on_road: bool
) -> list[Note]:
    """Return errors and warnings about a readable profile, in file order.

    ``on_road`` includes the ports, which a simulation does not open.
    """
    found = [
        *loaded.findings,
        *placed(loaded, devices_of(loaded.profile, simulated=not on_road)),
        *placed(loaded, noise_of(loaded.profile)),
        *placed(loaded, _scans(loaded)),
    ]
    found += placed(loaded, _unwatched(loaded))
    if on_road:
        found += placed(loaded, judge_ports(loaded.profile.devices))
    if course is not None and fence is not None:
        found += placed(loaded, _fence(loaded, course, fence))
    return sorted(found, key=by_line)


def placed(loaded: Loaded, notes: Iterator[Note]) -> Iterator[Note]:
    """Iterate over the notes, with the place in the file or its base added."""
    for note in notes:
        yield Note(note.path, note.message, loaded.place(note.path), note.level)


def refuse_errors(loaded: Loaded, found: Sequence[Note]) -> None:
    """Raise :class:`ProfileError` with every error among the findings."""
    errors = [note for note in found if note.level == "error"]
    if errors:
        raise ProfileError(errors, loaded.path)


def print_warnings(found: Sequence[Note]) -> None:
    """Print the warnings on standard error, one per line."""
    for note in found:
        if note.level == "warning":
            print(f"warning: {note}", file=sys.stderr)


def _scans(loaded: Loaded) -> Iterator[Note]:
    """Yield a note if the controller reads laser scans and no device sends any: a policy would
    brake for ever."""
    chosen = loaded.profile.controller
    scans = any("LaserScan" in device.messages for device in loaded.profile.devices.values())
    if chosen.name == "avoid" and not scans:
        yield Note(
            "controller.name",
            "avoid sees no obstacle, because no device has the message LaserScan",
            level="warning",
        )
    if not is_network(chosen.name):
        return
    network = resolve("controller", chosen.name).network
    names = chosen.selected.features or (
        network.description.features if network.description is not None else []
    )
    needs = [name for name in names if name.startswith("scan_m")]
    if needs and not scans:
        yield Note(
            "controller.name",
            f"{chosen.label} reads {needs[0]}, and no device has the message LaserScan",
            level="error",
        )


def _unwatched(loaded: Loaded) -> Iterator[Note]:
    """Yield a note if a controller says of itself that it follows no course: then it has no
    corridor either."""
    chosen = loaded.profile.controller
    if chosen.name != "programme" and not resolve("controller", chosen.name).follows_course:
        text = (
            f"{chosen.label} follows no course: its place, its end and the corridor are not watched"
        )
        yield Note("controller.name", text, level="warning")


def _fence(loaded: Loaded, course: Course, fence: Fence) -> Iterator[Note]:
    """Yield a note if a vehicle on the course leaves the fence, or passes it with less room than at
    an obstacle."""
    vehicle, room_m = loaded.profile.vehicle, loaded.profile.limits.obstacle_side_m
    if outside := outside_fence(course, fence, vehicle.outline):
        yield Note("fence", outside, level="error")
    elif outside_fence(course, fence, vehicle.outline.widened(room_m)):
        yield Note(
            "fence",
            f"the vehicle on course {course.name!r} comes within {room_m:g} m of the fence "
            "(limits.obstacle_side_m): a small error may stop it there",
            level="warning",
        )
