"""Checked configuration of a run from the command line: profile, course, link and clock."""

from argparse import Namespace
from pathlib import Path

from msgspec import Struct

from vehicled.app import SetupError, Wiring, wire
from vehicled.control.speed import speed_warnings
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile import Loaded, Note, load
from vehicled.profile.schema import Profile
from vehicled.run.findings import findings, refuse_errors
from vehicled.run.manoeuvre import programme_overrides
from vehicled.safety.fence import Fence, read_geojson

SHARED_TIMEOUT_S = 5.0
"""Simulator timeout with a shared clock, s: longer than a stall, but short enough to detect a simulator that hangs."""
STRICT_TIMEOUT_S = 0.5
"""Simulator timeout with ``--strict-clock``, s; short, because the vehicle keeps moving."""


class Plan(Struct, frozen=True, kw_only=True):
    """Configuration of a run. All errors in the arguments are found while it is built."""

    loaded: Loaded
    course: Course
    fence: Fence | None
    fence_text: bytes
    """Content of the fence file, for the log; empty without a fence."""
    wiring: Wiring
    clock: str
    link: str
    seed: int
    overrides: list[str]
    link_timeout_s: float | None
    """Simulator timeout set by the user, s; see :meth:`silence_s`."""
    backend: str
    course_notes: list[str]
    """Reasons for driving slower than the course asks."""
    findings: list[Note]
    """Warnings about the profile; its errors have been raised."""
    paced: bool = False
    """True if the clock pauses while the simulator or the daemon stalls (wall time only)."""

    def silence_s(self, *, shared_clock: bool) -> float:
        """Return the simulator timeout in s."""
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

        ``own_ports``: also check the devices' own ports, because the run opens them.
        """
        overrides = list(arguments.set)
        for table in ("controller", "estimator", "identifier"):
            name = getattr(arguments, table, None)
            if name:
                overrides.append(f"{table}.name={name}")
        loaded = load(arguments.profile, overrides + programme_overrides(arguments, overrides))
        controller = loaded.profile.controller
        if controller.name == "programme" and not controller.selected.t_s:
            raise SetupError("controller programme needs a programme: give --programme FILE or NAME")
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
    """Return the named course, or the profile's, fitted to the vehicle if its lanes depend on that. Raises CourseError."""
    vehicle = profile.vehicle
    return load_course(
        name_or_file or profile.course,
        width_m=vehicle.width_m,
        centre_m=vehicle.centre_m,
        turn_radius_m=vehicle.min_turn_radius_m,
    )


def check_direction(profile: Profile, course: Course) -> None:
    """Raise :class:`SetupError` if the course has reverse legs and the vehicle cannot reverse."""
    if course.reverses and profile.controller.name != "programme" and not profile.vehicle.drive.top_reverse_speed_mps:
        raise SetupError(
            f"course {course.name!r} has reverse legs, but the vehicle of profile {profile.name!r} cannot reverse: "
            "its vehicle.drive.reverse_share is too small; choose another course, or set it if drive and driver "
            "can reverse"
        )


def fence_of(loaded: Loaded, course: Course) -> tuple[Fence | None, bytes]:
    """Return the profile's fence on the course's map, and its file.

    Raises :class:`SetupError` if the file cannot be read, CourseError if it is invalid.
    """
    name = loaded.profile.fence
    if not name:
        return None, b""
    path = Path(loaded.path).parent / Path(name).expanduser()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SetupError(f"fence: cannot read {path} ({error.strerror}); its path is relative to the profile") from None
    return read_geojson(data, path.name, course.datum), data
