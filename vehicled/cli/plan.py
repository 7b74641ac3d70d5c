"""What is to be driven: profile, course, link and clock, from the command line and checked."""

from argparse import Namespace
from pathlib import Path

from msgspec import Struct

from vehicled.app import SetupError, Wiring, wire
from vehicled.cli.findings import findings, refuse_errors
from vehicled.cli.manoeuvre import programme_overrides
from vehicled.control.speed import speed_warnings
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile import Loaded, Note, load
from vehicled.profile.schema import Profile
from vehicled.safety.fence import Fence, read_geojson

SHARED_TIMEOUT_S = 5.0
"""Silence of the simulator that ends a run whose clock it shares: a stall is shorter, a simulator that hangs is not."""
STRICT_TIMEOUT_S = 0.5
"""The same on the clock of a vehicle, which drives on meanwhile."""


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be driven, checked: everything that can be wrong with the arguments has been found by now."""

    loaded: Loaded
    course: Course
    fence: Fence | None
    fence_text: bytes
    """The file of the fence, for the log; empty without one."""
    wiring: Wiring
    clock: str
    link: str
    seed: int
    overrides: list[str]
    link_timeout_s: float | None
    """Silence of the simulator that ends the run, as the user set it; see :meth:`silence_s`."""
    backend: str
    course_notes: list[str]
    """Reasons why the course is driven slower than it asks."""
    findings: list[Note]
    """Warnings about the profile; its errors have been raised."""
    paced: bool = False
    """Wall time: the clock stands still while the simulator or the daemon stalls."""

    def silence_s(self, *, shared_clock: bool) -> float:
        """Return the silence of the simulator that ends the run."""
        return self.link_timeout_s or (SHARED_TIMEOUT_S if shared_clock else STRICT_TIMEOUT_S)

    @classmethod
    def of(
        cls,
        arguments: Namespace,
        *,
        clock: str,
        link: str,
        seed: int,
        backend: str = "asyncio",
        own_ports: bool = False,
        paced: bool = False,
    ) -> "Plan":
        """Build the plan from the command line. Raises the errors of profile, course and set-up.

        ``own_ports``: the run opens the devices' own ports, so they are checked too.
        """
        overrides = list(arguments.set)
        for table in ("controller", "estimator", "identifier"):
            name = getattr(arguments, table, None)
            if name:
                overrides.append(f"{table}.name={name}")
        loaded = load(arguments.profile, overrides + programme_overrides(arguments, overrides))
        controller = loaded.profile.controller
        if controller.name == "programme" and not controller.selected.t_s:
            raise SetupError("controller programme: there is no programme; name one by --programme FILE or NAME")
        course = course_of(loaded.profile, arguments.course).repeated(arguments.laps)
        check_direction(loaded.profile, course)
        fence, fence_text = fence_of(loaded, course)
        follows = controller.name != "programme"
        found = findings(loaded, course, fence, on_road=own_ports)
        refuse_errors(loaded, found)
        return cls(
            loaded=loaded,
            course=course,
            fence=fence,
            fence_text=fence_text,
            wiring=wire(loaded.profile, link),
            clock=clock,
            link=link,
            seed=seed,
            overrides=overrides,
            link_timeout_s=arguments.link_timeout,
            backend=backend,
            course_notes=speed_warnings(loaded.profile.vehicle, loaded.profile.limits, course) if follows else [],
            findings=found,
            paced=paced,
        )


def course_of(profile: Profile, name_or_file: str | None) -> Course:
    """The course named, or the profile's; fitted to its vehicle where lanes depend on that. Raises CourseError."""
    vehicle = profile.vehicle
    return load_course(
        name_or_file or profile.course,
        width_m=vehicle.width_m,
        centre_m=vehicle.centre_m,
        turn_radius_m=vehicle.min_turn_radius_m,
    )


def check_direction(profile: Profile, course: Course) -> None:
    """Raises :class:`SetupError` for a course that is driven backward in parts, and a vehicle that cannot."""
    if course.reverses and profile.controller.name != "programme" and not profile.vehicle.drive.top_reverse_speed_mps:
        raise SetupError(
            f"course {course.name!r} is driven backward in parts, but the vehicle of profile {profile.name!r} cannot: "
            "its vehicle.drive.reverse_share does not move it; choose another course, or set the share where drive and driver "
            "can reverse"
        )


def fence_of(loaded: Loaded, course: Course) -> tuple[Fence | None, bytes]:
    """The profile's fence, on the course's map, and its file.

    Raises :class:`SetupError` for a file that cannot be read, CourseError for a bad one.
    """
    name = loaded.profile.fence
    if not name:
        return None, b""
    path = Path(loaded.path).parent / Path(name).expanduser()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SetupError(f"fence: {path} cannot be read ({error.strerror}); its path counts from the profile") from None
    return read_geojson(data, path.name, course.datum), data
