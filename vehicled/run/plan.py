"""Checked configuration of a run: profile, course, fence and wiring."""

from pathlib import Path

import msgspec
from msgspec import Struct

from vehicled.control.speed import speed_warnings
from vehicled.core.errors import SetupError
from vehicled.daemon.app import Wiring, wire
from vehicled.maps.grid import OccupancyGrid
from vehicled.maps.map_file import read_map
from vehicled.paths import scenes
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile import Loaded, Note, load, plugins
from vehicled.profile.latency import latency_overrides
from vehicled.profile.plugins import Plugin
from vehicled.profile.registry import Kind, reference
from vehicled.profile.schema import Profile
from vehicled.run.findings import findings, refuse_errors
from vehicled.run.manoeuvre import programme_overrides
from vehicled.run.spec import RunSpec
from vehicled.run.world_files import WorldFile, map_name, world_files
from vehicled.runtime.board.recording import BoardRecording, read
from vehicled.safety.fence import Fence, read_geojson


class Plan(Struct, frozen=True, kw_only=True):
    """Loaded and checked configuration of a run. All errors in the specification are found while it
    is built."""

    spec: RunSpec
    loaded: Loaded
    course: Course
    fence: Fence | None
    fence_text: bytes
    """Content of the fence file, for the log; empty without a fence."""
    wiring: Wiring
    course_notes: list[str]
    """Reasons for driving slower than the course asks."""
    findings: list[Note]
    """Warnings about the profile; its errors have been raised."""
    plugins: list[Plugin]
    """Code of the user's that the run uses."""
    board: BoardRecording | None = None
    """Computer whose task times a lockstep run replays; None: declared costs."""
    board_text: bytes = b""
    """Content of its file, for the log."""
    world_files: list[WorldFile] = []
    """Files of the simulated world, for the log, and the map; only the map before a simulation
    fills them in, and on a vehicle."""
    grid: OccupancyGrid | None = None
    """Map on which the vehicle is located; None without one."""

    @classmethod
    def of(cls, spec: RunSpec) -> "Plan":
        """Load and check everything that ``spec`` names. Raises the errors of profile, course and
        set-up."""
        names = {
            "controller": spec.controller,
            "estimator": spec.estimator,
            "identifier": spec.identifier,
        }
        overrides = [
            *spec.overrides,
            *(f"{table}.name={name}" for table, name in names.items() if name),
            *_latency(spec),
            *(["inject_noise=true"] if spec.noise else []),
        ]
        if spec.scene:
            scene = scenes.absolute(spec.scene)
            overrides.append(f"sim.scene={scene}")
            spec = msgspec.structs.replace(spec, course=scenes.course_in(scene, spec.course))
        _check_mixed(spec)
        if spec.mixed:
            spec = msgspec.structs.replace(spec, mixed=scenes.absolute(spec.mixed))
        loaded = load(spec.profile, overrides + programme_overrides(spec, overrides))
        controller = loaded.profile.controller
        if controller.name == "programme" and not controller.selected.t_s:
            raise SetupError(
                "controller programme needs a programme: give --programme FILE or NAME"
            )
        course = course_of(loaded.profile, spec.course).repeated(spec.laps)
        check_direction(loaded.profile, course)
        fence, fence_text = fence_of(loaded, course)
        follows = controller.name != "programme"
        found = findings(loaded, course, fence, on_road=spec.own_ports)
        refuse_errors(loaded, found)
        board, board_text = board_of(spec, loaded.profile)
        found += board_notes(loaded.profile, board)
        return cls(
            spec=msgspec.structs.replace(spec, overrides=tuple(overrides)),
            loaded=loaded,
            course=course,
            fence=fence,
            fence_text=fence_text,
            wiring=wire(loaded.profile, spec.link),
            course_notes=speed_warnings(
                loaded.profile.vehicle,
                loaded.profile.limits,
                course,
                getattr(controller.selected, "speed", None),
            )
            if follows
            else [],
            findings=found,
            plugins=plugins_of(loaded.profile),
            board=board,
            board_text=board_text,
            world_files=world_files(loaded, simulated=False, mixed=spec.mixed),
            grid=grid_of(loaded),
        )


def _check_mixed(spec: RunSpec) -> None:
    if not spec.mixed_name and spec.mixed_loss != "warn":
        raise SetupError("--mixed-loss needs a virtual world: give --mixed or --mixed-vehicle")
    if spec.mixed_vehicles and spec.clock != "wall":
        raise SetupError("--mixed-vehicle needs --clock wall: the other daemon drives in real time")


def _latency(spec: RunSpec) -> list[str]:
    try:
        return latency_overrides(spec.latency)
    except ValueError as error:
        raise SetupError(f"--latency: {error}") from None


def board_of(spec: RunSpec, profile: Profile) -> tuple[BoardRecording | None, bytes]:
    """Return the recorded computer of the specification, and its file. Raises
    :class:`SetupError`."""
    if not spec.board:
        return None, b""
    if spec.clock != "lockstep":
        raise SetupError(
            "--board replays a computer in lockstep: leave out --clock wall, which uses this "
            "computer's own times"
        )
    return read(Path(spec.board).expanduser(), profile.tasks)


def board_notes(profile: Profile, board: BoardRecording | None) -> list[Note]:
    """Return a warning for each part of the pipeline that was another one when the computer was
    measured."""
    parts = (
        {"controller": profile.controller, "estimator": profile.estimator}
        if board is not None
        else {}
    )
    return [
        Note(
            "--board",
            f"the task times are those of {part} {was}, not of {now.label}: measure with it",
            level="warning",
        )
        for part, now in parts.items()
        if (was := getattr(board, part)) != now.label
    ]


def plugins_of(profile: Profile) -> list[Plugin]:
    """Return the plugins of the daemon that a loaded profile uses."""
    chosen: list[tuple[Kind, str]] = [
        ("controller", profile.controller.name),
        ("estimator", profile.estimator.name),
    ]
    if profile.identifier is not None:
        chosen.append(("identifier", profile.identifier.name))
    chosen += [("driver", device.driver.name) for device in profile.devices.values()]
    found = [plugins.loaded(kind, reference(kind, name)) for kind, name in dict.fromkeys(chosen)]
    return [plugin for plugin in found if plugin is not None]


def course_of(profile: Profile, name_or_file: str | None) -> Course:
    """Return the named course, or the profile's, fitted to the vehicle if its lanes depend on that.
    Raises CourseError."""
    vehicle = profile.vehicle
    return load_course(
        name_or_file or profile.course,
        width_m=vehicle.width_m,
        centre_m=vehicle.centre_m,
        turn_radius_m=vehicle.min_turn_radius_m,
    )


def check_direction(profile: Profile, course: Course) -> None:
    """Raise :class:`SetupError` if the course has reverse legs and the vehicle cannot reverse."""
    if (
        course.reverses
        and profile.controller.name != "programme"
        and not profile.vehicle.drive.top_reverse_speed_mps
    ):
        raise SetupError(
            f"course {course.name!r} has reverse legs, but the vehicle of profile "
            f"{profile.name!r} cannot reverse: its vehicle.drive.reverse_share is too small; "
            "choose another course, or set it if drive and driver can reverse"
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
        raise SetupError(
            f"fence: cannot read {path} ({error.strerror}); its path is relative to the profile"
        ) from None
    return read_geojson(data, path.name, course.datum), data


def grid_of(loaded: Loaded) -> OccupancyGrid | None:
    """Return the map on which the vehicle is located; None without one. Raises MapError."""
    name = map_name(loaded)
    return read_map(Path(loaded.path).parent / Path(name).expanduser()) if name else None
