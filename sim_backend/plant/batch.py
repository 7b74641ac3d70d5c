"""Many vehicles behind their actuators. Those of the 4-DOF plant are stepped together as numpy
arrays.

The equations are those of :class:`sim_backend.plant.actuators.Actuators` and
:class:`sim_backend.plant.four_dof.FourDof`. A command is held for a period of whole grid steps.
Within a period each delay changes the acting command at most once, so servo, linkage and path are
closed forms over all grid steps; only the speed, which the sagging supply feeds back, is a loop.

Sums run step by step (``accumulate``), never pairwise, so that a row has the same bits in a batch
of any size.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec import structs

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.double_track.plant import DoubleTrackPlant
from sim_backend.plant.interface import StartPose, VehicleLostError
from sim_backend.plant.registry import plant_class
from sim_backend.plant.wiring import wiring
from vehicled.core.arrays import Array, clipped
from vehicled.profile.schema import Sim

Rows = npt.NDArray[np.intp]


FEW = 12
"""Largest number of vehicles whose speeds are computed in plain floats."""


def parameters(sim: Sim) -> dict[str, float]:
    """Return the numbers of ``[sim]`` that vehicles of a batch may differ in, by dotted key:
    geometry, steering, drive, battery.

    Empty for another plant than the 4-DOF one.
    """
    if sim.plant != "four_dof":
        return {}
    assert sim.steering is not None, "the profile's own rules see to it"
    assert sim.drive is not None, "the profile's own rules see to it"
    assert sim.wheelbase_m is not None, "the profile's own rules see to it"
    tables = {"steering": sim.steering, "drive": sim.drive, "battery": sim.battery}
    return {"wheelbase_m": sim.wheelbase_m} | {
        f"{name}.{key}": float(value)
        for name, table in tables.items()
        for key, value in structs.asdict(table).items()
    }


def batch_of(
    sim: Sim, count: int, period_ns: int, longest_delay_s: float = 0.0
) -> "BatchFourDof | BatchOfPlants":
    """Return ``count`` vehicles of a profile that take commands once in a period.
    ``longest_delay_s`` bounds the delays that they may be given. Raises ValueError for a period
    that the actuators cannot hold.
    """
    step_ns = round(sim.step_ms * 1e6)
    if period_ns <= 0 or period_ns % step_ns:
        raise ValueError(
            f"a period of {period_ns * 1e-9:g} s is not a whole number of steps of "
            f"{sim.step_ms:g} ms"
        )
    if period_ns > round(sim.command_timeout_s * 1e9):
        raise ValueError(
            f"a period of {period_ns * 1e-9:g} s is longer than sim.command_timeout_s, "
            f"{sim.command_timeout_s:g} s: the actuators would time out between two commands; "
            "make it shorter"
        )
    if sim.plant == "four_dof":
        return BatchFourDof(sim, count, period_ns, longest_delay_s)
    return BatchOfPlants(sim, count, period_ns)


class BatchOfPlants:
    """Vehicles of any plant, stepped one after another. State and methods are those of
    :class:`BatchFourDof`."""

    def __init__(self, sim: Sim, count: int, period_ns: int) -> None:
        """Use :func:`batch_of`."""
        self._sim = sim
        self._step_ns = round(sim.step_ms * 1e6)
        self.steps = period_ns // self._step_ns
        self._plant_class = plant_class(sim.plant)
        self.parameters: dict[str, Array] = {}
        self.rolls = self._plant_class is DoubleTrackPlant
        """True if vehicles may start at a speed."""
        self._show(np.zeros((6, count)))
        self.lost: npt.NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)
        self._now_ns = [0] * count
        pristine = StartPose(0.0, 0.0, 0.0)
        self._plants = [
            self._plant_class(sim, pristine, self._step_ns * 1e-9) for _ in range(count)
        ]
        self._wired = wiring(sim)
        self._actuators = [Actuators(sim, 0, self._step_ns, self._wired) for _ in range(count)]

    def reset(
        self, rows: Rows, x_m: Array, y_m: Array, yaw_rad: Array, speed_mps: Array | float = 0.0,
        changes: Mapping[str, Array] | None = None,
    ) -> None:  # fmt: skip
        """Start vehicles anew. ``changes`` must be empty, and ``speed_mps`` 0 unless
        :attr:`rolls`."""
        assert not changes, "parameters() offers none"
        speeds = dict(
            zip(rows.tolist(), np.broadcast_to(speed_mps, len(rows)).tolist(), strict=True)
        )
        for row, *pose in zip(
            rows.tolist(), x_m.tolist(), y_m.tolist(), yaw_rad.tolist(), strict=True
        ):
            plant = self._plants[row]
            if isinstance(plant, DoubleTrackPlant):
                plant.reset(StartPose(*pose), speeds[row])
            else:
                self._plants[row] = self._plant_class(
                    self._sim, StartPose(*pose), self._step_ns * 1e-9
                )
            self._actuators[row] = Actuators(self._sim, 0, self._step_ns, self._wired)
            self._now_ns[row] = 0
            self.lost[row] = False
        self._read(rows.tolist())

    def advance(self, throttle: Array, brake: Array, steering: Array) -> None:
        """Command all vehicles and advance them one period. A vehicle that is lost stays as it is
        until its reset."""
        commands = zip(throttle.tolist(), brake.tolist(), steering.tolist(), strict=True)
        for row, (plant, actuators, command) in enumerate(
            zip(self._plants, self._actuators, commands, strict=True)
        ):
            if self.lost[row]:
                continue
            now_ns, sags = self._now_ns[row], actuators.sags
            actuators.command(now_ns, *command)
            try:
                for _ in range(self.steps):
                    actuators.step(now_ns, plant.motor_speed_radps if sags else 0.0)
                    plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
                    now_ns += self._step_ns
            except VehicleLostError:
                self.lost[row] = True
            self._now_ns[row] = now_ns
        self._read(np.flatnonzero(~self.lost).tolist())

    def _read(self, rows: list[int]) -> None:
        """Take over the motion of some vehicles, into new arrays: callers keep the former ones."""
        state = self._state.copy()
        for row in rows:
            m = self._plants[row].motion()
            state[:, row] = (
                m.x_m,
                m.y_m,
                m.yaw_rad,
                m.speed_mps,
                m.yaw_rate_radps,
                self._actuators[row].wheel_angle_rad,
            )
        self._show(state)

    def _show(self, state: Array) -> None:
        self._state = state
        (
            self.x_m,
            self.y_m,
            self.yaw_rad,
            self.speed_mps,
            self.yaw_rate_radps,
            self.wheel_angle_rad,
        ) = state


class BatchFourDof:
    """``count`` vehicles. State arrays (n,): ``x_m``, ``y_m``, ``yaw_rad``, ``speed_mps``,
    ``yaw_rate_radps``, ``wheel_angle_rad``, and ``lost``, true where the vehicle cannot go on.
    """

    def __init__(self, sim: Sim, count: int, period_ns: int, longest_delay_s: float = 0.0) -> None:
        """Use :func:`batch_of`."""
        self._step_ns = round(sim.step_ms * 1e6)
        self.steps = period_ns // self._step_ns
        """Grid steps in a period."""
        self.rolls = True
        """True if vehicles may start at a speed."""
        self._dt_s = self._step_ns * 1e-9
        self.parameters: dict[str, Array] = {
            key: np.full(count, value) for key, value in parameters(sim).items()
        }
        """Numbers of each vehicle, by key of ``[sim]``; changed by :meth:`reset`."""
        longest_s = max(
            longest_delay_s,
            *(float(self.parameters[key][0]) for key in ("steering.delay_s", "drive.delay_s")),
        )
        kept = self._delay_steps(np.array(longest_s)).item() // self.steps + 2
        self._history: Array = np.zeros((3, kept, count))
        """Commands throttle, brake, servo target by age in periods."""
        self._all = np.arange(count)
        self.lost: npt.NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)
        (
            self.x_m,
            self.y_m,
            self.yaw_rad,
            self.speed_mps,
            self.yaw_rate_radps,
            self.wheel_angle_rad,
        ) = np.zeros((6, count))
        self._servo_rad, self._curvature_per_m, self._drawn_c = np.zeros((3, count))
        self.reset(self._all, self.x_m, self.y_m, self.yaw_rad)

    def reset(
        self, rows: Rows, x_m: Array, y_m: Array, yaw_rad: Array, speed_mps: Array | float = 0.0,
        changes: Mapping[str, Array] | None = None,
    ) -> None:  # fmt: skip
        """Start vehicles anew: wheels straight, battery full, no command acting. ``changes``
        replace numbers of ``[sim]``."""
        for key, values in (changes or {}).items():
            self.parameters[key][rows] = values
        self._derive()
        self.x_m[rows] = x_m
        self.y_m[rows] = y_m
        self.yaw_rad[rows] = yaw_rad
        self.speed_mps[rows] = speed_mps
        self._history[:, :, rows] = 0.0
        straight = self._target(np.zeros(len(self._all)))[rows]
        self._history[2][:, rows] = straight
        self._servo_rad[rows] = self.wheel_angle_rad[rows] = straight
        self._curvature_per_m[rows] = self._drawn_c[rows] = self.yaw_rate_radps[rows] = 0.0

    def _derive(self) -> None:
        """Compute the constants of the step from the parameters."""
        p, dt_s = self.parameters, self._dt_s
        self._reduced_m = p["drive.wheel_radius_m"] * p["drive.gear_ratio"]
        inertia, stall_nm = p["drive.inertia_kgm2"], p["drive.stall_torque_nm"]
        force_per_torque = self._reduced_m / inertia
        damping_per_s = (
            stall_nm / p["drive.no_load_speed_radps"] + p["drive.viscous_nms"]
        ) / inertia
        self._decay = np.exp(-damping_per_s * dt_s)
        self._response_s = -np.expm1(-damping_per_s * dt_s) / damping_per_s
        self._stall_mps2 = force_per_torque * stall_nm
        self._friction_mps2 = force_per_torque * p["drive.friction_nm"]
        self._no_load_mps = self._reduced_m * p["drive.no_load_speed_radps"]
        self._volts_per_coulomb = (
            2.0
            * (p["battery.full_v"] - p["battery.nominal_v"])
            / (3600.0 * p["battery.capacity_ah"])
        )
        self._steering_delay = np.divmod(self._delay_steps(p["steering.delay_s"]), self.steps)
        self._drive_delay = np.divmod(self._delay_steps(p["drive.delay_s"]), self.steps)
        self._slew_rad = p["steering.rate_radps"] * dt_s
        self._half_slack_rad = 0.5 * p["steering.slack_rad"]

    def _delay_steps(self, delay_s: Array) -> npt.NDArray[np.int64]:
        """Return the first grid point at or after a delay."""
        return -(-np.rint(delay_s * 1e9).astype(np.int64) // self._step_ns)

    def _target(self, steering: Array) -> Array:
        """Return the servo's target angle for commands -1..1."""
        p = self.parameters
        zone, most_rad = p["steering.dead_zone"], p["steering.max_wheel_rad"]
        # A dead zone of the whole range leaves no command that acts.
        effective = np.maximum(np.abs(steering) - zone, 0.0) / np.where(zone < 1.0, 1.0 - zone, 1.0)
        angle = p["steering.offset_rad"] + p["steering.gain_rad"] * np.copysign(effective, steering)
        return clipped(angle, -most_rad, most_rad)

    def advance(self, throttle: Array, brake: Array, steering: Array) -> None:
        """Command all vehicles (n,) and advance them one period. Inputs are finite; they are
        clipped as the actuators do."""
        history = self._history
        history[:, 1:] = history[:, :-1]
        history[0, 0] = clipped(throttle, -self.parameters["drive.reverse_share"], 1.0)
        history[1, 0] = clipped(brake, 0.0, 1.0)
        history[2, 0] = self._target(clipped(steering, -1.0, 1.0))
        wheel = self._wheel_angles()
        travelled_m = self._travel()
        curvature = np.tan(wheel) / self.parameters["wheelbase_m"]
        mean = 0.5 * (curvature + np.concatenate((self._curvature_per_m[None], curvature[:-1])))
        half_turn = 0.5 * travelled_m * mean
        # Chord of an arc: sin(h) / h as a series, as in the scalar plant.
        square = half_turn * half_turn
        chord = travelled_m * (1.0 - square * (1.0 - 0.05 * square) / 6.0)
        turned = _accumulate(self.yaw_rad, 2.0 * half_turn)
        middle = turned[:-1] + half_turn
        self.x_m = _accumulate(self.x_m, chord * np.cos(middle))[-1]
        self.y_m = _accumulate(self.y_m, chord * np.sin(middle))[-1]
        self.yaw_rad = turned[-1]
        self.wheel_angle_rad, self._curvature_per_m = wheel[-1], curvature[-1]
        self.yaw_rate_radps = self.speed_mps * self._curvature_per_m

    def _acting(
        self, kind: int, delay: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    ) -> tuple[Array, Array]:
        """Return the command that acts before and after the change within this period."""
        periods, _ = delay
        return self._history[kind, periods + 1, self._all], self._history[kind, periods, self._all]

    def _wheel_angles(self) -> Array:
        """Move servos and linkages through the period. Return the wheel angles after each step (T,
        n)."""
        change = self._steering_delay[1]
        before, after = self._acting(2, self._steering_delay)
        step = np.arange(1, self.steps + 1)[:, None]
        early = np.minimum(step, change)
        servo_early = _slewed(self._servo_rad, before, early * self._slew_rad)
        servo_change = _slewed(self._servo_rad, before, change * self._slew_rad)
        servo = np.where(
            step <= change,
            servo_early,
            _slewed(servo_change, after, np.maximum(step - change, 0) * self._slew_rad),
        )
        # The servo turns one way on each side of the change, so each wheel angle depends on the end
        # of the other side alone.
        half = self._half_slack_rad
        wheel_early = clipped(self.wheel_angle_rad, servo_early - half, servo_early + half)
        wheel_change = clipped(self.wheel_angle_rad, servo_change - half, servo_change + half)
        wheel: Array = np.where(
            step <= change, wheel_early, clipped(wheel_change, servo - half, servo + half)
        )
        self._servo_rad = servo[-1]
        return wheel

    def _travel(self) -> Array:
        """Drive through the period. Return the distance of each step (T, n), negative backward."""
        p, dt_s, shape = self.parameters, self._dt_s, (self.steps, len(self._all))
        late = np.arange(self.steps)[:, None] >= self._drive_delay[1]
        before, after = self._acting(0, self._drive_delay)
        duty = np.where(late, after, before)
        before, after = self._acting(1, self._drive_delay)
        loss = self._friction_mps2 + p["drive.brake_deceleration_mps2"] * np.where(
            late, after, before
        )
        magnitude = np.abs(duty)
        relative = magnitude / p["battery.nominal_v"]
        ohm_a = p["battery.internal_resistance_ohm"] * p["battery.full_drive_current_a"] * magnitude
        sag = 1.0 / (1.0 + ohm_a * relative)
        draw = magnitude * p["battery.full_drive_current_a"] * dt_s
        inputs = np.stack((duty, relative, ohm_a, sag, draw, loss))
        start, end, forward = np.empty(shape), np.empty(shape), np.ones(shape)
        constants = np.stack(
            (
                self._volts_per_coulomb, p["battery.full_v"], 1.0 / self._no_load_mps,
                self._stall_mps2, self._decay, self._response_s,
            )
        )  # fmt: skip
        if len(self._all) <= FEW:
            self._drive_few(inputs, constants, start, end, forward)
        else:
            self._drive_many(inputs, constants, start, end, forward)
        # A step that would end below 0 ends at standstill, inside the step.
        stopping = end <= 0.0
        fraction = np.divide(
            start, start - end, out=np.zeros(shape), where=stopping & (start > 0.0)
        )
        return forward * dt_s * np.where(stopping, 0.5 * start * fraction, 0.5 * (start + end))

    def _drive_many(
        self, inputs: Array, constants: Array, start: Array, end: Array, forward: Array
    ) -> None:
        """Solve supply and speed step by step. Fill, for each step (T, n), the speeds before and
        after it in the direction of the motion, not yet limited to standstill, and that direction.
        """
        slope, full_v, no_load, stall, decay, response = constants
        speed, drawn = self.speed_mps, self._drawn_c
        backward = bool((inputs[0] < 0.0).any() or (speed < 0.0).any())
        for j, (duty, relative, ohm_a, sag, draw, loss) in enumerate(inputs.transpose(1, 0, 2)):
            open_v = np.maximum(full_v - slope * drawn, 0.0)
            motor = speed * no_load
            if backward:
                forward[j] = np.where((speed < 0.0) | ((duty < 0.0) & (speed == 0.0)), -1.0, 1.0)
                bridge = np.where(duty < 0.0, -1.0, 1.0)
                motor, speed = motor * bridge, speed * forward[j]
            driven = relative * ((open_v + ohm_a * motor) * sag)
            torque = driven - motor
            # A motor faster than the duty asks for draws nothing: this controller does not
            # regenerate.
            driven = np.where(torque < 0.0, relative * open_v, driven)
            drawn = drawn + draw * np.maximum(torque, 0.0)
            if backward:
                driven = driven * (bridge * forward[j])
            start[j] = speed
            end[j] = raw = decay * speed + response * (stall * driven - loss)
            speed = np.maximum(raw, 0.0)
            if backward:
                speed = speed * forward[j]
        self.speed_mps, self._drawn_c = speed, drawn

    def _drive_few(
        self, inputs: Array, constants: Array, start: Array, end: Array, forward: Array
    ) -> None:
        """Do what :meth:`_drive_many` does in plain floats, which cost less than short arrays and
        have the same bits."""
        self.speed_mps, self._drawn_c = self.speed_mps.copy(), self._drawn_c.copy()
        for row in range(len(self._all)):
            slope, full_v, no_load, stall, decay, response = constants[:, row].tolist()
            speed, drawn = float(self.speed_mps[row]), float(self._drawn_c[row])
            steps = []
            for duty, relative, ohm_a, sag, draw, loss in inputs[:, :, row].T.tolist():
                open_v = full_v - slope * drawn
                open_v = open_v if open_v > 0.0 else 0.0
                bridge = -1.0 if duty < 0.0 else 1.0
                direction = -1.0 if speed < 0.0 or (duty < 0.0 and speed == 0.0) else 1.0
                motor, speed = speed * no_load * bridge, speed * direction
                driven = relative * ((open_v + ohm_a * motor) * sag)
                torque = driven - motor
                if torque < 0.0:
                    driven = relative * open_v
                else:
                    drawn += draw * torque
                raw = decay * speed + response * (stall * (driven * (bridge * direction)) - loss)
                steps.append((speed, raw, direction))
                speed = (raw if raw > 0.0 else 0.0) * direction
            start[:, row], end[:, row], forward[:, row] = np.array(steps).T
            self.speed_mps[row], self._drawn_c[row] = speed, drawn


def _slewed(start: Array, target: Array, most: Array) -> Array:
    """Return an angle that has turned towards a target by at most ``most``."""
    return clipped(target, start - most, start + most)


def _accumulate(start: Array, changes: Array) -> Array:
    """Return the running sums (T + 1, n) from ``start`` on."""
    sums: Array = np.add.accumulate(np.concatenate((start[None], changes)), axis=0)
    return sums
