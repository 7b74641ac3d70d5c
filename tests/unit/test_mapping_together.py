"""Maps of several drives: joined where they show the same place, refused where they do not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.mapping_bench import HALL, drive, scene_of
from vehicled.offline.mapping.build import build_together, trajectory_error
from vehicled.offline.mapping.drive import MappingDrive
from vehicled.offline.mapping.errors import MappingDriveError

YARD = (
    "[[wall]]\npoints = [[-9, -7], [10, -9], [13, 4], [2, 8], [-6, 11], [-8, 5]]\nclosed = true\n"
)


def part(scene_text: str, folder: Path, seed: int, begin_m: float, end_m: float) -> MappingDrive:
    """Return a part of a drive along the figure of eight, as a drive of its own."""
    folder.mkdir(exist_ok=True)
    whole = drive(scene_of(scene_text, folder), end_m, seed=seed)
    scans = whole.scans[int(begin_m / 0.15) :]
    return replace(whole, name=f"drive {seed}", scans=scans)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> MappingDrive:
    return part(HALL, tmp_path_factory.mktemp("first"), 1, 0.0, 16.0)


def test_a_second_drive_continues_the_map_of_the_first(first: MappingDrive, tmp_path: Path) -> None:
    second = part(HALL, tmp_path, 2, 8.0, 24.0)
    mapped = build_together([first, second], 0.1)
    error = trajectory_error([first, second], mapped)
    assert error is not None
    assert error.rms_m < 0.03
    numbers = [k.drive for k in mapped.frames]
    assert numbers == sorted(numbers)
    between = [
        e
        for e in mapped.edges
        if e.closure and e.weight > 0.5 and numbers[e.start] != numbers[e.to]
    ]
    assert len(between) >= 3
    assert len(mapped.drive(1).frames) == numbers.count(1)
    assert not mapped.quality.bent


def test_a_drive_of_another_place_is_refused(first: MappingDrive, tmp_path: Path) -> None:
    other = part(YARD, tmp_path, 3, 0.0, 14.0)
    with pytest.raises(MappingDriveError, match="it is of another place"):
        build_together([first, other], 0.1)


def test_places_that_look_the_same_are_refused(tmp_path: Path) -> None:
    # Seen from all around, a rectangle is the same when it is turned by half a turn.
    x, y = 0, 5
    text = f"[[wall]]\npoints = [[{x - 9}, {y - 7}], [{x + 9}, {y - 7}], [{x + 9}, {y + 7}], "
    room = scene_of(f"{text}[{x - 9}, {y + 7}]]\nclosed = true\n", tmp_path)
    one, two = (drive(room, 28.0, 0.3, seed, course_name="circle_r5_ccw") for seed in (1, 2))
    with pytest.raises(MappingDriveError, match="look the same"):
        build_together([one, two], 0.1)


def test_gnss_of_two_drives_places_them_on_one_map(first: MappingDrive, tmp_path: Path) -> None:
    def located(made: MappingDrive) -> MappingDrive:
        assert made.truth is not None
        times = np.array([scan.t_ns for scan in made.scans[::2]])
        there = made.truth.at(times)
        at = np.stack((there.x_m, there.y_m), axis=1)
        return replace(made, gnss_ns=times, gnss_m=at, gnss_sigma_m=np.full(len(times), 0.03))

    drives = [located(first), located(part(HALL, tmp_path, 2, 8.0, 24.0))]
    mapped = build_together(drives, 0.1)
    error = trajectory_error(drives, mapped)
    assert error is not None
    assert not error.aligned
    assert error.rms_m < 0.05
    assert mapped.places > 20
