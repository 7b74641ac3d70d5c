"""Relations between the numbers of a profile, as a table: see :mod:`vehicled.profile.plausibility`, which judges by it."""

from collections.abc import Callable
from math import inf, pi, tan
from typing import NamedTuple

from vehicled.profile.schema import Tasks

Range = tuple[float, float]


TASKS = Tasks.__struct_fields__


class Relation(NamedTuple):
    """``quantity(value of key, values of others)`` lies in ``usual``, and cannot lie outside ``possible``."""

    key: str
    others: tuple[str, ...]
    quantity: Callable[..., float]
    what: str
    """The quantity as a noun phrase, with its unit."""
    usual: Range
    possible: Range = (0.0, inf)
    cure: str = ""


def _one(value: float) -> float:
    return value


def _not_zero(value: float) -> float:
    return value or 0.05


def _ratio(value: float, other: float) -> float:
    return value / other if other else 1.0 if not value else inf


def _product(value: float, other: float) -> float:
    return value * other


def _top_speed_mps(stall: float, no_load: float, friction: float, viscous: float, radius: float, gear: float) -> float:
    return (stall - friction) * radius * gear / (stall / no_load + viscous)


def _steering(table: str, wheelbase: str) -> tuple[Relation, ...]:
    gain, lock, rate = f"{table}.gain_rad", f"{table}.max_wheel_rad", f"{table}.rate_radps"
    return (
        Relation(
            gain, (lock,), _ratio, "ratio of full command to the mechanical stop", (0.3, 2.5), (0.1, 8.0),
            "gain_rad is the wheel angle in radians at full command",
        ),
        Relation(lock, (), _one, "largest wheel angle, rad", (0.08, 1.05), (0.01, 1.4)),
        Relation(
            lock, (wheelbase,), lambda angle, base: base / tan(angle), "turning radius at full lock, m", (0.05, 40.0),
            (0.01, 200.0),
        ),
        Relation(
            f"{table}.offset_rad", (gain,), lambda offset, full: abs(offset) / full, "offset over full command", (0.0, 0.35),
        ),
        Relation(
            rate, (lock,), lambda slew, angle: angle / slew, "time from straight to full lock, s", (0.012, 6.0), (0.001, 40.0),
        ),
        Relation(
            f"{table}.delay_s", (), _not_zero, "delay from the command to the wheel, s", (0.0005, 0.9),
            cure="a real steering answers after 0.01 to 0.5 s",
        ),
        Relation(f"{table}.dead_zone", (), _one, "dead zone (share of full command)", (0.0, 0.5)),
    )  # fmt: skip


def _drive(table: str) -> tuple[Relation, ...]:
    stall, no_load, friction = f"{table}.stall_torque_nm", f"{table}.no_load_speed_radps", f"{table}.friction_nm"
    viscous, radius, gear = f"{table}.viscous_nms", f"{table}.wheel_radius_m", f"{table}.gear_ratio"
    inertia = f"{table}.inertia_kgm2"
    return (
        Relation(
            radius, ("vehicle.wheelbase_m",), _ratio, "wheel radius over wheelbase", (0.03, 0.6), (0.01, 1.2),
            "write half of the tyre's diameter",
        ),
        Relation(
            no_load, (stall, friction, viscous, radius, gear),
            lambda speed, torque, loss, damping, r, g: _top_speed_mps(torque, speed, loss, damping, r, g),
            "top speed of the drive, m/s", (0.1, 75.0), (0.02, 150.0),
        ),
        Relation(no_load, (), _one, "motor speed without load, rad/s", (10.0, 12000.0), (1.0, 60000.0)),
        Relation(
            stall, (radius, gear, inertia), lambda torque, r, g, i: torque * r * g / i, "acceleration at full drive, m/s2",
            (0.15, 60.0), (0.02, 300.0),
        ),
        Relation(
            inertia, (radius, gear, "vehicle.mass_kg"), lambda i, r, g, m: i / (r * g) ** 2 / m,
            "mass that the drive moves (inertia_kgm2 / (wheel_radius_m gear_ratio)^2) over mass_kg", (0.08, 6.0), (0.005, 100.0),
        ),
        Relation(gear, (), _one, "wheel speed over motor speed", (0.001, 2.0), (1e-05, 30.0)),
        Relation(
            friction, (radius, gear, inertia), lambda loss, r, g, i: loss * r * g / i, "deceleration by friction, m/s2",
            (0.0, 4.0), (0.0, 40.0),
        ),
        Relation(
            friction, (stall,), lambda loss, torque: loss / torque if loss else 0.01, "friction over stall torque",
            (0.0005, 0.6), (0.0, 1.0),
        ),
        Relation(
            viscous, (stall, no_load), lambda damping, torque, speed: damping * speed / torque,
            "viscous loss at no-load speed over stall torque", (0.0, 3.0), (0.0, 50.0),
        ),
        Relation(
            f"{table}.brake_deceleration_mps2", (), lambda a: a or 1.0, "deceleration at full brake (tyres hold about 10), m/s2",
            (0.3, 13.0), (0.02, 25.0),
        ),
        Relation(f"{table}.delay_s", (), _not_zero, "delay from the command to the drive, s", (0.0005, 1.0)),
    )  # fmt: skip


def _speed(table: str) -> tuple[Relation, ...]:
    stall, inertia = "vehicle.drive.stall_torque_nm", "vehicle.drive.inertia_kgm2"
    radius, gear = "vehicle.drive.wheel_radius_m", "vehicle.drive.gear_ratio"
    return (
        Relation(
            f"{table}.p", (stall, radius, gear, inertia), lambda p, torque, r, g, i: p * torque * r * g / i if p else 1.0,
            "bandwidth of the speed loop, 1/s", (0.05, 60.0), (0.001, 1000.0),
        ),
        Relation(
            f"{table}.i", (f"{table}.p",), lambda i, p: i / p if i and p else 0.1, "i over p, 1/m", (0.005, 10.0),
            (0.0001, 500.0),
        ),
        Relation(f"{table}.integral_limit", (), lambda limit: limit or 0.1, "integral limit (share of full drive)", (0.01, 1.0)),
        Relation(
            f"{table}.acceleration_mps2", ("limits.max_acceleration_mps2",), _ratio, "planned over allowed acceleration",
            (0.01, 1.0), (0.0005, 10.0), "the gate cuts what exceeds limits.max_acceleration_mps2",
        ),
        Relation(f"{table}.acceleration_mps2", (), _one, "planned acceleration, m/s2", (0.1, 15.0), (0.005, 60.0)),
        Relation(f"{table}.deceleration_mps2", (), _one, "planned deceleration, m/s2", (0.1, 10.0), (0.005, 25.0)),
        Relation(
            f"{table}.creep_mps", ("limits.max_speed_mps",), _ratio, "creep speed over the speed limit", (0.005, 0.5),
            (1e-05, 1.0),
        ),
    )  # fmt: skip


_MAX_SPEED, _LENGTH, _WIDTH, _WHEELBASE = "limits.max_speed_mps", "vehicle.length_m", "vehicle.width_m", "vehicle.wheelbase_m"
_TOP_SPEED = ("stall_torque_nm", "no_load_speed_radps", "friction_nm", "viscous_nms", "wheel_radius_m", "gear_ratio")
_RATE, _LOCK = "vehicle.steering.rate_radps", "vehicle.steering.max_wheel_rad"

RELATIONS: tuple[Relation, ...] = (
        Relation(
            _WHEELBASE, (_LENGTH,), _ratio, "wheelbase over length", (0.3, 1.0), (0.1, 1.0),
            "the wheels stand inside the outline: look at both",
        ),
        Relation("vehicle.track_m", (_WIDTH,), _ratio, "track over width", (0.5, 1.0), (0.2, 1.0)),
        Relation(_WIDTH, (_LENGTH,), _ratio, "width over length", (0.15, 1.3), (0.04, 5.0)),
        Relation(_WHEELBASE, ("vehicle.track_m",), _ratio, "wheelbase over track", (0.5, 4.0), (0.15, 12.0)),
        Relation(_LENGTH, (), _one, "length, m", (0.08, 20.0), (0.02, 40.0)),
        Relation(
            "vehicle.mass_kg", (_LENGTH, _WIDTH), lambda m, length, w: m / (length * length * w),
            "bulk density (mass over length x length x width), kg/m3", (10.0, 600.0), (2.0, 3000.0),
        ),
        *_steering("vehicle.steering", _WHEELBASE),
        *_drive("vehicle.drive"),
        Relation(
            "vehicle.steering.delay_s", (_MAX_SPEED, _WHEELBASE, _LOCK),
            lambda delay, v, base, lock: delay * v * tan(lock) / base,
            "distance during the steering's delay at max_speed_mps over turning radius", (0.0, 2.0), (0.0, 20.0),
            "lower the speed limit, or the delay",
        ),
        Relation("vehicle.understeer_rad_per_mps2", (), lambda k: k or 0.001, "understeer, rad per m/s2", (1e-05, 0.03)),
        Relation(
            "vehicle.rear_slip_rad_per_mps2", (), lambda k: k or 0.001, "slip of the rear axle, rad per m/s2", (0.0001, 0.06),
        ),
        Relation("vehicle.path_lag_s_per_mps", (), lambda k: k or 0.001, "lag of the path, s per m/s", (0.0001, 0.08)),
        Relation(_MAX_SPEED, (), _one, "speed limit, m/s", (0.05, 60.0), (0.005, 150.0)),
        Relation(
            _MAX_SPEED,
            tuple(f"vehicle.drive.{key}" for key in _TOP_SPEED),
            lambda v, *drive: v / max(_top_speed_mps(*drive), 1e-09), "speed limit over the top speed of [vehicle.drive]",
            (0.03, 2.5), (0.0001, 40.0),
        ),
        Relation(
            _MAX_SPEED, ("vehicle.drive.wheel_radius_m",), lambda v, r: v / r * 30.0 / pi, "wheel speed at max_speed_mps, rpm",
            (5.0, 5000.0), (0.1, 40000.0),
        ),
        Relation(
            _MAX_SPEED, ("tasks.control.rate_hz", _WHEELBASE), lambda v, f, base: v / f / base,
            "distance per control period, wheelbases", (1e-05, 1.2), (0.0, 6.0), "raise tasks.control.rate_hz",
        ),
        Relation(
            "limits.max_lateral_acceleration_mps2", (), _one, "lateral acceleration (tyres hold about 10), m/s2", (0.2, 14.0),
            (0.01, 40.0),
        ),
        Relation(
            "limits.corridor_m", (_WIDTH,), lambda half, width: half / max(width, 0.35),
            "half width of the corridor over the vehicle's width", (0.2, 25.0), (0.02, 1000.0),
            "noise of the position alone would stop the vehicle, or nothing would",
        ),
        Relation(
            "limits.capped_speed_mps", (_MAX_SPEED,), _ratio, "capped speed over max_speed_mps", (0.02, 1.5), (0.0001, 50.0),
        ),
        Relation("limits.gnss_silence_s", (), _one, "silence of GNSS before the speed is capped, s", (0.02, 5.0), (0.0, 60.0)),
        Relation("limits.imu_silence_s", (), _one, "silence of the IMU before a stop, s", (0.005, 1.0), (0.0, 5.0)),
        Relation(
            "limits.estimate_silence_s", ("tasks.fusion.rate_hz",), _product, "limit of silence in fusion periods", (2.0, 60.0),
            (1.0, 1000.0),
        ),
        Relation("limits.estimate_silence_s", (), _one, "age of the estimate before the brake, s", (0.002, 0.5), (0.0, 3.0)),
        Relation(
            "limits.control_silence_s", ("tasks.control.rate_hz",), _product, "limit of silence in control periods", (2.0, 60.0),
            (1.0, 1000.0),
        ),
        Relation("limits.control_silence_s", (), _one, "age of the command before the brake, s", (0.002, 0.6), (0.0, 3.0)),
        Relation(
            "limits.loop_silence_s", ("tasks.actuation.rate_hz",), _product, "limit of silence in actuation periods",
            (2.0, 500.0), (1.0, 5000.0),
        ),
        Relation("limits.loop_silence_s", (), _one, "pause between commands that ends the drive, s", (0.02, 1.1), (0.0, 10.0)),
        Relation(
            "limits.telemetry_silence_s", (), _one, "silence of the motor controller before the brake, s", (0.01, 2.0),
            (0.0, 20.0),
        ),
        Relation("limits.teleop_silence_s", (), _one, "silence of the stick before the brake, s", (0.03, 1.5), (0.005, 10.0)),
        Relation(
            "limits.ground_silence_s", (), _one, "silence of the ground station before a stop, s", (0.2, 60.0), (0.02, 3600.0),
        ),
        Relation("limits.obstacle_silence_s", (), _one, "silence of the obstacle sensor, s", (0.03, 3.0), (0.0, 60.0)),
        Relation(
            "limits.obstacle_gap_m", (_LENGTH,), lambda gap, length: gap / length if gap else 0.1,
            "gap to an obstacle over the vehicle's length", (0.01, 15.0), (0.0, 500.0),
        ),
        Relation(
            "limits.obstacle_side_m", (_WIDTH,), lambda side, w: side / w if side else 0.1,
            "free room beside over the vehicle's width", (0.005, 5.0), (0.0, 100.0),
        ),
        Relation("limits.rtk_lost_stop_s", (), _one, "drive without RTK, s", (0.2, 600.0), (0.0, 20000.0)),
        Relation("limits.arming_missed_share", (), _one, "share of missed deadlines at arming", (0.001, 1.0)),
        Relation("limits.gnss_refusals", (), _one, "refused fixes before a stop", (2.0, 50.0)),
        Relation("limits.speed_mismatch_s", (), _one, "time of contradiction before a stop, s", (0.03, 5.0), (0.0, 60.0)),
        Relation(
            "limits.not_moving_s", ("vehicle.drive.delay_s",), lambda t, delay: t - delay,
            "limits.not_moving_s less the drive's delay, s", (0.2, 20.0), (0.0, 300.0),
            "the drive is disabled before it can answer",
        ),
        Relation(
            "limits.uncommanded_s", ("vehicle.drive.delay_s",), lambda t, delay: t - delay,
            "limits.uncommanded_s less the drive's delay, s", (0.05, 5.0), (0.0, 60.0), "it brakes before the drive can obey",
        ),
        Relation(
            "limits.overspeed_mps", (_MAX_SPEED,), _ratio, "tolerance of overspeed over max_speed_mps", (0.01, 1.5),
            (0.0001, 50.0),
        ),
        Relation("limits.motor_hot_k", (), _one, "temperature of the motor, K", (310.0, 450.0), (280.0, 600.0)),
        Relation(
            "limits.battery_resistance_ohm", (), lambda r: r or 0.01, "resistance of the battery, ohm", (0.0002, 1.0),
            (0.0, 20.0),
        ),
        Relation(
            "limits.battery_low_v", ("limits.battery_empty_v",), lambda low, empty: low / empty if low and empty else 1.05,
            "battery_low_v over battery_empty_v", (1.0, 1.6), (1.0, 20.0), "low comes before empty",
        ),
        Relation(
            "limits.battery_low_v", ("sim.battery.full_v",), lambda low, full: low / full if low else 0.9,
            "battery_low_v over sim.battery.full_v", (0.5, 1.0), (0.01, 1.2), "a full battery would already count as low",
        ),
        Relation(
            "limits.battery_empty_v", ("sim.battery.full_v",), lambda empty, full: empty / full if empty else 0.8,
            "battery_empty_v over sim.battery.full_v", (0.4, 0.98), (0.01, 1.2), "a full battery would already count as empty",
        ),
        Relation("limits.still_rate_radps", (), _one, "rate of an IMU at rest, rad/s", (0.0008, 0.6), (1e-05, 10.0)),
        Relation("limits.still_force_mps2", (), _one, "error of gravity at rest, m/s2", (0.02, 5.0), (0.0001, 9.0)),
        Relation(
            "limits.max_acceleration_mps2",
            tuple(f"vehicle.drive.{key}" for key in ("stall_torque_nm", "wheel_radius_m", "gear_ratio", "inertia_kgm2")),
            lambda a, torque, r, g, i: a / (torque * r * g / i), "allowed over possible acceleration", (0.1, 12.0),
            (0.002, 1000.0),
        ),
        Relation(
            "limits.max_jerk_mps3", ("limits.max_acceleration_mps2",), _ratio, "allowed jerk over allowed acceleration, 1/s",
            (0.8, 250.0), (0.01, 20000.0),
        ),
        Relation(
            "limits.max_lateral_jerk_mps3", (_MAX_SPEED, _RATE, _WHEELBASE),
            lambda jerk, v, rate, base: jerk / (v * v * rate / base),
            "allowed lateral jerk over what the steering makes at max_speed_mps", (0.15, 80.0), (0.0001, 100000.0),
        ),
        Relation(
            "limits.max_steering_rate_radps", (_RATE,), _ratio, "allowed steering rate over the servo's", (0.9, 150.0),
            (0.05, 10000.0), "write a few times vehicle.steering.rate_radps: less makes the gate cut every steering command",
        ),
        *(
            Relation(
                f"tasks.{task}.deadline_ms", (f"tasks.{task}.rate_hz",), lambda ms, f: ms * f / 1000.0, "deadline over period",
                (0.05, 1.5), (0.001, 20.0), "the answer of one release must be there before the next",
            )
            for task in TASKS
        ),
        *(
            Relation(
                f"tasks.{task}.deadline_ms", (f"limits.{limit}",), lambda ms, s: ms / 1000.0 / s,
                f"deadline over limits.{limit}", (0.0, 0.9), (0.0, 1.0), "the vehicle would brake before the deadline is missed",
            )
            for task, limit in (
                ("fusion", "estimate_silence_s"), ("control", "control_silence_s"), ("actuation", "loop_silence_s"),
            )
        ),
        *(
            Relation(f"tasks.{task}.rate_hz", (), _one, "rate of the task, Hz", (5.0, 2000.0))
            for task in TASKS
        ),
        *(
            Relation(f"tasks.{task}.declared_us", (), lambda us: us or 100.0, "declared cost, us", (1.0, 100000.0))
            for task in TASKS
        ),
        *(
            Relation(f"tasks.{task}.max_miss_share", (), _one, "share of missed deadlines", (0.0, 0.25))
            for task in TASKS
        ),
        Relation(
            "tasks.control.rate_hz", ("tasks.fusion.rate_hz",), _ratio, "control rate over fusion rate", (0.02, 8.0), (0.0, inf),
            "control would repeat old estimates",
        ),
        Relation(
            "tasks.actuation.rate_hz", ("tasks.control.rate_hz",), _ratio, "actuation rate over control rate", (0.1, 40.0),
            (0.0, inf),
        ),
        Relation(
            "tasks.ingestion.rate_hz", ("tasks.fusion.rate_hz",), _ratio, "ingestion rate over fusion rate", (0.1, 40.0),
            (0.0, inf),
        ),
        Relation(
            "control_frame.position_rate_mps", (_MAX_SPEED,), _ratio, "rate of the correction over max_speed_mps", (0.01, 2.0),
            (0.0001, 100.0),
        ),
        Relation(
            "controller.pure_pursuit.look_ahead_max_s", ("vehicle.steering.delay_s",), lambda t, delay: t - delay,
            "longest look-ahead less the steering's delay, s", (0.05, 10.0), (0.0, 120.0), "it must reach beyond the delay",
        ),
        Relation(
            "controller.pure_pursuit.look_ahead_min_s", ("vehicle.steering.delay_s",), lambda t, delay: t - delay,
            "shortest look-ahead less the steering's delay, s", (0.0, 10.0), (-2.0, 120.0), "it must reach beyond the delay",
        ),
        Relation(
            "controller.pure_pursuit.look_ahead_max_s", ("controller.pure_pursuit.look_ahead_min_s",), _ratio,
            "longest over shortest look-ahead", (0.75, 30.0), (0.0, inf),
        ),
        Relation(
            "controller.pure_pursuit.look_ahead_max_m", ("controller.pure_pursuit.look_ahead_min_m",), _ratio,
            "longest over shortest look-ahead", (0.75, 200.0), (0.0, inf),
        ),
        *(
            Relation(f"controller.{key}", (_WHEELBASE,), _ratio, "shortest look-ahead in wheelbases", (0.2, 15.0), (0.01, 200.0))
            for key in ("pure_pursuit.look_ahead_min_m", "regulated_pure_pursuit.look_ahead_min_m", "flat.response_min_m")
        ),
        *(
            Relation(
                f"controller.{key}", (_MAX_SPEED,), _ratio, "look-ahead in seconds at max_speed_mps", (0.15, 120.0),
                (0.02, 5000.0), "the vehicle passes the point before it can steer for it",
            )
            for key in ("pure_pursuit.look_ahead_max_m", "regulated_pure_pursuit.look_ahead_max_m")
        ),
        Relation(
            "controller.regulated_pure_pursuit.look_ahead_s", ("vehicle.steering.delay_s",), lambda t, delay: t - delay,
            "look-ahead less the steering's delay, s", (0.0, 10.0), (-2.0, 120.0), "it must reach beyond the delay",
        ),
        Relation(
            "controller.flat.response_s", ("vehicle.steering.delay_s",), lambda t, delay: t - delay,
            "response less the steering's delay, s", (0.0, 10.0), (-2.0, 120.0), "no loop answers faster than its delay",
        ),
        Relation(
            "controller.mpc.stage_s", ("controller.mpc.stages", "vehicle.steering.delay_s"), lambda t, n, delay: t * n - delay,
            "horizon less the steering's delay, s", (0.3, 30.0), (0.0, 200.0), "the plan must reach beyond the delay",
        ),
        Relation(
            "controller.mpc.stage_s", (_MAX_SPEED, "controller.mpc.stages", _WHEELBASE), lambda t, v, n, base: t * n * v / base,
            "distance over the horizon, wheelbases", (1.0, 200.0), (0.1, 10000.0), "stages x stage_s is the horizon",
        ),
        *_speed("controller.pure_pursuit.speed"),
        *_speed("controller.mpc.speed"),
        *_speed("controller.flat.speed"),
        *_speed("controller.stanley.speed"),
        *_speed("controller.regulated_pure_pursuit.speed"),
        *_steering("sim.steering", "sim.wheelbase_m"),
        *_drive("sim.drive"),
        Relation(
            "sim.steering.slack_rad", ("sim.steering.gain_rad",), lambda slack, gain: slack / gain if slack else 0.01,
            "slack over full command", (0.0002, 0.4),
        ),
        *(
            Relation(
                f"sim.{key}", (f"vehicle.{key}",), _ratio, f"truth over belief (vehicle.{key})", (1.0 / 3.0, 3.0), (0.0, inf),
                "[sim] is the truth of the same vehicle",
            )
            for key in (
                "wheelbase_m", "steering.gain_rad", "steering.max_wheel_rad", "steering.rate_radps", "drive.stall_torque_nm",
                "drive.no_load_speed_radps", "drive.gear_ratio", "drive.wheel_radius_m", "drive.inertia_kgm2",
            )
        ),
        Relation("sim.step_ms", (), _one, "step of the plant, ms", (0.1, 5.0)),
        Relation(
            "sim.step_ms", ("tasks.actuation.rate_hz",), lambda ms, f: ms * f / 1000.0,
            "step of the plant over the actuation period", (0.0, 1.0),
        ),
        Relation("sim.command_timeout_s", (), _one, "time-out of the actuator, s", (0.02, 1.1), (0.0, 30.0)),
        Relation("sim.battery.full_v", ("sim.battery.nominal_v",), _ratio, "full over nominal voltage", (1.0, 1.5), (1.0, 10.0)),
        Relation("sim.battery.nominal_v", (), _one, "voltage of the battery, V", (1.0, 1000.0)),
        Relation(
            "sim.battery.internal_resistance_ohm", ("sim.battery.full_drive_current_a", "sim.battery.nominal_v"),
            lambda r, a, v: r * a / v if r else 0.05, "sag at full drive over nominal voltage", (0.0002, 0.5), (0.0, 1.0),
        ),
        Relation(
            "sim.battery.capacity_ah", ("sim.battery.full_drive_current_a",), _ratio, "hours at full drive", (0.01, 20.0),
            (0.0, 5000.0),
        ),
        Relation(
            "sim.imu.range_mps2", (), _one, "range of the accelerometer, m/s2", (15.0, 3000.0), (9.9, inf),
            "it must hold gravity",
        ),
        Relation("sim.imu.range_radps", (), _one, "range of the gyro, rad/s", (2.0, 100.0)),
        Relation("sim.gnss.latency_ms", (), lambda ms: ms or 10.0, "latency of GNSS, ms", (1.0, 500.0)),
        Relation("sim.heading.latency_ms", (), lambda ms: ms or 10.0, "latency of the heading, ms", (1.0, 500.0)),
        Relation("sim.heading.sigma_rad", (), lambda s: s or 0.01, "noise of the heading, rad", (0.0004, 0.35)),
        Relation("sim.imu.gyro_bias_radps", (), lambda b: b or 0.001, "bias of the gyro, rad/s", (1e-06, 0.05)),
        Relation(
            "sim.lidar.range_max_m", ("sim.lidar.range_min_m",), lambda far, near: far / near if near else 100.0,
            "range of the scanner, largest over least", (5.0, 5000.0), (1.0, inf),
        ),
        Relation(
            "sim.lidar.sweep_ms", ("sim.lidar.rate_hz",), lambda ms, f: ms * f / 1000.0 or 0.5,
            "sweep of the scanner over its period", (0.005, 1.0), (0.0, inf),
        ),
    )  # fmt: skip
"""Every relation. The first key is the one that is reported; the message names the others."""
