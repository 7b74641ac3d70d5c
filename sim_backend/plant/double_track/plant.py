"""Double-track vehicle as the plant of a run: rear-axle motion, terrain, and the end of the run at
a rollover."""

from math import atan2, cos, degrees, hypot, sin

from sim_backend.plant.double_track.constants import EngineConstants
from sim_backend.plant.double_track.ground import FLAT, Ground
from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.double_track.powertrain import NEUTRAL, PARK
from sim_backend.plant.interface import Motion, StartPose, VehicleLostError
from sim_backend.plant.twin_file import load_twin
from sim_backend.terrain.reading import load_terrain
from vehicled.core.messages import Gear
from vehicled.profile.schema import Sim

_GEARS = {PARK: Gear.PARK, NEUTRAL: Gear.NEUTRAL, 0.0: Gear.REVERSE}


class DoubleTrackPlant:
    """Vehicle of ``[sim.twin]`` on the ground of ``[sim.terrain]``. See
    :class:`sim_backend.plant.interface.Plant`."""

    def __init__(self, sim: Sim, pose: StartPose, step_s: float) -> None:
        """Raises ProfileError for an unusable twin file, and
        :class:`sim_backend.plant.double_track.checks.ParameterError` for a vehicle that is unstable
        at this step.
        """
        assert sim.twin is not None, "the profile's own rules see to it"
        table = sim.terrain
        even = not table.height and not table.friction and table.friction_scale == 1.0
        self._ground: Ground = FLAT if even else load_terrain(table)
        self._even = even
        self._step_s = step_s
        self._vehicle = double_track(
            load_twin(sim.twin.vehicle, sim.twin.changes).parameters, step_s, self._ground
        )
        constants = self._vehicle.constants
        # The point that does not slip sideways: the middle of a vehicle without wheels that turn,
        # and of one whose rear wheels turn as far as its front wheels.
        ratio = constants.rear_ratio
        self._reference_m = (
            0.5 * (constants.front.arm_m + constants.rear.arm_m)
            if constants.sides
            else constants.rear.arm_m - ratio / (1.0 - ratio) * constants.wheelbase_m
        )
        self.reset(pose)

    def reset(self, pose: StartPose, speed_mps: float = 0.0) -> None:
        """Place the vehicle anew, rolling straight ahead without slip."""
        self._vehicle.reset(
            pose.x_m - self._reference_m * cos(pose.yaw_rad),
            pose.y_m - self._reference_m * sin(pose.yaw_rad), pose.yaw_rad, speed_mps,
        )  # fmt: skip
        self._slope = self._slope_before = self._tilt()
        self._slope_rates = self._slope_rates_before = (0.0, 0.0)

    @property
    def motor_speed_radps(self) -> float:
        return self._vehicle.engine_radps

    @property
    def gear(self) -> Gear:
        """Position of the selector; UNKNOWN for a vehicle without one."""
        drive = self._vehicle.constants.drive
        if not (isinstance(drive, EngineConstants) and drive.selector):
            return Gear.UNKNOWN
        return _GEARS.get(self._vehicle.state.gear, Gear.DRIVE)

    def step(self, throttle: float, brake: float, wheel_angle_rad: float) -> None:
        if not self._vehicle.step(wheel_angle_rad, throttle, brake):
            raise VehicleLostError(self._loss())
        if not self._even:
            self._slope_before, self._slope = self._slope, self._tilt()
            rates = [
                (after - before) / self._step_s
                for before, after in zip(self._slope_before, self._slope, strict=True)
            ]
            self._slope_rates_before, self._slope_rates = self._slope_rates, (rates[0], rates[1])

    def turn_rear(self, factor: float) -> None:
        """Turn the rear wheels by a fraction of their angle, as a servo does that has failed."""
        self._vehicle.turn_rear(factor * self._vehicle.parameters.steering.rear_ratio)

    def rigid_body(self, mass_kg: float) -> tuple[float, float, float]:
        """Return mass and yaw inertia of the twin, and the distance of its centre of mass ahead of
        the reference point."""
        c = self._vehicle.constants
        return c.mass_kg, c.yaw_inertia_kgm2, -self._reference_m

    def strike(
        self, pose: StartPose, speed_mps: float, lateral_speed_mps: float, yaw_rate_radps: float
    ) -> None:
        """Set pose and velocity after a contact, at the height of the centre of mass: it neither
        rolls nor pitches the body."""
        before, out, arm_m = self._vehicle.state, self._vehicle.outputs, self._reference_m
        lateral_mps = lateral_speed_mps - arm_m * yaw_rate_radps
        self._vehicle.state = before._replace(
            x_m=pose.x_m - arm_m * cos(pose.yaw_rad),
            y_m=pose.y_m - arm_m * sin(pose.yaw_rad),
            yaw_rad=pose.yaw_rad,
            forward_mps=speed_mps,
            lateral_mps=lateral_mps,
            yaw_rate_radps=yaw_rate_radps,
            still_s=0.0,
        )
        self._vehicle.outputs = out._replace(
            forward_mps2=out.forward_mps2 + (speed_mps - before.forward_mps) / self._step_s,
            lateral_mps2=out.lateral_mps2 + (lateral_mps - before.lateral_mps) / self._step_s,
            yaw_radps2=out.yaw_radps2 + (yaw_rate_radps - before.yaw_rate_radps) / self._step_s,
        )

    def _loss(self) -> str:
        state = self._vehicle.state
        if self._vehicle.diverged:
            return (
                "the twin diverged: its motion left all bounds; check the parameters and "
                "sim.step_ms"
            )
        return (
            f"the vehicle rolled over: roll {degrees(state.roll_rad + state.tip_rad):.0f} degrees"
            f" at {hypot(state.forward_mps, state.lateral_mps):.2f} m/s"
        )

    def motion(self) -> Motion:
        s, out, arm_m = self._vehicle.state, self._vehicle.outputs, self._reference_m
        roll_rate = s.roll_rate_radps + s.tip_rate_radps
        x_m = s.x_m + arm_m * cos(s.yaw_rad)
        y_m = s.y_m + arm_m * sin(s.yaw_rad)
        lateral_mps = s.lateral_mps + arm_m * s.yaw_rate_radps
        z_m, slope_acceleration = 0.0, (0.0, 0.0)
        if not self._even:
            z_m = self._ground.at(x_m, y_m)[0]
            changes = [
                (b - a) / self._step_s
                for a, b in zip(self._slope_rates_before, self._slope_rates, strict=True)
            ]
            slope_acceleration = changes[0], changes[1]
        return Motion(
            x_m,
            y_m,
            s.yaw_rad,
            s.forward_mps,
            lateral_mps,
            s.yaw_rate_radps,
            out.forward_mps2 - arm_m * s.yaw_rate_radps * s.yaw_rate_radps,
            out.lateral_mps2 + arm_m * out.yaw_radps2,
            out.yaw_radps2,
            s.engine_radps,
            z_m=z_m,
            roll_rad=s.roll_rad + s.tip_rad + self._slope[0],
            pitch_rad=s.pitch_rad + self._slope[1],
            roll_rate_radps=roll_rate + self._slope_rates[0],
            pitch_rate_radps=s.pitch_rate_radps + self._slope_rates[1],
            roll_acceleration_radps2=out.roll_radps2 + slope_acceleration[0],
            pitch_acceleration_radps2=out.pitch_radps2 + slope_acceleration[1],
            # The velocity stays in the plane of the road, which turns under the vehicle.
            vertical_acceleration_mps2=self._slope_rates[0] * lateral_mps
            - self._slope_rates[1] * s.forward_mps,
            wheel_speeds_radps=(s.spin_fl_radps, s.spin_fr_radps, s.spin_rl_radps, s.spin_rr_radps),
        )

    def _tilt(self) -> tuple[float, float]:
        """Return roll (right side down) and pitch (nose down) of the road under the wheels, which
        give the direction of gravity."""
        under = self._vehicle.under
        return atan2(-under.lateral_mps2, under.down_mps2), atan2(
            under.forward_mps2, hypot(under.lateral_mps2, under.down_mps2)
        )
