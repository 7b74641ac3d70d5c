"""Stand-ins for the reference data, which most people do not have: a folder of the same layout.

Bytes of real devices come from ``recorded.tar.xz`` (permissive licences, origins in README.md).
Drives are made here, by the plant of the simulator with numbers that no profile holds, so that fits
have something to find and an error to be judged against.
"""

import gzip
import io
import lzma
import tarfile
from math import cos, pi, sin
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.four_dof import FourDof
from sim_backend.plant.interface import StartPose
from tests.recordings_bench import write
from tests.stand_ins import published_runs, walk
from vehicled.core.wire.crc import crc24q
from vehicled.offline.replications.experiments.twin_prediction import Waypoints
from vehicled.profile import load_profile
from vehicled.profile.schema import Battery, Sim

HERE = Path(__file__).parent
STEP_NS = 1_000_000
ROW_MS = 100
MARKER_M = 0.31
NMEA_GRID_M = (0.013553, 0.018553)
DELAY_S = 0.35
RAMP_GAIN_RAD, LAP_GAIN_RAD = 0.42, 0.32
"""True steering of the ramps and of the other drives; the profile ``art`` believes 0.335, and a
delay of 0.4 s."""


def make(folder: Path) -> Path:
    """Write the whole folder, and return it."""
    _recorded(folder)
    walk.make(folder / "captures")
    _chunked_gzip(folder / "captures" / "rtcm")
    _vesc(folder / "captures")
    _ramps(folder / "art_steering_ramp_2023")
    _laps(folder)
    _straights(folder / "art_acceleration_2022" / "ramp")
    _circle(folder / "art_circle_2023")
    _path_following(folder)
    return folder


def _recorded(folder: Path) -> None:
    archive = lzma.decompress((HERE / "recorded.tar.xz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")


def _chunked_gzip(folder: Path) -> None:
    """An NTRIP body as a caster sends it: HTTP chunks, each a gzip member with one RTCM frame of
    the plain capture."""
    plain = (folder / "pygnssutils__ntrip_encode_none.bin").read_bytes()
    coded, at = b"", 0
    while at < len(plain):
        size = 6 + int.from_bytes(plain[at + 1 : at + 3], "big")
        if plain[at] == 0xD3 and at + size <= len(plain) and crc24q(plain[at : at + size]) == 0:
            member = gzip.compress(plain[at : at + size], mtime=0)
            coded += b"%x\r\n%s\r\n" % (len(member), member)
            at += size
        else:
            at += 1
    (folder / "pygnssutils__ntrip_encode_chunkedgzip.bin").write_bytes(coded)


def _vesc(folder: Path) -> None:
    """The five status frames of a VESC with id 1 at rest, as candump writes them; contents laid out
    by hand."""
    import json

    frames = {
        9: "0000000000000000",  # ERPM, current, duty
        14: "0000000000000000",  # ampere hours
        15: "0000000000000000",  # watt hours
        16: "00FA00FA00000000",  # 25.0 degrees twice, no current
        27: "0000000000780000",  # tachometer, 12.0 V
    }
    name = "vesc/rkyrlach__vesc_id1_status1-5.candump.log"
    lines = [
        f"({1.0 + 1e-3 * k:.6f}) can0 {kind << 8 | 1:08X}#{data}"
        for k, (kind, data) in enumerate(frames.items())
    ]
    (folder / "vesc").mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n")
    counts = json.loads((folder / "counts.json").read_text())
    counts[name] = {"counts": {f"pkt {kind}": 1 for kind in frames}}
    (folder / "counts.json").write_text(json.dumps(counts))


def _truth(gain_rad: float) -> Sim:
    """The vehicle of the drives: another one than any profile describes."""
    sim = load_profile("art_published").sim
    assert sim.steering is not None
    assert sim.drive is not None
    steering = replace(
        sim.steering,
        gain_rad=gain_rad,
        offset_rad=0.01,
        delay_s=DELAY_S,
        max_wheel_rad=0.5,
        dead_zone=0.0,
        slack_rad=0.0,
    )
    drive = replace(sim.drive, stall_torque_nm=1.05 * sim.drive.stall_torque_nm)
    return replace(
        sim,
        steering=steering,
        drive=drive,
        battery=Battery(nominal_v=11.1, full_v=11.1, internal_resistance_ohm=0.0),
    )


class _Drive:
    """The plant, sampled where its rear axle is."""

    def __init__(self, gain_rad: float) -> None:
        sim = _truth(gain_rad)
        self._actuators = Actuators(sim, 0, STEP_NS)
        self._plant = FourDof(sim, StartPose(0.0, 0.0, 0.0), 1e-3)
        self._now_ns = 0

    def run(
        self, throttle: float, steering: float, every_ms: int, until_ms: int
    ) -> list[tuple[float, float, float, float, float]]:
        """Rows of time (s), x, y, yaw and speed under a command that is given now."""
        rows = []
        self._actuators.command(self._now_ns, throttle, 0.0, steering)
        while self._now_ns < until_ms * STEP_NS:
            if self._now_ns % (every_ms * STEP_NS) == 0:
                motion = self._plant.motion()
                rows.append(
                    (self._now_ns * 1e-9, motion.x_m, motion.y_m, motion.yaw_rad, motion.speed_mps)
                )
            self._actuators.step(self._now_ns, self._plant.motor_speed_radps)
            self._plant.step(
                self._actuators.throttle, self._actuators.brake, self._actuators.wheel_angle_rad
            )
            self._now_ns += STEP_NS
        return rows


def _ramps(folder: Path) -> None:
    """Throttle 0 to 1 and back in 10 s at fixed steering, under motion capture at 100 Hz; commands
    at 10 Hz beside it."""
    for name, steering in (("p02", 0.2), ("p04", 0.4), ("p06", 0.6), ("p10", 1.0), ("m10", -1.0)):
        for test in (0, 1, 3) if name in ("p02", "p10") else (0, 1):
            rng = np.random.default_rng([test, round(10 * steering) + 10])
            drive, rows, orders = _Drive(RAMP_GAIN_RAD), [], []
            for k in range(112):
                throttle = max(0.0, 1.0 - abs(k - 50.0) / 50.0)
                orders.append((0.1 * k, throttle, steering))
                rows += drive.run(throttle, steering, 10, ROW_MS * (k + 1))
            t, x, y, yaw, _ = np.array(rows).T
            # The marker starts at the origin, ahead of the axle, and is known to a tenth of a
            # millimetre.
            x = x + MARKER_M * np.cos(yaw) - MARKER_M + rng.normal(0.0, 1e-4, len(t))
            y = y + MARKER_M * np.sin(yaw) + rng.normal(0.0, 1e-4, len(t))
            vx, vy = np.gradient(x, t), np.gradient(y, t)
            place = folder / f"steer_{name}"
            write(
                place / f"test{test}_motion.csv",
                {
                    "time_s": t, "x_m": x, "y_m": y,
                    "vx_body_mps": vx * np.cos(yaw) + vy * np.sin(yaw),
                    "vy_body_mps": vy * np.cos(yaw) - vx * np.sin(yaw), "yaw_rad": yaw,
                    "yaw_rate_radps": np.gradient(yaw, t),
                },
            )  # fmt: skip
            write(
                place / f"test{test}_commands.csv",
                dict(zip(("time_s", "throttle_cmd", "steering_cmd"), np.array(orders).T)),
            )


def _straights(folder: Path) -> None:
    """Throttle 0 to 1 and back, straight on: speed at 100 Hz, commands at 10 Hz beside it."""
    drive, rows, orders = _Drive(LAP_GAIN_RAD), [], []
    for k in range(80):
        throttle = max(0.0, 1.0 - abs(k - 40.0) / 40.0)
        orders.append((0.1 * k, throttle, 0.0))
        rows += drive.run(throttle, 0.0, 10, ROW_MS * (k + 1))
    t, _, _, _, speed = np.array(rows).T
    write(folder / "test1_speed.csv", {"time_s": t, "speed_mps": speed})
    write(
        folder / "test1_commands.csv",
        dict(zip(("time_s", "throttle_cmd", "steering_cmd"), np.array(orders).T)),
    )


def _circle(folder: Path) -> None:
    """Constant commands, RTK, and no gyro."""
    drive, rows = _Drive(LAP_GAIN_RAD), []
    for k in range(300):
        rows += drive.run(0.7, 0.3, ROW_MS, ROW_MS * (k + 1))
    t, x, y, yaw, speed = np.array(rows).T
    rtk_x, rtk_y = (np.round(place / grid) * grid for place, grid in zip((x, y), NMEA_GRID_M))
    write(
        folder / "single_circle.csv",
        {
            "time_nominal_s": t, "gps_x_m": x + 1.0, "gps_y_m": y - 1.0, "rtk_x_m": rtk_x,
            "rtk_y_m": rtk_y, "ekf_x_m": x, "ekf_y_m": y, "ekf_heading_rad": yaw,
            "ekf_speed_mps": speed, "throttle_cmd": np.full(len(t), 0.7),
            "steering_cmd": np.full(len(t), 0.3),
        },
    )  # fmt: skip


def _path_following(folder: Path) -> None:
    """A waved path of 45 m, and two drives along it under the published linear law, which sees a
    heading that is a little off."""
    s = np.arange(0.0, 45.0, 0.2)
    yaw = 0.5 * np.sin(2.0 * pi * s / 15.0)
    x, y = np.cumsum(0.2 * np.cos(yaw)) - 0.2, np.cumsum(0.2 * np.sin(yaw))
    course = Waypoints(x, y, yaw, np.ones(len(s)))
    write(
        folder / "reference_paths" / "syn_path_reconstructed.csv",
        dict(zip(("x_m", "y_m", "heading_rad", "speed_mps"), course)),
    )
    path = np.column_stack(course)
    published_runs.make(folder, path)
    for number, error_rad in ((1, 0.030), (3, 0.036)):
        drive = _Drive(LAP_GAIN_RAD)
        rows: list[tuple[float, ...]] = []
        throttle = steering = way_m = 0.0
        while way_m < 43.0 and len(rows) < 1000:
            t_s, x_m, y_m, yaw_rad, speed_mps = drive.run(
                throttle, steering, ROW_MS, ROW_MS * (len(rows) + 1)
            )[0]
            x_m, y_m = (round(place / grid) * grid for place, grid in zip((x_m, y_m), NMEA_GRID_M))
            seen_rad = yaw_rad - error_rad
            e = published_runs.errors(path, x_m, y_m, seen_rad, speed_mps)
            commands = float(published_runs.THROTTLE @ e), float(published_runs.STEERING @ e)
            throttle, steering = min(max(commands[0], 0.0), 1.0), min(max(commands[1], -1.0), 1.0)
            rows.append((t_s, x_m, y_m, seen_rad, *e, *commands))
            way_m += 0.1 * speed_mps
        write(
            folder / "path_following_2024" / "real" / "syn_path" / f"pid_{number}.csv",
            dict(zip(published_runs.COLUMNS, np.array(rows).T)),
        )


def _weave(
    seconds: float, standing_s: float, seed: int, throttle: float = 0.7
) -> dict[str, np.ndarray]:
    """A drive that stands, then weaves: columns t, x, y, yaw, speed, throttle, steering, a row each
    0.1 s."""
    phase = 2.0 * pi * np.random.default_rng(seed).random()
    drive, rows = _Drive(LAP_GAIN_RAD), []
    for k in range(round(seconds * 10)):
        moving_s = 0.1 * k - standing_s
        steering = (
            0.35 * sin(0.9 * moving_s + phase) + 0.2 * cos(2.1 * moving_s)
            if moving_s >= 0.0
            else 0.0
        )
        command = (throttle if moving_s >= 0.0 else 0.0, steering)
        rows.append((*drive.run(*command, ROW_MS, ROW_MS * (k + 1))[0], *command))
    return dict(zip(("t", "x", "y", "yaw", "speed", "throttle", "steering"), np.array(rows).T))


def _wander(rng: np.random.Generator, rows: int, sigma_m: float, time_s: float) -> np.ndarray:
    """Gauss-Markov error of a plain receiver, (rows, 2), a row each 0.1 s."""
    keep = np.exp(-0.1 / time_s)
    error = np.empty((rows, 2))
    error[0] = rng.normal(0.0, sigma_m, 2)
    for k in range(1, rows):
        error[k] = keep * error[k - 1] + rng.normal(0.0, sigma_m * np.sqrt(1.0 - keep**2), 2)
    return error


def _laps(folder: Path) -> None:
    for number in range(1, 4):
        for place in ("rd_path", "syn_path"):
            d = _weave(60.0, 1.5, 10 * number + len(place))
            x, y = (np.round(d[axis] / grid) * grid for axis, grid in zip("xy", NMEA_GRID_M))
            nothing = np.zeros(len(x))
            write(
                folder / "path_following_2024" / "real" / place / f"nn_mpc_{number}.csv",
                {
                    "time_nominal_s": d["t"], "x_m": x, "y_m": y,
                    "heading_rad": d["yaw"] + 2e-4 * d["t"], "e_ahead_m": nothing,
                    "e_left_m": nothing, "e_heading_rad": nothing, "e_speed_mps": 1.0 - d["speed"],
                    "throttle_cmd": d["throttle"], "steering_cmd": d["steering"],
                },
            )  # fmt: skip
        for speed in ("single_speed", "multi_speed"):
            d = _weave(90.0, 5.0, 10 * number + len(speed))
            rng = np.random.default_rng([number, len(speed)])
            error = _wander(rng, len(d["t"]), 1.5, 40.0)
            fresh = (np.floor(np.arange(len(d["t"])) * 0.4) / 0.4).round().astype(int)
            rtk = [np.round(d[axis] / grid) * grid for axis, grid in zip("xy", NMEA_GRID_M)]
            write(
                folder / "lot17_rtk_gps_2023" / speed / f"nn_mpc_{number}.csv",
                {
                    "time_nominal_s": d["t"], "gps_x_m": (d["x"] + error[:, 0])[fresh],
                    "gps_y_m": (d["y"] + error[:, 1])[fresh], "rtk_x_m": rtk[0], "rtk_y_m": rtk[1],
                    "ekf_x_m": rtk[0], "ekf_y_m": rtk[1], "ekf_heading_rad": d["yaw"],
                    "ekf_speed_mps": 1.4 * d["speed"], "throttle_cmd": d["throttle"],
                    "steering_cmd": d["steering"], "gyro_yaw_rad": d["yaw"] + 5e-4 * d["t"],
                },
            )  # fmt: skip
    for number in range(12):
        d = _weave(15.0, 1.0, 100 + number)
        noise = np.cumsum(np.random.default_rng(number).normal(0.0, 0.04, (len(d["t"]), 2)), axis=0)
        noise -= noise[0]
        x, y = d["x"] + 0.22 * np.cos(d["yaw"]), d["y"] + 0.22 * np.sin(d["yaw"])
        write(
            folder / "mocap_ekf_mpc_2023" / f"sin_{2 + number % 2}" / f"r{number // 2}.csv",
            {
                "time_s": d["t"], "noisy_x_m": x + noise[:, 0], "noisy_y_m": y + noise[:, 1],
                "mocap_x_m": x, "mocap_y_m": y, "ekf_x_m": x, "ekf_y_m": y,
                "mocap_heading_rad": d["yaw"] - 0.12, "throttle_cmd": d["throttle"],
                "steering_cmd": d["steering"],
            },
        )  # fmt: skip
