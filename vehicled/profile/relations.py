"""Table of all plausible ranges of a profile, which :mod:`vehicled.profile.plausibility` checks."""

from math import inf, pi, tan

from vehicled.core.tasks import PIPELINE, TASKS
from vehicled.profile.relation import (
    Relation,
    drive,
    plain,
    product,
    ratio,
    speed,
    steering,
    top_speed_mps,
)

_MAX_SPEED = "limits.max_speed_mps"
_LENGTH = "vehicle.length_m"
_WIDTH = "vehicle.width_m"
_WHEELBASE = "vehicle.wheelbase_m"
_TOP_SPEED = (
    "stall_torque_nm",
    "no_load_speed_radps",
    "friction_nm",
    "viscous_nms",
    "wheel_radius_m",
    "gear_ratio",
)
_RATE, _LOCK = "vehicle.steering.rate_radps", "vehicle.steering.max_wheel_rad"

RELATIONS: tuple[Relation, ...] = (
        Relation(
            _WHEELBASE, (_LENGTH,), ratio, what="wheelbase over length", usual=(0.3, 1.0),
            possible=(0.1, 1.0), cure="the wheels are inside the outline: check both values",
        ),
        Relation(
            "vehicle.track_m", (_WIDTH,), ratio, what="track over width", usual=(0.5, 1.0),
            possible=(0.2, 1.0),
        ),
        Relation(
            _WIDTH, (_LENGTH,), ratio, what="width over length", usual=(0.15, 1.3),
            possible=(0.04, 5.0),
        ),
        Relation(
            _WHEELBASE, ("vehicle.track_m",), ratio, what="wheelbase over track", usual=(0.5, 4.0),
            possible=(0.15, 12.0),
        ),
        Relation(_LENGTH, (), plain, what="length, m", usual=(0.08, 20.0), possible=(0.02, 40.0)),
        Relation(
            "vehicle.mass_kg", (_LENGTH, _WIDTH), lambda m, length, w: m / (length * length * w),
            what="bulk density (mass over length x length x width), kg/m3", usual=(10.0, 600.0),
            possible=(2.0, 3000.0),
        ),
        *steering("vehicle.steering", _WHEELBASE),
        *drive("vehicle.drive"),
        Relation(
            "vehicle.steering.delay_s", (_MAX_SPEED, _WHEELBASE, _LOCK),
            lambda delay, v, base, lock: delay * v * tan(lock) / base,
            what="distance during the steering's delay at max_speed_mps over turning radius",
            usual=(0.0, 2.0), possible=(0.0, 20.0),
            cure="lower the speed limit or the delay",
        ),
        Relation(
            "vehicle.understeer_rad_per_mps2", (), lambda k: k or 0.001,
            what="understeer, rad per m/s2", usual=(1e-05, 0.03),
        ),
        Relation(
            "vehicle.rear_slip_rad_per_mps2", (), lambda k: k or 0.001,
            what="slip of the rear axle, rad per m/s2", usual=(0.0001, 0.06),
        ),
        Relation(
            "vehicle.path_lag_s_per_mps", (), lambda k: k or 0.001,
            what="lag of the path, s per m/s", usual=(0.0001, 0.08),
        ),
        Relation(
            _MAX_SPEED, (), plain, what="speed limit, m/s", usual=(0.05, 60.0),
            possible=(0.005, 150.0),
        ),
        Relation(
            _MAX_SPEED,
            tuple(f"vehicle.drive.{key}" for key in _TOP_SPEED),
            lambda v, *drive: v / max(top_speed_mps(*drive), 1e-09),
            what="speed limit over the top speed of [vehicle.drive]", usual=(0.03, 2.5),
            possible=(0.0001, 40.0),
        ),
        Relation(
            _MAX_SPEED, ("vehicle.drive.wheel_radius_m",), lambda v, r: v / r * 30.0 / pi,
            what="wheel speed at max_speed_mps, rpm", usual=(5.0, 5000.0), possible=(0.1, 40000.0),
        ),
        Relation(
            _MAX_SPEED, ("tasks.control.rate_hz", _WHEELBASE), lambda v, f, base: v / f / base,
            what="distance per control period, wheelbases",
            usual=(1e-05, 1.2), possible=(0.0, 6.0), cure="raise tasks.control.rate_hz",
        ),
        Relation(
            "limits.max_lateral_acceleration_mps2", (), plain,
            what="lateral acceleration (tyres hold about 10), m/s2", usual=(0.2, 14.0),
            possible=(0.01, 40.0),
        ),
        Relation(
            "limits.corridor_m", (_WIDTH,), lambda half, width: half / max(width, 0.35),
            what="half width of the corridor over the vehicle's width", usual=(0.2, 25.0),
            possible=(0.02, 1000.0),
            cure="position noise alone would stop the vehicle, or no error would",
        ),
        Relation(
            "limits.capped_speed_mps", (_MAX_SPEED,), ratio, what="capped speed over max_speed_mps",
            usual=(0.02, 1.5), possible=(0.0001, 50.0),
        ),
        Relation(
            "limits.gnss_silence_s", (), plain,
            what="silence of GNSS before the speed is capped, s", usual=(0.02, 5.0),
            possible=(0.0, 60.0),
        ),
        Relation(
            "limits.imu_silence_s", (), plain, what="silence of the IMU before a stop, s",
            usual=(0.005, 1.0), possible=(0.0, 5.0),
        ),
        Relation(
            "limits.estimate_silence_s", ("tasks.fusion.rate_hz",), product,
            what="limit of silence in fusion periods", usual=(2.0, 60.0),
            possible=(1.0, 1000.0),
        ),
        Relation(
            "limits.estimate_silence_s", (), plain, what="age of the estimate before the brake, s",
            usual=(0.002, 0.5), possible=(0.0, 3.0),
        ),
        Relation(
            "limits.control_silence_s", ("tasks.control.rate_hz",), product,
            what="limit of silence in control periods", usual=(2.0, 60.0),
            possible=(1.0, 1000.0),
        ),
        Relation(
            "limits.control_silence_s", (), plain, what="age of the command before the brake, s",
            usual=(0.002, 0.6), possible=(0.0, 3.0),
        ),
        Relation(
            "limits.loop_silence_s", ("tasks.actuation.rate_hz",), product,
            what="limit of silence in actuation periods", usual=(2.0, 500.0),
            possible=(1.0, 5000.0),
        ),
        Relation(
            "limits.loop_silence_s", (), plain,
            what="pause between commands that ends the drive, s", usual=(0.02, 1.1),
            possible=(0.0, 10.0),
        ),
        Relation(
            "limits.telemetry_silence_s", (), plain,
            what="silence of the motor controller before the brake, s", usual=(0.01, 2.0),
            possible=(0.0, 20.0),
        ),
        Relation(
            "limits.teleop_silence_s", (), plain,
            what="silence of the teleop device before the brake, s", usual=(0.03, 1.5),
            possible=(0.005, 10.0),
        ),
        Relation(
            "limits.ground_silence_s", (), plain,
            what="silence of the ground station before a stop, s", usual=(0.2, 60.0),
            possible=(0.02, 3600.0),
        ),
        Relation(
            "limits.obstacle_silence_s", (), plain, what="silence of the obstacle sensor, s",
            usual=(0.03, 3.0), possible=(0.0, 60.0),
        ),
        Relation(
            "limits.obstacle_gap_m", (_LENGTH,), lambda gap, length: gap / length if gap else 0.1,
            what="gap to an obstacle over the vehicle's length", usual=(0.01, 15.0),
            possible=(0.0, 500.0),
        ),
        Relation(
            "limits.obstacle_side_m", (_WIDTH,), lambda side, w: side / w if side else 0.1,
            what="lateral clearance over the vehicle's width", usual=(0.005, 5.0),
            possible=(0.0, 100.0),
        ),
        Relation(
            "limits.rtk_lost_stop_s", (), plain, what="driving time without RTK, s",
            usual=(0.2, 600.0), possible=(0.0, 20000.0),
        ),
        Relation(
            "limits.arming_missed_share", (), plain, what="fraction of missed deadlines at arming",
            usual=(0.001, 1.0),
        ),
        Relation(
            "limits.gnss_refusals", (), plain, what="rejected fixes before a stop",
            usual=(2.0, 50.0),
        ),
        Relation(
            "limits.speed_mismatch_s", (), plain,
            what="duration of a speed mismatch before a stop, s", usual=(0.03, 5.0),
            possible=(0.0, 60.0),
        ),
        Relation(
            "limits.not_moving_s", ("vehicle.drive.delay_s",), lambda t, delay: t - delay,
            what="limits.not_moving_s minus the drive's delay, s", usual=(0.2, 20.0),
            possible=(0.0, 300.0), cure="otherwise the drive is disabled before it can respond",
        ),
        Relation(
            "limits.no_progress_s", (), plain, what="time without progress before a stop, s",
            usual=(1.0, 120.0), possible=(0.2, 3600.0),
        ),
        Relation(
            "limits.roll_back_m", (), plain, what="distance rolled back before a stop, m",
            usual=(0.02, 5.0), possible=(0.001, 100.0),
        ),
        Relation(
            "limits.uncommanded_s", ("vehicle.drive.delay_s",), lambda t, delay: t - delay,
            what="limits.uncommanded_s minus the drive's delay, s", usual=(0.05, 5.0),
            possible=(0.0, 60.0), cure="otherwise the vehicle brakes before the drive can respond",
        ),
        Relation(
            "limits.overspeed_mps", (_MAX_SPEED,), ratio,
            what="tolerance of overspeed over max_speed_mps", usual=(0.01, 1.5),
            possible=(0.0001, 50.0),
        ),
        Relation(
            "limits.motor_hot_k", (), plain, what="temperature of the motor, K",
            usual=(310.0, 450.0), possible=(280.0, 600.0),
        ),
        Relation(
            "limits.battery_resistance_ohm", (), lambda r: r or 0.01,
            what="resistance of the battery, ohm", usual=(0.0002, 1.0), possible=(0.0, 20.0),
        ),
        Relation(
            "limits.battery_low_v", ("limits.battery_empty_v",),
            lambda low, empty: low / empty if low and empty else 1.05,
            what="battery_low_v over battery_empty_v", usual=(1.0, 1.6), possible=(1.0, 20.0),
            cure="battery_low_v must be above battery_empty_v",
        ),
        Relation(
            "limits.battery_low_v", ("sim.battery.full_v",),
            lambda low, full: low / full if low else 0.9,
            what="battery_low_v over sim.battery.full_v", usual=(0.5, 1.0), possible=(0.01, 1.2),
            cure=(
                "a full battery must not count as low: write both for the whole pack, not for "
                "a cell"
            ),
        ),
        Relation(
            "limits.battery_empty_v", ("sim.battery.full_v",),
            lambda empty, full: empty / full if empty else 0.8,
            what="battery_empty_v over sim.battery.full_v", usual=(0.4, 0.98), possible=(0.01, 1.2),
            cure=(
                "a full battery must not count as empty: write both for the whole pack, not "
                "for a cell"
            ),
        ),
        Relation(
            "limits.still_rate_radps", (), plain, what="rate of an IMU at standstill, rad/s",
            usual=(0.0008, 0.6), possible=(1e-05, 10.0),
        ),
        Relation(
            "limits.still_tilt_rad", (), plain, what="steepest ground for arming, rad",
            usual=(0.05, 1.2), possible=(0.005, 1.57),
        ),
        Relation(
            "limits.still_force_mps2", (), plain,
            what="error of measured gravity at standstill, m/s2", usual=(0.02, 5.0),
            possible=(0.0001, 9.0),
        ),
        Relation(
            "limits.max_acceleration_mps2",
            tuple(
                f"vehicle.drive.{key}"
                for key in ("stall_torque_nm", "wheel_radius_m", "gear_ratio", "inertia_kgm2")
            ),
            lambda a, torque, r, g, i: a / (torque * r * g / i),
            what="allowed acceleration over that of the drive", usual=(0.1, 12.0),
            possible=(0.002, 1000.0),
        ),
        Relation(
            "limits.max_jerk_mps3", ("limits.max_acceleration_mps2",), ratio,
            what="allowed jerk over allowed acceleration, 1/s", usual=(0.8, 250.0),
            possible=(0.01, 20000.0),
        ),
        Relation(
            "limits.max_lateral_jerk_mps3", (_MAX_SPEED, _RATE, _WHEELBASE),
            lambda jerk, v, rate, base: jerk / (v * v * rate / base),
            what="allowed lateral jerk over that of the steering at max_speed_mps",
            usual=(0.15, 80.0), possible=(0.0001, 100000.0),
        ),
        Relation(
            "limits.max_steering_rate_radps", (_RATE,), ratio,
            what="allowed steering rate over the servo's", usual=(0.9, 150.0),
            possible=(0.05, 10000.0),
            cure=(
                "write a multiple of vehicle.steering.rate_radps: a lower limit cuts every "
                "steering command"
            ),
        ),
        *(
            Relation(
                f"tasks.{task}.deadline_ms", (f"tasks.{task}.rate_hz",),
                lambda ms, f: ms * f / 1000.0, what="deadline over period", usual=(0.05, 1.5),
                possible=(0.001, 20.0), cure="each release must finish before the next one",
            )
            for task in PIPELINE
        ),
        *(
            Relation(
                f"tasks.{task}.deadline_ms", (f"limits.{limit}",), lambda ms, s: ms / 1000.0 / s,
                what=f"deadline over limits.{limit}", usual=(0.0, 0.9), possible=(0.0, 1.0),
                cure="the vehicle would brake before the task misses its deadline",
            )
            for task, limit in ((each.name, each.age_limit) for each in TASKS if each.age_limit)
        ),
        *(
            Relation(
                f"tasks.{task}.rate_hz", (), plain, what="rate of the task, Hz",
                usual=(5.0, 2000.0),
            )
            for task in PIPELINE
        ),
        *(
            Relation(
                f"tasks.{task}.declared_us", (), lambda us: us or 100.0, what="declared cost, us",
                usual=(1.0, 100000.0),
            )
            for task in PIPELINE
        ),
        *(
            Relation(
                f"tasks.{task}.max_miss_share", (), plain, what="fraction of missed deadlines",
                usual=(0.0, 0.25),
            )
            for task in PIPELINE
        ),
        Relation(
            "tasks.control.rate_hz", ("tasks.fusion.rate_hz",), ratio,
            what="control rate over fusion rate", usual=(0.02, 8.0), possible=(0.0, inf),
            cure="control would use each estimate several times",
        ),
        Relation(
            "tasks.actuation.rate_hz", ("tasks.control.rate_hz",), ratio,
            what="actuation rate over control rate", usual=(0.1, 40.0),
            possible=(0.0, inf),
        ),
        Relation(
            "tasks.ingestion.rate_hz", ("tasks.fusion.rate_hz",), ratio,
            what="ingestion rate over fusion rate", usual=(0.1, 40.0), possible=(0.0, inf),
        ),
        Relation(
            "control_frame.position_rate_mps", (_MAX_SPEED,), ratio,
            what="rate of the correction over max_speed_mps", usual=(0.01, 2.0),
            possible=(0.0001, 100.0),
        ),
        Relation(
            "controller.pure_pursuit.look_ahead_max_s", ("vehicle.steering.delay_s",),
            lambda t, delay: t - delay, what="longest look-ahead minus the steering's delay, s",
            usual=(0.05, 10.0), possible=(0.0, 120.0), cure="it must reach beyond the delay",
        ),
        *(
            relation
            for name in ("pure_pursuit", "avoid")
            for relation in (
                Relation(
                    f"controller.{name}.look_ahead_min_s", ("vehicle.steering.delay_s",),
                    lambda t, delay: t - delay,
                    what="shortest look-ahead minus the steering's delay, s", usual=(0.0, 10.0),
                    possible=(-2.0, 120.0), cure="it must reach beyond the delay",
                ),
                Relation(
                    f"controller.{name}.look_ahead_max_s", (f"controller.{name}.look_ahead_min_s",),
                    ratio, what="longest over shortest look-ahead", usual=(0.75, 30.0),
                    possible=(0.0, inf),
                ),
                Relation(
                    f"controller.{name}.look_ahead_max_m", (f"controller.{name}.look_ahead_min_m",),
                    ratio, what="longest over shortest look-ahead", usual=(0.75, 200.0),
                    possible=(0.0, inf),
                ),
            )
        ),
        *(
            Relation(f"controller.{key}", (_WHEELBASE,), ratio,
                what="shortest look-ahead in wheelbases",
            usual=(0.2, 15.0), possible=(0.01, 200.0))
            for key in (
                "pure_pursuit.look_ahead_min_m", "regulated_pure_pursuit.look_ahead_min_m",
                "avoid.look_ahead_min_m", "flat.response_min_m",
            )
        ),
        *(
            Relation(
                f"controller.{key}", (_MAX_SPEED,), ratio,
                what="look-ahead in seconds at max_speed_mps", usual=(0.15, 120.0),
                possible=(0.02, 5000.0),
                cure="the vehicle passes the look-ahead point before it can steer towards it",
            )
            for key in ("pure_pursuit.look_ahead_max_m", "regulated_pure_pursuit.look_ahead_max_m",
                "avoid.look_ahead_max_m")
        ),
        Relation(
            "controller.regulated_pure_pursuit.look_ahead_s", ("vehicle.steering.delay_s",),
            lambda t, delay: t - delay, what="look-ahead minus the steering's delay, s",
            usual=(0.0, 10.0), possible=(-2.0, 120.0), cure="it must reach beyond the delay",
        ),
        Relation(
            "controller.flat.response_s", ("vehicle.steering.delay_s",), lambda t, delay: t - delay,
            what="response minus the steering's delay, s",
            usual=(0.0, 10.0), possible=(-2.0, 120.0),
            cure="a control loop cannot be faster than its delay",
        ),
        Relation(
            "controller.mpc.stage_s", ("controller.mpc.stages", "vehicle.steering.delay_s"),
            lambda t, n, delay: t * n - delay, what="horizon minus the steering's delay, s",
            usual=(0.3, 30.0), possible=(0.0, 200.0), cure="it must reach beyond the delay",
        ),
        Relation(
            "controller.mpc.stage_s", (_MAX_SPEED, "controller.mpc.stages", _WHEELBASE),
            lambda t, v, n, base: t * n * v / base, what="distance over the horizon, wheelbases",
            usual=(1.0, 200.0), possible=(0.1, 10000.0), cure="stages x stage_s is the horizon",
        ),
        *speed("controller.pure_pursuit.speed"),
        *speed("controller.mpc.speed"),
        *speed("controller.flat.speed"),
        *speed("controller.stanley.speed"),
        *speed("controller.regulated_pure_pursuit.speed"),
        *speed("controller.avoid.speed"),
        *steering("sim.steering", "sim.wheelbase_m"),
        *drive("sim.drive"),
        Relation(
            "sim.steering.slack_rad", ("sim.steering.gain_rad",),
            lambda slack, gain: slack / gain if slack else 0.01, what="slack over full command",
            usual=(0.0002, 0.4),
        ),
        *(
            Relation(
                f"sim.{key}", (f"vehicle.{key}",), ratio,
                what=f"simulated over assumed value (vehicle.{key})", usual=(1.0 / 3.0, 3.0),
                possible=(0.0, inf), cure="[sim] and [vehicle] describe the same vehicle",
            )
            for key in (
                "wheelbase_m", "steering.gain_rad", "steering.max_wheel_rad", "steering.rate_radps",
                "drive.stall_torque_nm", "drive.no_load_speed_radps", "drive.gear_ratio",
                "drive.wheel_radius_m", "drive.inertia_kgm2",
            )
        ),
        Relation("sim.step_ms", (), plain, what="step of the plant, ms", usual=(0.1, 5.0)),
        Relation(
            "sim.step_ms", ("tasks.actuation.rate_hz",), lambda ms, f: ms * f / 1000.0,
            what="step of the plant over the actuation period", usual=(0.0, 1.0),
        ),
        Relation(
            "sim.command_timeout_s", (), plain, what="timeout of the actuator, s",
            usual=(0.02, 1.1), possible=(0.0, 30.0),
        ),
        Relation(
            "sim.battery.full_v", ("sim.battery.nominal_v",), ratio,
            what="full over nominal voltage", usual=(1.0, 1.5), possible=(1.0, 10.0),
            cure="write both for the whole pack, not for a cell",
        ),
        Relation(
            "sim.battery.nominal_v", (), plain, what="voltage of the battery, V",
            usual=(1.0, 1000.0),
        ),
        Relation(
            "sim.battery.internal_resistance_ohm",
            ("sim.battery.full_drive_current_a", "sim.battery.nominal_v"),
            lambda r, a, v: r * a / v if r else 0.05, what="sag at full drive over nominal voltage",
            usual=(0.0002, 0.5), possible=(0.0, 1.0),
        ),
        Relation(
            "sim.battery.capacity_ah", ("sim.battery.full_drive_current_a",), ratio,
            what="hours at full drive", usual=(0.01, 20.0), possible=(0.0, 5000.0),
        ),
        Relation(
            "sim.imu.range_mps2", (), plain, what="range of the accelerometer, m/s2",
            usual=(15.0, 3000.0), possible=(9.9, inf), cure="the range must exceed gravity",
        ),
        Relation(
            "sim.imu.range_radps", (), plain, what="range of the gyro, rad/s", usual=(2.0, 100.0),
        ),
        Relation(
            "sim.gnss.latency_ms", (), lambda ms: ms or 10.0, what="latency of GNSS, ms",
            usual=(1.0, 500.0),
        ),
        Relation(
            "sim.heading.latency_ms", (), lambda ms: ms or 10.0, what="latency of the heading, ms",
            usual=(1.0, 500.0),
        ),
        Relation(
            "sim.heading.sigma_rad", (), lambda s: s or 0.01, what="noise of the heading, rad",
            usual=(0.0004, 0.35),
        ),
        Relation(
            "sim.imu.gyro_bias_radps", (), lambda b: b or 0.001, what="bias of the gyro, rad/s",
            usual=(1e-06, 0.05),
        ),
        Relation(
            "sim.lidar.range_max_m", ("sim.lidar.range_min_m",),
            lambda far, near: far / near if near else 100.0,
            what="range of the scanner, largest over smallest", usual=(5.0, 5000.0),
            possible=(1.0, inf),
        ),
        Relation(
            "sim.lidar.sweep_ms", ("sim.lidar.rate_hz",), lambda ms, f: ms * f / 1000.0 or 0.5,
            what="sweep of the scanner over its period", usual=(0.005, 1.0), possible=(0.0, inf),
        ),
    )  # fmt: skip
"""All relations. A message reports the first key and names the others."""
