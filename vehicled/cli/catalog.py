"""Commands ``vehicled check | profiles | courses``."""

import json
import socket
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from sim_backend.plant.registry import UnknownPlantError, plant_class
from sim_backend.profile_check import resolved_profile
from vehicled.control.speed import speed_warnings
from vehicled.core.errors import SetupError, UserError
from vehicled.live.view.access import parse_address
from vehicled.paths import CourseError
from vehicled.paths.catalog import load_course
from vehicled.paths.catalog import names as course_names
from vehicled.paths.course import Course
from vehicled.paths.datum import Datum
from vehicled.paths.place import FAR_M, distance_m, place_of, seen_from, start_of
from vehicled.profile import Loaded, Note, Problem, ProfileError, describe, json_schema, load
from vehicled.profile import check as remarks
from vehicled.profile import names as profile_names
from vehicled.profile.problems import by_line
from vehicled.profile.schema import Profile
from vehicled.profile.showing import text_of
from vehicled.run.argument_types import COURSE, KEY, PROFILE, PROFILE_OR_COURSE
from vehicled.run.command_line import CommandParser
from vehicled.run.findings import findings, placed
from vehicled.run.plan import check_direction, course_of, fence_of
from vehicled.run.secret import device_secrets, read_secret
from vehicled.run.terminal import print_table
from vehicled.runtime.ports import AddressError, make_port
from vehicled.runtime.ports.sharing import transport_of
from vehicled.safety.fence import Fence

OLD_TEST_DAYS = 180
"""Age of the independent stop's test, days, from which ``check`` warns."""


def declare_check(parser: CommandParser) -> None:
    """Check profiles or course files and list every mistake."""
    parser.describe(
        examples=("vehicled check my.toml", "vehicled check art track.csv"),
        epilog=(
            "Exit status: 0 all files are valid; 1 at least one is invalid or missing; 2 "
            "invalid arguments."
        ),
    )
    parser.add_argument(
        "what",
        type=PROFILE_OR_COURSE,
        nargs="+",
        metavar="FILE",
        help="profile (name or .toml) or course file",
    )
    _declare_site(parser)
    parser.set_defaults(run=check)


def declare_profiles(parser: CommandParser) -> None:
    """List the profiles, or show one with its bases and defaults."""
    parser.describe(
        examples=("vehicled profiles --show art_vesc     every value, and where it is stated",)
    )
    parser.add_argument(
        "--show",
        type=PROFILE,
        metavar="P",
        help="print the whole profile with the origin of each value instead",
    )
    parser.add_argument(
        "--set",
        type=KEY,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="with --show: override a key; repeatable",
    )
    parser.add_argument(
        "--schema", action="store_true", help="print the JSON Schema of a profile instead"
    )
    parser.set_defaults(run=profiles)


def declare_courses(parser: CommandParser) -> None:
    """List the courses, or show what a course file contains."""
    parser.describe(
        epilog=(
            "Exit status: 0 all files are valid; 1 at least one is invalid or missing; 2 "
            "invalid arguments."
        ),
    )
    parser.add_argument(
        "what",
        type=COURSE,
        nargs="*",
        metavar="COURSE",
        help=(
            "names or files; parameters of a file follow it: FILE:columns=x,y,-, "
            "FILE:gaps=bridge, FILE:time=ms, FILE:line=2"
        ),
    )
    _declare_site(parser)
    parser.set_defaults(run=courses)


def _declare_site(parser: CommandParser) -> None:
    parser.add_argument(
        "--profile",
        type=PROFILE,
        metavar="P",
        help="say how far courses are from that of this profile",
    )


def check(arguments: Namespace) -> int:
    """Check each file and list every mistake of each."""
    named = [what for what in arguments.what if _is_profile(what)]
    site = _site(
        arguments.profile or (named[0] if len(named) == 1 and len(arguments.what) > 1 else None)
    )
    sound = [
        _is_sound_profile(what) if what in named else _is_sound_course(what, site)
        for what in arguments.what
    ]
    return 0 if all(sound) else 1


def _is_profile(what: str) -> bool:
    return what in profile_names() or (
        what not in course_names() and Path(what).suffix in ("", ".toml")
    )


def _site(profile: str | None) -> tuple[Datum, str] | None:
    """Return where a profile's own course starts, and what to call it; None if that has no place on
    the earth."""
    if profile is None:
        return None
    try:
        course = course_of(load(profile).profile, None)
    except (ProfileError, CourseError):
        return None
    return (
        (start_of(course), f"the course of profile {Path(profile).stem}")
        if course.surveyed
        else None
    )


def _is_sound_course(what: str, site: tuple[Datum, str] | None = None) -> bool:
    try:
        course = load_course(what)
    except CourseError as error:
        print(
            f"{what}: {str(error).removeprefix(f'{what}: ').removeprefix(f'{Path(what).name}: ')}"
        )
        return False
    kind = "closed" if course.closed else "open"
    print(
        f"{what}: course is valid: {course.length_m:.1f} m, {kind}, {len(course.x_m)} points, "
        f"{_speeds(course)}"
    )
    if course.account is not None:
        for line in course.account.lines():
            print(f"  {line}")
        print(f"  {place_of(course)}")
        if course.surveyed and site is not None:
            far = distance_m(start_of(course), site[0]) > FAR_M
            print(f"  {'warning: ' if far else ''}{seen_from(course, *site)}")
    return True


def _is_sound_profile(what: str) -> bool:
    if Path(what).is_dir() and what not in profile_names():
        print(f"{what}: is a folder; give the profile or course file in it")
        return False
    try:
        loaded = load(what)
    except ProfileError as error:
        print(error)
        return False
    problems = sorted([*_problems(loaded), *loaded.errors], key=by_line)
    said = {problem.path for problem in problems}
    course, fence = _course_and_fence(loaded)
    notes = [
        *findings(loaded, course, fence, on_road=True),
        *placed(
            loaded,
            iter(
                [
                    *remarks(loaded.profile),
                    *_view_notes(loaded.profile),
                    *_stop_test(loaded.profile),
                    *_course_notes(loaded.profile),
                    *_place_note(course),
                ]
            ),
        ),
    ]
    notes = [
        note for note in dict.fromkeys(notes) if note.path not in said or note.level == "error"
    ]
    known = {(problem.path, problem.message) for problem in problems}
    problems += [
        note for note in notes if note.level == "error" and (note.path, note.message) not in known
    ]
    if problems:
        print(ProfileError(sorted(problems, key=by_line), loaded.path))
    else:
        print(f"{what}: profile {loaded.profile.name!r} is valid")
    for note in notes:
        if note.level != "error":
            print(f"  {note.level}: {note}")
    return not problems


def _course_and_fence(loaded: Loaded) -> tuple[Course | None, Fence | None]:
    try:
        course = course_of(loaded.profile, None)
        return course, fence_of(loaded, course)[0]
    except (CourseError, SetupError):
        return None, None


def _problems(loaded: Loaded) -> Iterator[Problem]:
    """Yield what ``run`` or ``sim`` would reject in a valid profile: references to missing or
    unreadable files and devices."""
    profile = loaded.profile

    def problem(path: str, error: Exception) -> Problem:
        # Some errors already begin with the key.
        said = str(error).removeprefix(f"{path}: ").removeprefix("sim.plant ")
        return Problem(path, said, loaded.place(path))

    for name, device in profile.devices.items():
        try:
            if device.port:
                make_port(name, device.port, transport_of(device))
        except AddressError as error:
            yield problem(f"devices.{name}.port", error)
    for name, driver, ref in device_secrets(profile):
        # A credential exists only inside the service, which names it when it is installed.
        if ref.file:
            try:
                read_secret("password", key=f"devices.{name}", file=ref.file, credential="")
            except SetupError as error:
                key, why = f"devices.{name}", str(error).removeprefix(f"devices.{name}: ")
                text = f"{why}: write the password into it, readable for you alone (chmod 600)"
                yield Problem(
                    f"{key}.driver.{driver}.password_file", text, loaded.place(f"devices.{name}")
                )
    try:
        parse_address(profile.view.address)
    except ValueError as error:
        yield problem("view.address", error)
    plant_known = True
    try:
        plant_class(profile.sim.plant)
    except UnknownPlantError as error:
        plant_known = False
        yield problem("sim.plant", error)
    try:
        course = course_of(profile, None)
        check_direction(profile, course)
    except (CourseError, SetupError) as error:
        yield problem("course", error)
        return
    try:
        fence_of(loaded, course)
    except (CourseError, SetupError) as error:
        yield problem("fence", error)
    try:
        if plant_known:
            resolved_profile(loaded, course)
    except ProfileError as error:
        yield from error.problems
    except UserError as error:
        yield Problem("", str(error))


def _course_notes(profile: Profile) -> Iterator[Note]:
    """Yield the reasons why the profile's course is not driven at the speeds that it asks for."""
    try:
        course = course_of(profile, None)
    except CourseError:
        return
    if profile.controller.name != "programme":
        for warning in speed_warnings(
            profile.vehicle,
            profile.limits,
            course,
            getattr(profile.controller.selected, "speed", None),
        ):
            yield Note("course", warning)


def _place_note(course: Course | None) -> Iterator[Note]:
    """Yield where on the earth a course file of the user's lies."""
    if (
        course is not None
        and course.surveyed
        and course.account is not None
        and course.name not in course_names()
    ):
        yield Note("course", place_of(course).removeprefix("place: "))


def _stop_test(profile: Profile) -> Iterator[Note]:
    """Yield a note if the independent stop was tested too long ago, by this computer's date."""
    key, tested = "safety.independent_stop.last_tested", profile.safety.independent_stop.last_tested
    if not tested:
        return
    try:
        age = datetime.now(UTC).date() - date.fromisoformat(tested)
    except ValueError:
        yield Note(key, f"{tested} is not a date; write it as 2026-11-22", level="error")
        return
    if age.days < -1:
        yield Note(
            key,
            (
                f"{tested} is in the future: correct the date of the test, or set this computer's "
                "clock"
            ),
            level="warning",
        )
    elif age.days > OLD_TEST_DAYS:
        yield Note(
            key,
            f"last tested {age.days} days ago: test it again, wheels off the ground",
            level="warning",
        )


def _view_notes(profile: Profile) -> Iterator[Note]:
    try:
        host, port = parse_address(profile.view.address)
    except ValueError:
        return
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        # Only a note, because the vehicle may be able to resolve the name.
        cure = (
            f"--view cannot listen on it; use 0.0.0.0:{port} for all addresses of the "
            "vehicle's computer"
        )
        yield Note("view.address", f"this computer cannot resolve {host!r}: {cure}")


def profiles(arguments: Namespace) -> int:
    """List the profiles, print the whole of one, or their JSON Schema."""
    if arguments.show is not None:
        print(text_of(load(arguments.show, arguments.set)), end="")
        return 0
    if arguments.schema:
        print(json.dumps(json_schema(), indent=2))
        return 0
    print_table(
        "",
        ["profile", "description", "file"],
        [[row.name, row.description or row.problem, row.path] for row in describe()],
    )
    return 0


def courses(arguments: Namespace) -> int:
    """List the courses, or show what was read from the named ones."""
    if arguments.what:
        site = _site(arguments.profile)
        sound = [_is_sound_course(what, site) for what in arguments.what]
        return 0 if all(sound) else 1
    print_table("", ["course", "length", "", "speed"], course_rows())
    return 0


def course_rows() -> list[list[str]]:
    """Return name, length, kind and speeds of every built-in course."""
    rows = []
    for name in course_names():
        course = load_course(name)
        rows.append(
            [
                name,
                f"{course.length_m:.1f} m",
                "closed" if course.closed else "open",
                _speeds(course),
            ]
        )
    return rows


def _speeds(course: Course) -> str:
    slowest, fastest = float(course.speed_mps.min()), float(course.speed_mps.max())
    return f"{slowest:.2f} m/s" if slowest == fastest else f"{slowest:.2f} to {fastest:.2f} m/s"
