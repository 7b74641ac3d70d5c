"""The daemon's profiles of the vehicles on the double-track plant: complete, true to their twins,
within their own rules."""

from pathlib import Path

import pytest

from sim_backend.plant.double_track.parameters import Motor
from sim_backend.plant.twin_file import anchored, load_twin
from vehicled.cli import main
from vehicled.paths.catalog import load_course
from vehicled.profile import ProfileError, check, load_profile, parse
from vehicled.profile.schema import Profile

VEHICLES = (
    "nigel",
    "f1tenth",
    "f1tenth_gnss",
    "roboracer",
    "hunter_se",
    "husky_a200",
    "art_twin",
    "hmmwv",
    "opencav",
    "rzr",
)
PROFILES = Path(__file__).parents[2] / "profiles"
SKID = "husky_a200"


@pytest.fixture(params=VEHICLES)
def profile(request: pytest.FixtureRequest) -> Profile:
    return load_profile(request.param)


def test_no_remark_is_serious(profile: Profile) -> None:
    assert [note for note in check(profile) if note.level == "error"] == []
    assert profile.sim.plant == "double_track"


def test_belief_is_near_the_twin(profile: Profile) -> None:
    """Values from tape measure and data sheet; the response of drive and tyres must be measured in
    a drive."""
    assert profile.sim.twin is not None
    twin = load_twin(profile.sim.twin.vehicle, profile.sim.twin.changes).parameters
    believed = profile.vehicle
    assert believed.mass_kg == pytest.approx(twin.body.mass_kg, rel=0.01)
    assert believed.wheelbase_m == pytest.approx(twin.body.wheelbase_m, rel=0.01)
    assert believed.track_m == pytest.approx(twin.front.track_m, rel=0.01)
    assert believed.steering.delay_s == pytest.approx(twin.steering.delay_s)
    if profile.name != SKID:
        assert believed.steering.gain_rad == pytest.approx(
            twin.steering.map_angle_rad[-1], rel=0.05
        )
        assert believed.steering.rate_radps == pytest.approx(twin.steering.rate_radps)
    if isinstance(twin.powertrain, Motor):
        assert 1.0 / believed.drive.gear_ratio == pytest.approx(
            twin.powertrain.reduction, rel=0.01
        ), "telemetry counts the motor"


def test_limits_follow_the_rates_and_the_size(profile: Profile) -> None:
    limits, tasks = profile.limits, profile.tasks
    assert limits.gnss_silence_s * profile.devices["gnss"].rate_hz == pytest.approx(5.0, rel=0.01)  # type: ignore[operator]
    assert limits.estimate_silence_s * tasks.fusion.rate_hz == pytest.approx(5.0)
    assert limits.control_silence_s * tasks.control.rate_hz == pytest.approx(5.0)
    assert limits.corridor_m >= 2.0 * profile.vehicle.width_m or limits.corridor_m >= 2.0


def test_the_course_suits_the_vehicle(profile: Profile) -> None:
    course = load_course(profile.course)
    assert abs(course.curvature_per_m).max() < 1.0 / profile.vehicle.min_turn_radius_m
    lateral = (course.speed_mps**2 * abs(course.curvature_per_m)).max()
    assert lateral < 0.8 * profile.limits.max_lateral_acceleration_mps2
    assert course.speed_mps.max() < profile.limits.max_speed_mps


def test_the_plant_has_its_vehicle_in_one_place() -> None:
    text = (PROFILES / "f1tenth.toml").read_text()
    with pytest.raises(
        ProfileError, match=r"sim.wheelbase_m.*has its wheelbase_m in the twin file"
    ):
        parse(text.replace("[sim.twin]", "wheelbase_m = 0.3\n[sim.twin]"))
    with pytest.raises(ProfileError, match=r"sim.twin.*takes its vehicle from a twin file"):
        parse(text.replace('[sim.twin]\nvehicle = "f1tenth"\n', ""))
    art = (
        PROFILES.parent / "tests" / "golden" / "profiles" / "art_published_whole.toml"
    ).read_text()
    with pytest.raises(ProfileError, match=r'sim.drives .*: unknown key; did you mean "drive"\?$'):
        parse(art.replace("[sim.drive]", "[sim.drives]"))
    with pytest.raises(ProfileError, match="reads no twin file"):
        parse(f'{art}\n[sim.twin]\nvehicle = "art_lfdm"\n')


def test_a_twin_file_of_ones_own_counts_from_the_profile(tmp_path: Path) -> None:
    text = (
        (PROFILES / "f1tenth.toml")
        .read_text()
        .replace('vehicle = "f1tenth"', 'vehicle = "./mine.toml"')
    )
    (tmp_path / "mine.toml").write_text(
        (PROFILES / "twins" / "f1tenth.toml")
        .read_text()
        .replace('name = "f1tenth"', 'name = "mine"')
    )
    twin = anchored(parse(text).profile, str(tmp_path / "my_car.toml")).sim.twin
    assert twin is not None
    assert load_twin(twin.vehicle).parameters.identity.name == "mine"


def test_the_commands_show_where_numbers_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["twin", "list"]) == 0
    assert "husky_a200" in capsys.readouterr().out
    assert main(["twin", "show", "nigel", "--only", "body"]) == 0
    shown = capsys.readouterr().out
    assert "body.wheelbase_m" in shown
    assert "published" in shown
    assert "AutoDRIVE-Nigel-Dataset" in shown
    assert main(["twin", "show", "nigle"]) == 2
    assert 'did you mean "nigel"?' in capsys.readouterr().err
