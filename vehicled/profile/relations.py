"""Table of all plausible ranges of a profile, which :mod:`vehicled.profile.plausibility` checks."""

from math import inf, pi, tan

from vehicled.core.tasks import PIPELINE, TASKS
from vehicled.profile.relation import Relation, drive, plain, product, ratio, speed, steering, top_speed_mps

_MAX_SPEED, _LENGTH, _WIDTH, _WHEELBASE = "limits.max_speed_mps", "vehicle.length_m", "vehicle.width_m", "vehicle.wheelbase_m"
_TOP_SPEED = ("stall_torque_nm", "no_load_speed_radps", "friction_nm", "viscous_nms", "wheel_radius_m", "gear_ratio")
_RATE, _LOCK = "vehicle.steering.rate_radps", "vehicle.steering.max_wheel_rad"

RELATIONS: tuple[Relation, ...] = (
        Relation(
            _WHEELBASE, (_LENGTH,), ratio, "wheelbase over length", (0.3, 1.0), (0.1, 1.0),
            "the wheels are inside the outline: check both values",
        ),
        Relation("vehicle.track_m", (_WIDTH,), ratio, "track over width", (0.5, 1.0), (0.2, 1.0)),
        Relation(_WIDTH, (_LENGTH,), ratio, "width over length", (0.15, 1.3), (0.04, 5.0)),
        Relation(_WHEELBASE, ("vehicle.track_m",), ratio, "wheelbase over track", (0.5, 4.0), (0.15, 12.0)),
        Relation(_LENGTH, (), plain, "length, m", (0.08, 20.0), (0.02, 40.0)),
        Relation(
            "vehicle.mass_kg", (_LENGTH, _WIDTH), lambda m, length, w: m / (length * length * w),
            "bulk density (mass over length x length x width), kg/m3", (10.0, 600.0), (2.0, 3000.0),
        ),
        *steering("vehicle.steering", _WHEELBASE),
        *drive("vehicle.drive"),
        Relation(
            "vehicle.steering.delay_s", (_MAX_SPEED, _WHEELBASE, _LOCK),
            lambda delay, v, base, lock: delay * v * tan(lock) / base,
            "distance during the steering's delay at max_speed_mps over turning radius", (0.0, 2.0), (0.0, 20.0),
            "lower the speed limit or the delay",
        ),
        Relation("vehicle.understeer_rad_per_mps2", (), lambda k: k or 0.001, "understeer, rad per m/s2", (1e-05, 0.03)),
        Relation(
            "vehicle.rear_slip_rad_per_mps2", (), lambda k: k or 0.001, "slip of the rear axle, rad per m/s2", (0.0001, 0.06),
        ),
        Relation("vehicle.path_lag_s_per_mps", (), lambda k: k or 0.001, "lag of the path, s per m/s", (0.0001, 0.08)),
        Relation(_MAX_SPEED, (), plain, "speed limit, m/s", (0.05, 60.0), (0.005, 150.0)),
        Relation(
            _MAX_SPEED,
            tuple(f"vehicle.drive.{key}" for key in _TOP_SPEED),
            lambda v, *drive: v / max(top_speed_mps(*drive), 1e-09), "speed limit over the top speed of [vehicle.drive]",
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
            "limits.max_lateral_acceleration_mps2", (), plain, "lateral acceleration (tyres hold about 10), m/s2", (0.2, 14.0),
            (0.01, 40.0),
        ),
        Relation(
            "limits.corridor_m", (_WIDTH,), lambda half, width: half / max(width, 0.35),
            "half width of the corridor over the vehicle's width", (0.2, 25.0), (0.02, 1000.0),
            "position noise alone would stop the vehicle, or no error would",
        ),
        Relation(
            "limits.capped_speed_mps", (_MAX_SPEED,), ratio, "capped speed over max_speed_mps", (0.02, 1.5), (0.0001, 50.0),
        ),
        Relation("limits.gnss_silence_s", (), plain, "silence of GNSS before the speed is capped, s", (0.02, 5.0), (0.0, 60.0)),
        Relation("limits.imu_silence_s", (), plain, "silence of the IMU before a stop, s", (0.005, 1.0), (0.0, 5.0)),
        Relation(
            "limits.estimate_silence_s", ("tasks.fusion.rate_hz",), product, "limit of silence in fusion periods", (2.0, 60.0),
            (1.0, 1000.0),
        ),
        Relation("limits.estimate_silence_s", (), plain, "age of the estimate before the brake, s", (0.002, 0.5), (0.0, 3.0)),
        Relation(
            "limits.control_silence_s", ("tasks.control.rate_hz",), product, "limit of silence in control periods", (2.0, 60.0),
            (1.0, 1000.0),
        ),
        Relation("limits.control_silence_s", (), plain, "age of the command before the brake, s", (0.002, 0.6), (0.0, 3.0)),
        Relation(
            "limits.loop_silence_s", ("tasks.actuation.rate_hz",), product, "limit of silence in actuation periods",
            (2.0, 500.0), (1.0, 5000.0),
        ),
        Relation("limits.loop_silence_s", (), plain, "pause between commands that ends the drive, s", (0.02, 1.1), (0.0, 10.0)),
        Relation(
            "limits.telemetry_silence_s", (), plain, "silence of the motor controller before the brake, s", (0.01, 2.0),
            (0.0, 20.0),
        ),
        Relation(
            "limits.teleop_silence_s", (), plain, "silence of the teleop device before the brake, s", (0.03, 1.5), (0.005, 10.0),
        ),
        Relation(
            "limits.ground_silence_s", (), plain, "silence of the ground station before a stop, s", (0.2, 60.0), (0.02, 3600.0),
        ),
        Relation("limits.obstacle_silence_s", (), plain, "silence of the obstacle sensor, s", (0.03, 3.0), (0.0, 60.0)),
        Relation(
            "limits.obstacle_gap_m", (_LENGTH,), lambda gap, length: gap / length if gap else 0.1,
            "gap to an obstacle over the vehicle's length", (0.01, 15.0), (0.0, 500.0),
        ),
        Relation(
            "limits.obstacle_side_m", (_WIDTH,), lambda side, w: side / w if side else 0.1,
            "lateral clearance over the vehicle's width", (0.005, 5.0), (0.0, 100.0),
        ),
        Relation("limits.rtk_lost_stop_s", (), plain, "driving time without RTK, s", (0.2, 600.0), (0.0, 20000.0)),
        Relation("limits.arming_missed_share", (), plain, "fraction of missed deadlines at arming", (0.001, 1.0)),
        Relation("limits.gnss_refusals", (), plain, "rejected fixes before a stop", (2.0, 50.0)),
        Relation("limits.speed_mismatch_s", (), plain, "duration of a speed mismatch before a stop, s", (0.03, 5.0), (0.0, 60.0)),
        Relation(
            "limits.not_moving_s", ("vehicle.drive.delay_s",), lambda t, delay: t - delay,
            "limits.not_moving_s minus the drive's delay, s", (0.2, 20.0), (0.0, 300.0),
            "otherwise the drive is disabled before it can respond",
        ),
        Relation("limits.no_progress_s", (), plain, "time without progress before a stop, s", (1.0, 120.0), (0.2, 3600.0)),
        Relation("limits.roll_back_m", (), plain, "distance rolled back before a stop, m", (0.02, 5.0), (0.001, 100.0)),
        Relation(
            "limits.uncommanded_s", ("vehicle.drive.delay_s",), lambda t, delay: t - delay,
            "limits.uncommanded_s minus the drive's delay, s", (0.05, 5.0), (0.0, 60.0),
            "otherwise the vehicle brakes before the drive can respond",
        ),
        Relation(
            "limits.overspeed_mps", (_MAX_SPEED,), ratio, "tolerance of overspeed over max_speed_mps", (0.01, 1.5),
            (0.0001, 50.0),
        ),
        Relation("limits.motor_hot_k", (), plain, "temperature of the motor, K", (310.0, 450.0), (280.0, 600.0)),
        Relation(
            "limits.battery_resistance_ohm", (), lambda r: r or 0.01, "resistance of the battery, ohm", (0.0002, 1.0),
            (0.0, 20.0),
        ),
        Relation(
            "limits.battery_low_v", ("limits.battery_empty_v",), lambda low, empty: low / empty if low and empty else 1.05,
            "battery_low_v over battery_empty_v", (1.0, 1.6), (1.0, 20.0), "battery_low_v must be above battery_empty_v",
        ),
        Relation(
            "limits.battery_low_v", ("sim.battery.full_v",), lambda low, full: low / full if low else 0.9,
            "battery_low_v over sim.battery.full_v", (0.5, 1.0), (0.01, 1.2),
            "a full battery must not count as low: write both for the whole pack, not for a cell",
        ),
        Relation(
            "limits.battery_empty_v", ("sim.battery.full_v",), lambda empty, full: empty / full if empty else 0.8,
            "battery_empty_v over sim.battery.full_v", (0.4, 0.98), (0.01, 1.2),
            "a full battery must not count as empty: write both for the whole pack, not for a cell",
        ),
        Relation("limits.still_rate_radps", (), plain, "rate of an IMU at standstill, rad/s", (0.0008, 0.6), (1e-05, 10.0)),
        Relation("limits.still_tilt_rad", (), plain, "steepest ground for arming, rad", (0.05, 1.2), (0.005, 1.57)),
        Relation("limits.still_force_mps2", (), plain, "error of measured gravity at standstill, m/s2", (0.02, 5.0), (0.0001, 9.0)),
        Relation(
            "limits.max_acceleration_mps2",
            tuple(f"vehicle.drive.{key}" for key in ("stall_torque_nm", "wheel_radius_m", "gear_ratio", "inertia_kgm2")),
            lambda a, torque, r, g, i: a / (torque * r * g / i), "allowed acceleration over that of the drive", (0.1, 12.0),
            (0.002, 1000.0),
        ),
        Relation(
            "limits.max_jerk_mps3", ("limits.max_acceleration_mps2",), ratio, "allowed jerk over allowed acceleration, 1/s",
            (0.8, 250.0), (0.01, 20000.0),
        ),
        Relation(
            "limits.max_lateral_jerk_mps3", (_MAX_SPEED, _RATE, _WHEELBASE),
            lambda jerk, v, rate, base: jerk / (v * v * rate / base),
            "allowed lateral jerk over that of the steering at max_speed_mps", (0.15, 80.0), (0.0001, 100000.0),
        ),
        Relation(
            "limits.max_steering_rate_radps", (_RATE,), ratio, "allowed steering rate over the servo's", (0.9, 150.0),
            (0.05, 10000.0), "write a multiple of vehicle.steering.rate_radps: a lower limit cuts every steering command",
        ),
        *(
            Relation(
                f"tasks.{task}.deadline_ms", (f"tasks.{task}.rate_hz",), lambda ms, f: ms * f / 1000.0, "deadline over period",
                (0.05, 1.5), (0.001, 20.0), "each release must finish before the next one",
            )
            for task in PIPELINE
        ),
        *(
            Relation(
                f"tasks.{task}.deadline_ms", (f"limits.{limit}",), lambda ms, s: ms / 1000.0 / s,
                f"deadline over limits.{limit}", (0.0, 0.9), (0.0, 1.0),
                "the vehicle would brake before the task misses its deadline",
            )
            for task, limit in ((each.name, each.age_limit) for each in TASKS if each.age_limit)
        ),
        *(
            Relation(f"tasks.{task}.rate_hz", (), plain, "rate of the task, Hz", (5.0, 2000.0))
            for task in PIPELINE
        ),
        *(
            Relation(f"tasks.{task}.declared_us", (), lambda us: us or 100.0, "declared cost, us", (1.0, 100000.0))
            for task in PIPELINE
        ),
        *(
            Relation(f"tasks.{task}.max_miss_share", (), plain, "fraction of missed deadlines", (0.0, 0.25))
            for task in PIPELINE
        ),
        Relation(
            "tasks.control.rate_hz", ("tasks.fusion.rate_hz",), ratio, "control rate over fusion rate", (0.02, 8.0), (0.0, inf),
            "control would use each estimate several times",
        ),
        Relation(
            "tasks.actuation.rate_hz", ("tasks.control.rate_hz",), ratio, "actuation rate over control rate", (0.1, 40.0),
            (0.0, inf),
        ),
        Relation(
            "tasks.ingestion.rate_hz", ("tasks.fusion.rate_hz",), ratio, "ingestion rate over fusion rate", (0.1, 40.0),
            (0.0, inf),
        ),
        Relation(
            "control_frame.position_rate_mps", (_MAX_SPEED,), ratio, "rate of the correction over max_speed_mps", (0.01, 2.0),
            (0.0001, 100.0),
        ),
        Relation(
            "controller.pure_pursuit.look_ahead_max_s", ("vehicle.steering.delay_s",), lambda t, delay: t - delay,
            "longest look-ahead minus the steering's delay, s", (0.05, 10.0), (0.0, 120.0), "it must reach beyond the delay",
        ),
        *(
            relation
            for name in ("pure_pursuit", "rollout")
            for relation in (
                Relation(
                    f"controller.{name}.look_ahead_min_s", ("vehicle.steering.delay_s",), lambda t, delay: t - delay,
                    "shortest look-ahead minus the steering's delay, s", (0.0, 10.0), (-2.0, 120.0),
                    "it must reach beyond the delay",
                ),
                Relation(
                    f"controller.{name}.look_ahead_max_s", (f"controller.{name}.look_ahead_min_s",), ratio,
                    "longest over shortest look-ahead", (0.75, 30.0), (0.0, inf),
                ),
                Relation(
                    f"controller.{name}.look_ahead_max_m", (f"controller.{name}.look_ahead_min_m",), ratio,
                    "longest over shortest look-ahead", (0.75, 200.0), (0.0, inf),
                ),
            )
        ),
        *(
            Relation(f"controller.{key}", (_WHEELBASE,), ratio, "shortest look-ahead in wheelbases", (0.2, 15.0), (0.01, 200.0))
            for key in (
                "pure_pursuit.look_ahead_min_m", "regulated_pure_pursuit.look_ahead_min_m", "rollout.look_ahead_min_m",
                "flat.response_min_m",
            )
        ),
        *(
            Relation(
                f"controller.{key}", (_MAX_SPEED,), ratio, "look-ahead in seconds at max_speed_mps", (0.15, 120.0),
                (0.02, 5000.0), "the vehicle passes the look-ahead point before it can steer towards it",
            )
            for key in ("pure_pursuit.look_ahead_max_m", "regulated_pure_pursuit.look_ahead_max_m", "rollout.look_ahead_max_m")
        ),
        Relation(
            "controller.regulated_pure_pursuit.look_ahead_s", ("vehicle.steering.delay_s",), lambda t, delay: t - delay,
            "look-ahead minus the steering's delay, s", (0.0, 10.0), (-2.0, 120.0), "it must reach beyond the delay",
        ),
        Relation(
            "controller.flat.response_s", ("vehicle.steering.delay_s",), lambda t, delay: t - delay,
            "response minus the steering's delay, s", (0.0, 10.0), (-2.0, 120.0), "a control loop cannot be faster than its delay",
        ),
        Relation(
            "controller.mpc.stage_s", ("controller.mpc.stages", "vehicle.steering.delay_s"), lambda t, n, delay: t * n - delay,
            "horizon minus the steering's delay, s", (0.3, 30.0), (0.0, 200.0), "it must reach beyond the delay",
        ),
        Relation(
            "controller.mpc.stage_s", (_MAX_SPEED, "controller.mpc.stages", _WHEELBASE), lambda t, v, n, base: t * n * v / base,
            "distance over the horizon, wheelbases", (1.0, 200.0), (0.1, 10000.0), "stages x stage_s is the horizon",
        ),
        *speed("controller.pure_pursuit.speed"),
        *speed("controller.mpc.speed"),
        *speed("controller.flat.speed"),
        *speed("controller.stanley.speed"),
        *speed("controller.regulated_pure_pursuit.speed"),
        *speed("controller.rollout.speed"),
        *steering("sim.steering", "sim.wheelbase_m"),
        *drive("sim.drive"),
        Relation(
            "sim.steering.slack_rad", ("sim.steering.gain_rad",), lambda slack, gain: slack / gain if slack else 0.01,
            "slack over full command", (0.0002, 0.4),
        ),
        *(
            Relation(
                f"sim.{key}", (f"vehicle.{key}",), ratio, f"simulated over assumed value (vehicle.{key})",
                (1.0 / 3.0, 3.0), (0.0, inf),
                "[sim] and [vehicle] describe the same vehicle",
            )
            for key in (
                "wheelbase_m", "steering.gain_rad", "steering.max_wheel_rad", "steering.rate_radps", "drive.stall_torque_nm",
                "drive.no_load_speed_radps", "drive.gear_ratio", "drive.wheel_radius_m", "drive.inertia_kgm2",
            )
        ),
        Relation("sim.step_ms", (), plain, "step of the plant, ms", (0.1, 5.0)),
        Relation(
            "sim.step_ms", ("tasks.actuation.rate_hz",), lambda ms, f: ms * f / 1000.0,
            "step of the plant over the actuation period", (0.0, 1.0),
        ),
        Relation("sim.command_timeout_s", (), plain, "timeout of the actuator, s", (0.02, 1.1), (0.0, 30.0)),
        Relation(
            "sim.battery.full_v", ("sim.battery.nominal_v",), ratio, "full over nominal voltage", (1.0, 1.5), (1.0, 10.0),
            "write both for the whole pack, not for a cell",
        ),
        Relation("sim.battery.nominal_v", (), plain, "voltage of the battery, V", (1.0, 1000.0)),
        Relation(
            "sim.battery.internal_resistance_ohm", ("sim.battery.full_drive_current_a", "sim.battery.nominal_v"),
            lambda r, a, v: r * a / v if r else 0.05, "sag at full drive over nominal voltage", (0.0002, 0.5), (0.0, 1.0),
        ),
        Relation(
            "sim.battery.capacity_ah", ("sim.battery.full_drive_current_a",), ratio, "hours at full drive", (0.01, 20.0),
            (0.0, 5000.0),
        ),
        Relation(
            "sim.imu.range_mps2", (), plain, "range of the accelerometer, m/s2", (15.0, 3000.0), (9.9, inf),
            "the range must exceed gravity",
        ),
        Relation("sim.imu.range_radps", (), plain, "range of the gyro, rad/s", (2.0, 100.0)),
        Relation("sim.gnss.latency_ms", (), lambda ms: ms or 10.0, "latency of GNSS, ms", (1.0, 500.0)),
        Relation("sim.heading.latency_ms", (), lambda ms: ms or 10.0, "latency of the heading, ms", (1.0, 500.0)),
        Relation("sim.heading.sigma_rad", (), lambda s: s or 0.01, "noise of the heading, rad", (0.0004, 0.35)),
        Relation("sim.imu.gyro_bias_radps", (), lambda b: b or 0.001, "bias of the gyro, rad/s", (1e-06, 0.05)),
        Relation(
            "sim.lidar.range_max_m", ("sim.lidar.range_min_m",), lambda far, near: far / near if near else 100.0,
            "range of the scanner, largest over smallest", (5.0, 5000.0), (1.0, inf),
        ),
        Relation(
            "sim.lidar.sweep_ms", ("sim.lidar.rate_hz",), lambda ms, f: ms * f / 1000.0 or 0.5,
            "sweep of the scanner over its period", (0.005, 1.0), (0.0, inf),
        ),
    )  # fmt: skip
"""All relations. A message reports the first key and names the others."""
