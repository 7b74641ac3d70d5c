"""The step as machine code: the bits of the plain step, and a cache that is never in the way."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import isfinite, nan, tan
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sim_backend import machine_code
from sim_backend.plant.double_track import native
from sim_backend.plant.double_track.constants import Constants, constants
from sim_backend.plant.double_track.ground import FLAT, Ground, Plane
from sim_backend.plant.double_track.model import DoubleTrack, rest
from sim_backend.plant.double_track.native_model import NativeDoubleTrack, double_track
from sim_backend.plant.double_track.state import Outputs, PlantState, Stepped, Surface
from sim_backend.plant.twin_file import load_twin
from sim_backend.world import World
from tests.busy_computer import DEADLINE_S
from tests.examples import examples
from tests.grid import sampled
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

ROOT = Path(__file__).resolve().parents[2]
HMMWV = "hmmwv_chrono"
ART = "art_measured"
BMW = "bmw_320i"
HUSKY = "husky_a200"
REFCAR = "slipx_refcar"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of our own: what is tested has been compiled here."""
    root = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(root))
        patch.delenv("VEHICLED_CC", raising=False)
        yield root / "vehicled" / "twins"


def pair(
    name: str, ground: Ground = FLAT, **changes: float
) -> tuple[DoubleTrack, NativeDoubleTrack]:
    parameters = load_twin(name).parameters
    parameters = (
        replace(parameters, bounds=replace(parameters.bounds, **changes)) if changes else parameters
    )
    plain, compiled = DoubleTrack(parameters, 1e-3, ground), double_track(parameters, 1e-3, ground)
    assert isinstance(compiled, NativeDoubleTrack)
    return plain, compiled


def drive(plain: DoubleTrack, compiled: DoubleTrack, steps: int, seed: int) -> bool:
    """Both by the same commands, and every bit of both. Returns whether the last step was fine."""
    random, fine = Random(seed), True
    for index in range(steps):
        if index % 75 == 0:
            steer = random.uniform(-0.6, 0.6) * random.random()
            throttle, brake = random.uniform(-0.6, 1.0), max(0.0, random.uniform(-2.0, 1.0))
        fine = plain.step(steer, throttle, brake)
        assert compiled.step(steer, throttle, brake) is fine
        assert bits(plain) == bits(compiled), f"step {index}"
    return fine


def bits(vehicle: DoubleTrack) -> list[str]:
    """Return all numbers as hex, so that signs of zeros count."""
    return [value.hex() for value in (*vehicle.state, *vehicle.outputs)]


@pytest.mark.parametrize(
    "name", sampled([HMMWV, ART, BMW, HUSKY, REFCAR], lambda name: name in (HMMWV, HUSKY))
)
def test_the_machine_code_gives_the_bits_of_the_plain_step(name: str) -> None:
    plain, compiled = pair(name)
    for seed, speed_mps in ((11, 0.0), (12, 5.0)):
        for vehicle in (plain, compiled):
            vehicle.reset(1.0, -2.0, 0.5, speed_mps)
        drive(plain, compiled, 1200, seed)
        assert compiled.engine_radps == plain.engine_radps
        assert compiled.outputs == plain.outputs


number = st.floats(-1.0, 1.0)


@given(
    commands=st.lists(st.tuples(number, number, st.floats(0.0, 1.0)), min_size=1, max_size=30),
    speed_mps=st.floats(-3.0, 30.0),
)
@examples(40)
def test_any_commands_from_any_speed_give_the_same_bits(
    commands: list[tuple[float, float, float]], speed_mps: float
) -> None:
    plain, compiled = pair(HMMWV)
    for vehicle in (plain, compiled):
        vehicle.reset(speed_mps=speed_mps)
    for command in commands:
        assert compiled.step(*command) is plain.step(*command)
        assert bits(plain) == bits(compiled)


def test_slopes_and_slippery_ground_give_the_same_bits() -> None:
    plain, compiled = pair(ART, Plane(0.08, -0.05, 0.6))
    assert compiled.state.forward_mps2 != 0.0
    drive(plain, compiled, 800, 3)


def test_slips_of_peak_and_sliding_that_cross_give_the_same_bits() -> None:
    changes: dict[str, Any] = {}
    for tyre in ("front.tyre", "rear.tyre"):
        changes |= {f"{tyre}.nominal_load_n": 1000.0, f"{tyre}.largest_load_n": 3000.0}
        for side in ("longitudinal", "lateral"):
            changes |= {
                f"{tyre}.{side}.peak_slip": [0.25, 0.375],
                f"{tyre}.{side}.sliding_slip": [0.5, 0.5],
            }
    parameters = load_twin(BMW, changes).parameters
    plain, compiled = DoubleTrack(parameters), double_track(parameters)
    assert isinstance(compiled, NativeDoubleTrack)
    for vehicle in (plain, compiled):
        vehicle.reset(speed_mps=20.0)
    drive(plain, compiled, 800, 6)


def test_other_numbers_of_a_kind_share_a_text_and_keep_their_bits(folder: Path) -> None:
    pair(HMMWV)
    made = set(folder.iterdir())
    parameters = load_twin(HMMWV).parameters
    heavier = replace(
        parameters, body=replace(parameters.body, mass_kg=1.07 * parameters.body.mass_kg)
    )
    plain, compiled = DoubleTrack(heavier), double_track(heavier)
    assert isinstance(compiled, NativeDoubleTrack)
    assert set(folder.iterdir()) == made
    drive(plain, compiled, 800, 4)


def test_both_diverge_at_the_same_step_and_stay() -> None:
    plain, compiled = pair(HMMWV, speed_limit_mps=2.0)
    for _ in range(4000):
        fine = plain.step(0.0, 1.0, 0.0)
        assert compiled.step(0.0, 1.0, 0.0) is fine
        if not fine:
            break
    assert plain.diverged
    assert compiled.diverged
    assert compiled.step(0.0, 0.0, 1.0) is False
    assert bits(plain) == bits(compiled)
    compiled.reset()
    assert compiled.step(0.0, 0.1, 0.0)


def test_both_are_lost_where_they_roll_over() -> None:
    plain, compiled = pair(HMMWV, roll_limit_rad=0.02)
    for vehicle in (plain, compiled):
        vehicle.reset(speed_mps=15.0)
    assert drive(plain, compiled, 300, 5) is False
    assert compiled.rolled_over
    assert not compiled.diverged


def test_commands_that_are_no_numbers_are_refused() -> None:
    _, compiled = pair(HMMWV)
    for command in ((nan, 0.0, 0.0), (0.0, float("inf"), 0.0), (0.0, 0.0, nan)):
        with pytest.raises(ValueError, match="not a finite number"):
            compiled.step(*command)
    assert all(isfinite(value) for value in compiled.state)
    assert compiled.step(0.0, 0.0, 0.0)


def test_a_world_sends_the_same_bytes_with_and_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile, course = load_profile("hmmwv"), load_course("sine")

    def arrivals() -> list[Any]:
        world = World(profile, course, 1, 0)
        world.actuators.command(0, 0.6, 0.0, 0.3)
        return [arrival for step in range(1, 60) for arrival in world.advance(step * 7_300_000)]

    compiled = arrivals()
    assert len(compiled) > 80
    monkeypatch.setenv("VEHICLED_CC", "")
    assert arrivals() == compiled


# The cache.


def refused(*asked: Any) -> Any:
    raise AssertionError("asked for, although it has been made")


TEXT = """
#include <math.h>
int twin_advance(double *block, double steer, double throttle, double brake) {
  block[0] += block[60] * tan(throttle) + block[51] * brake;
  return 0;
}
long twin_run(void) { return 0; }
"""


def small(
    c: Constants, state: PlantState, g: Surface, steer_rad: float, throttle: float, brake: float
) -> Stepped:
    """Stands for the plain step of the text above: what is tested is what becomes of a text."""
    x_m = state.x_m + (c.step_s * tan(throttle) + g.down_mps2 * brake)
    return Stepped(state._replace(x_m=x_m), Outputs(*(0.0,) * len(Outputs._fields)))


def step_of(c: Constants) -> native.Native | None:
    return native.native_step(c, lambda c: TEXT, small, rest(c))


@pytest.fixture
def c() -> Constants:
    return constants(load_twin(REFCAR).parameters, 1e-3)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "vehicled" / "twins"


def compiler(place: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = place / "cc"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("VEHICLED_CC", str(program))


def test_it_is_made_once(c: Constants, empty: Path) -> None:
    assert step_of(c) is not None
    (made,) = empty.iterdir()
    assert made.suffix == ".so"
    assert empty.stat().st_mode & 0o777 == 0o700
    os.utime(made, (1, 1))
    assert native.native_step(c, refused, refused, rest(c)) is not None
    assert made.stat().st_mtime > 1, "not used for longest"


def test_many_at_once_make_one(c: Constants, empty: Path) -> None:
    with ThreadPoolExecutor(3) as threads:
        made = list(threads.map(lambda _: step_of(c), range(3)))
    assert None not in made
    assert len(list(empty.iterdir())) == 1


def test_what_does_not_agree_is_not_used_and_not_made_again(
    c: Constants, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, 'exec cc "$@" -Dtan=sin')
    assert step_of(c) is None
    (made,) = empty.iterdir()
    assert made.stat().st_size == 0
    assert native.native_step(c, refused, refused, rest(c)) is None


def test_a_process_outlives_machine_code_that_does_not_agree(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, 'exec cc "$@" -Dtan=sin')
    text = f"""
from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.twin_file import load_twin
vehicle = double_track(load_twin({ART!r}).parameters)
print(type(vehicle).__name__, vehicle.step(0.1, 0.5, 0.0))
"""
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert (done.returncode, done.stdout) == (0, "DoubleTrack True\n"), done.stderr
    assert [made.stat().st_size for made in empty.iterdir()] == [0]


@pytest.mark.parametrize(
    "script",
    [
        "exit 1",
        "exit 0",
        'while [ "$1" != -o ]; do shift; done; echo nonsense > "$2"',
        "kill -9 $$",
    ],
)
def test_a_compiler_that_cannot_is_none(
    c: Constants, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    compiler(tmp_path, monkeypatch, script)
    assert step_of(c) is None
    assert not [path for path in empty.iterdir() if path.is_dir()], "a folder was left behind"


def test_what_could_not_be_used_is_tried_again_another_day(
    c: Constants, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "ready"
    compiler(tmp_path, monkeypatch, f'test -e {ready} || exec cc "$@" -Dtan=sin; exec cc "$@"')
    assert step_of(c) is None
    ready.touch()
    assert native.native_step(c, refused, refused, rest(c)) is None
    (made,) = empty.iterdir()
    os.utime(made, (1, 1))
    assert step_of(c) is not None


def test_a_compiler_that_never_ends_is_given_up(
    c: Constants, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(machine_code, "COMPILE_TIMEOUT_S", 0.05)
    assert step_of(c) is None
    assert native.native_step(c, refused, refused, rest(c)) is None


@pytest.mark.parametrize("name", ["", "no such program", "/etc/passwd"])
def test_no_compiler_no_machine_code(
    c: Constants, empty: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("VEHICLED_CC", name)
    assert native.native_step(c, refused, refused, rest(c)) is None
    assert not empty.exists()


def test_a_folder_that_others_can_write_is_not_used(c: Constants, empty: Path) -> None:
    empty.mkdir(parents=True)
    empty.chmod(0o777)
    assert native.native_step(c, refused, refused, rest(c)) is None


def test_a_folder_that_cannot_be_made_is_none(
    c: Constants, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vehicled").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert native.native_step(c, refused, refused, rest(c)) is None


def test_a_damaged_file_is_not_loaded(
    c: Constants, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, 'exec cc "$@" -Dtan=sin')
    assert step_of(c) is None
    (made,) = empty.iterdir()
    made.write_bytes(b"nonsense")
    assert native.native_step(c, refused, refused, rest(c)) is None


def test_the_folder_does_not_grow_without_end(c: Constants, empty: Path) -> None:
    empty.mkdir(parents=True, mode=0o700)
    for index in range(machine_code.KEPT + 5):
        other = empty / f"{index}.so"
        other.write_bytes(b"")
        os.utime(other, (index, index))
    assert step_of(c) is not None
    left = {path.name for path in empty.iterdir()}
    assert len(left) == machine_code.KEPT
    assert not left & {f"{index}.so" for index in range(6)}


def test_another_kind_has_another_file(c: Constants, empty: Path) -> None:
    assert step_of(c) is not None
    assert step_of(constants(load_twin(HMMWV).parameters, 1e-3)) is not None
    assert len(list(empty.iterdir())) == 2
