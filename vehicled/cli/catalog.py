"""``vehicled check | profiles | courses``."""

import json
from argparse import Namespace
from pathlib import Path

from sim_backend.truth import TRUTH_ERRORS, truth_of
from vehicled.cli.show import print_table
from vehicled.paths.catalog import load_course
from vehicled.paths.catalog import names as course_names
from vehicled.profile import check as remarks
from vehicled.profile import describe, json_schema, load
from vehicled.profile import names as profile_names


def check(arguments: Namespace) -> int:
    """Check each file; every mistake of every file is named."""
    sound = True
    for what in arguments.what:
        try:
            sound &= _check_one(what)
        except TRUTH_ERRORS as error:
            sound = False
            print(error)
    return 0 if sound else 1


def _check_one(what: str) -> bool:
    is_course = what in course_names() or (Path(what).suffix not in ("", ".toml"))
    if is_course and what not in profile_names():
        course = load_course(what)
        speeds = f"{course.speed_mps.min():.2f} to {course.speed_mps.max():.2f} m/s"
        kind = "closed" if course.closed else "open"
        print(f"{what}: course is valid: {course.length_m:.1f} m, {kind}, {len(course.x_m)} points, {speeds}")
        return True
    loaded = load(what)
    profile = loaded.profile
    notes = remarks(profile)
    truth_of(loaded, load_course(profile.course))
    serious = any(note.serious for note in notes)
    print(f"{what}: profile {profile.name!r} " + ("cannot be driven" if serious else "is valid"))
    for note in notes:
        print(f"  note: {note}")
    return not serious


def profiles(arguments: Namespace) -> int:
    """List the profiles, or print their JSON Schema."""
    if arguments.schema:
        print(json.dumps(json_schema(), indent=2))
        return 0
    print_table(
        "", ["profile", "description", "file"], [[row.name, row.description or row.problem, row.path] for row in describe()]
    )
    return 0


def courses(arguments: Namespace) -> int:
    """List the courses."""
    rows = []
    for name in course_names():
        course = load_course(name)
        rows.append(
            [
                name,
                f"{course.length_m:.1f} m",
                "closed" if course.closed else "open",
                f"{course.speed_mps.min():.1f} to {course.speed_mps.max():.1f} m/s",
            ]
        )
    print_table("", ["course", "length", "", "speed"], rows)
    return 0
