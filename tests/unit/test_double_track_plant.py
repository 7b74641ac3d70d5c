"""The double-track vehicle as the plant of a run: its rear axle, the ground under its wheels, and
the step of the profile."""

from math import atan, atan2, cos, radians, sin, tan
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from sim_backend.plant.double_track.constants import constants
from sim_backend.plant.double_track.ground import flat_surface, surface
from sim_backend.plant.double_track.model import rest
from sim_backend.plant.double_track.plant import DoubleTrackPlant
from sim_backend.plant.interface import StartPose
from sim_backend.plant.twin_file import load_twin
from sim_backend.profile_check import resolved_profile
from vehicled.cli import main
from vehicled.paths.catalog import load_course
from vehicled.profile import ProfileError, load, load_profile
from vehicled.profile.schema import Sim, TwinVehicle

ROOT = Path(__file__).resolve().parents[2]


def on_heights(sim: Sim, folder: Path, heights: NDArray[np.float64], step_m: float) -> Sim:
    """Return terrain on a raster whose middle is the origin; rows from north to south."""
    path = folder / "heights.csv"
    path.write_text("\n".join(",".join(f"{z_m:.6f}" for z_m in row) for row in heights))
    rows, columns = heights.shape
    corner = f"x_m = {-0.5 * step_m * (columns - 1)}\ny_m = {-0.5 * step_m * (rows - 1)}\n"
    path.with_name("heights.csv.toml").write_text(f"step_m = {step_m}\n{corner}")
    return replace(sim, terrain=replace(sim.terrain, height=str(path)))


@pytest.mark.parametrize(("slope_x", "slope_y"), [(0.0, 0.0), (-0.02, 0.03)])
def test_the_twin_of_a_run_reports_the_rear_axle_on_its_slope(
    tmp_path: Path, slope_x: float, slope_y: float
) -> None:
    sim = load_profile("art").sim
    sim = replace(
        sim,
        plant="double_track",
        twin=TwinVehicle(vehicle="art_lfdm"),
        steering=None,
        drive=None,
        wheelbase_m=None,
    )
    axis = np.arange(-20.0, 21.0)
    sim = on_heights(sim, tmp_path, slope_x * axis + slope_y * axis[::-1, None], 1.0)
    plant = DoubleTrackPlant(sim, StartPose(3.0, -1.0, radians(90.0)), 1e-3)
    standing = plant.motion()
    # East is to its right.
    assert standing.pitch_rad == pytest.approx(-atan(slope_y), abs=1e-6)
    assert standing.roll_rad == pytest.approx(atan2(-slope_x * cos(atan(slope_y)), 1.0), abs=1e-6)
    for _ in range(3000):
        plant.step(0.8, 0.0, 0.15)
    motion = plant.motion()
    assert motion.z_m == pytest.approx(slope_x * motion.x_m + slope_y * motion.y_m, abs=1e-5)
    assert motion.speed_mps > 0.5
    assert motion.lateral_speed_mps == pytest.approx(0.0, abs=0.03)
    assert motion.yaw_rate_radps == pytest.approx(motion.speed_mps * tan(0.15) / 0.46524, rel=0.1)
    assert motion.lateral_acceleration_mps2 == pytest.approx(
        motion.speed_mps * motion.yaw_rate_radps, rel=0.1
    )
    along = slope_x * cos(motion.yaw_rad) + slope_y * sin(motion.yaw_rad)
    across = slope_y * cos(motion.yaw_rad) - slope_x * sin(motion.yaw_rad)
    assert motion.pitch_rad == pytest.approx(-atan(along), abs=0.01)
    assert 0.0 < motion.roll_rad - atan(across) < 0.03, "it leans out of the turn"
    assert motion.wheel_speeds_radps[1] > motion.wheel_speeds_radps[0] > 0.0


def test_rough_ground_turns_the_body_as_fast_at_any_step(tmp_path: Path) -> None:
    rough = 0.005 * np.random.default_rng(0).standard_normal((80, 160))
    sim = on_heights(load_profile("hmmwv").sim, tmp_path, rough, 0.5)
    largest = []
    for step_s in (1e-3, 2.5e-4):
        plant, found = DoubleTrackPlant(sim, StartPose(-20.0, 0.0, 0.0), step_s), 0.0
        for _ in range(round(4.0 / step_s)):
            plant.step(0.6, 0.0, 0.0)
            found = max(found, abs(plant.motion().pitch_acceleration_radps2))
        largest.append(found)
    assert largest[1] < 1.5 * largest[0]


class Ridge:
    """A narrow one along y."""

    def at(self, x_m: float, y_m: float) -> tuple[float, float, float, float]:
        inside = abs(x_m) < 0.1
        return (0.1 - abs(x_m) if inside else 0.0), (-1.0 if x_m > 0.0 else 1.0) * inside, 0.0, 1.0


def test_ground_that_no_wheel_touches_is_not_felt() -> None:
    c = constants(load_twin("art_lfdm").parameters, 1e-3)
    assert surface(Ridge(), c, rest(c, 0.05)) == flat_surface()
    assert surface(Ridge(), c, rest(c, -c.front.arm_m)).forward_mps2 < 0.0, (
        "the front wheels stand on it"
    )


def test_a_step_that_the_twin_cannot_carry_is_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = load("art_twin", ["sim.step_ms=20"])
    with pytest.raises(
        ProfileError,
        match=r"sim\.step_ms: front\.tyre\.lateral\.carcass_stiffness_npm .* too stiff .* 20 ms",
    ):
        resolved_profile(loaded, load_course(loaded.profile.course))
    slow = tmp_path / "slow.toml"
    slow.write_text(
        (ROOT / "profiles/art_twin.toml").read_text().replace("step_ms = 1.0", "step_ms = 20.0")
    )
    assert main(["check", str(slow)]) == 1
    assert "sim.step_ms: front.tyre" in capsys.readouterr().out
