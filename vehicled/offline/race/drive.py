"""Drives of controllers along a race line in the simulator, in lockstep, and their lap times."""

from math import atan2, cos, isfinite, nan, sin
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.messages import GroundTruth, Message
from vehicled.offline.processes import WorkerPool
from vehicled.offline.race.line import RaceLine
from vehicled.profile.schema import Profile
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import START_TIMEOUT_S, RunSpec

LAPS = 2
"""Laps of a drive: the flying lap is from the middle of the first to the middle of the second,
because a drive begins and ends at standstill."""
SLIP_RAD, SLIP_S, SLIP_MPS = 0.15, 0.05, 1.0
"""Slip angle of an axle, time and speed from which a slip is counted."""
SLOWEST = 4.0
"""Time limit of a drive, in ideal lap times."""
POINTS_M = 0.1
MARK = "race line of vehicled race"


class DrivenLap(Struct, frozen=True, kw_only=True):
    """Result of a controller on a line."""

    controller: str
    finished: bool
    why: str
    lap_s: float
    """Flying lap; NaN if it was not driven."""
    ratio: float
    """The flying lap over the ideal lap time of the line."""
    cross_track_max_m: float
    contacts: int
    slips: int
    digest: str
    x_m: list[float]
    y_m: list[float]


class _LapRequest(Struct, frozen=True):
    run: RunSpec
    x_m: list[float]
    y_m: list[float]
    length_m: float
    ideal_s: float
    wheelbase_m: float


class SlipCounter:
    """Counts the times at which an axle slides: its slip angle exceeds ``SLIP_RAD``.

    The slip angle of the rear axle is that between its motion and the heading; of the front axle,
    between its motion and the wheels.
    """

    def __init__(self, wheelbase_m: float) -> None:
        self._wheelbase_m = wheelbase_m
        self._last: GroundTruth | None = None
        self._since_ns: int | None = None
        self._counted = False
        self.count = 0

    def record(self, message: Message, log_time_ns: int) -> None:
        """Process one message."""
        if not isinstance(message, GroundTruth):
            return
        last, self._last = self._last, message
        if last is None or message.t_ns <= last.t_ns:
            return
        dt = (message.t_ns - last.t_ns) * 1e-9
        vx, vy = (message.x_m - last.x_m) / dt, (message.y_m - last.y_m) / dt
        c, s = cos(message.yaw_rad), sin(message.yaw_rad)
        ahead, left = c * vx + s * vy, c * vy - s * vx
        slides = False
        if ahead > SLIP_MPS:
            rear = abs(atan2(left, ahead))
            front = abs(
                atan2(left + self._wheelbase_m * message.yaw_rate_radps, ahead)
                - message.wheel_angle_rad
            )
            slides = rear > SLIP_RAD or (isfinite(front) and front > SLIP_RAD)
        if not slides:
            self._since_ns, self._counted = None, False
            return
        if self._since_ns is None:
            self._since_ns = message.t_ns
        if not self._counted and message.t_ns - self._since_ns >= SLIP_S * 1e9:
            self._counted = True
            self.count += 1


def course_text(line: RaceLine, name: str) -> str:
    """Return a line as a course file, with its speeds."""
    rows = [
        f"# {MARK}",
        f"# name: {name[:60]}",
        "# closed: yes",
        "x_m,y_m,speed_mps",
    ]
    rows += [
        f"{x:.4f},{y:.4f},{v:.4f}"
        for x, y, v in zip(
            line.x_m.tolist(), line.y_m.tolist(), line.speed_mps.tolist(), strict=True
        )
    ]
    return "\n".join([*rows, ""])


def speed_overrides(profile: Profile, controller: str, line: RaceLine) -> list[str]:
    """Return the overrides by which a controller follows the speeds of a line: the profile's own
    speed control, with the accelerations that the line uses."""
    own = getattr(profile.controller.selected, "speed", None)
    if own is None or not controller.isidentifier():
        return []
    table = f"controller.{controller}.speed"
    limits = line.limits
    longitudinal = min(limits.longitudinal_mps2, limits.drive_mps2(0.0))
    braking = min(limits.longitudinal_mps2, limits.braking_mps2)
    values = {
        "p": own.p,
        "i": own.i,
        "d": own.d,
        "acceleration_mps2": longitudinal,
        "deceleration_mps2": braking,
    }
    return [f"{table}.{key}={value:.6g}" for key, value in values.items()]


def drive_line(
    line: RaceLine,
    profile_name: str,
    profile: Profile,
    overrides: tuple[str, ...],
    course: Path,
    scene: str,
    controllers: list[str],
    *,
    seed: int = 0,
    jobs: int | None = None,
    tuned: bool = False,
) -> list[DrivenLap]:
    """Drive a course file of a line with each controller. ``tuned``: leave their speed control as
    the profile has it."""
    requests = [
        _LapRequest(
            run=RunSpec(
                profile=profile_name,
                overrides=(
                    *([] if tuned else speed_overrides(profile, controller, line)),
                    *overrides,
                ),
                controller=controller,
                course=str(course),
                scene=scene,
                laps=LAPS,
                seed=seed,
                log_folder=None,
                duration_s=SLOWEST * LAPS * line.lap.time_s + 20.0,
                start_timeout_s=START_TIMEOUT_S,
            ),
            x_m=line.x_m.tolist(),
            y_m=line.y_m.tolist(),
            length_m=line.length_m,
            ideal_s=line.lap.time_s,
            wheelbase_m=line.limits.wheelbase_m,
        )
        for controller in controllers
    ]
    for request in requests:
        Plan.of(request.run)
    with WorkerPool(min(len(requests), jobs) if jobs else None) as processes:
        return processes.map(_driven, requests, lambda done: None)


def _driven(shared: None, request: _LapRequest) -> DrivenLap:
    slips = SlipCounter(request.wheelbase_m)
    done = simulate(
        Plan.of(request.run),
        SimulationSpec(),
        keep_trace=True,
        listeners=[((GroundTruth,), slips.record)],
        keeps_signal=True,
    )
    result = done.result
    t = np.array([point.t_s for point in done.trace])
    x = np.array([point.x_m for point in done.trace])
    y = np.array([point.y_m for point in done.trace])
    lap_s = flying_lap_s(t, x, y, request.x_m, request.y_m, request.length_m)
    kept = _spaced(x, y)
    return DrivenLap(
        controller=result.controller,
        finished=result.finished,
        why=result.why,
        lap_s=lap_s,
        ratio=lap_s / request.ideal_s,
        cross_track_max_m=float(result.cross_track_m.max),
        contacts=len(result.contacts),
        slips=slips.count,
        digest=result.digest,
        x_m=x[kept].round(3).tolist(),
        y_m=y[kept].round(3).tolist(),
    )


def flying_lap_s(
    t: Array, x: Array, y: Array, line_x: list[float], line_y: list[float], length_m: float
) -> float:
    """Return the time from the middle of the first lap to the middle of the second; NaN if the
    vehicle did not come so far."""
    if len(t) < 2:
        return nan
    n = len(line_x)
    points = np.column_stack((line_x, line_y))
    legs = np.hypot(*(np.roll(points, -1, axis=0) - points).T)
    s = np.append(0.0, np.cumsum(legs))
    k, driven, before = 0, 0.0, 0.0
    marks: list[float] = []
    last_t = float(t[0])
    window = max(5, n // 50)
    for i, (px, py) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        near = (k + np.arange(-window, window + 1)) % n if i else np.arange(n)
        k = int(near[np.hypot(points[near, 0] - px, points[near, 1] - py).argmin()])
        after = (k + 1) % n
        along = points[after] - points[k]
        part = ((px - points[k, 0]) * along[0] + (py - points[k, 1]) * along[1]) / max(
            float(along @ along), 1e-12
        )
        here = float(s[k]) + min(max(part, -1.0), 1.0) * float(legs[k])
        step = (here - before + 0.5 * length_m) % length_m - 0.5 * length_m
        before = here
        if i:
            wanted = (0.5 + len(marks)) * length_m
            if driven < wanted <= driven + step:
                ratio = (wanted - driven) / step
                marks.append(last_t + ratio * (float(t[i]) - last_t))
            driven += step
        last_t = float(t[i])
        if len(marks) == LAPS:
            return float(marks[1] - marks[0])
    return nan


def _spaced(x: Array, y: Array) -> npt.NDArray[np.intp]:
    """Return the rows of a trace that are some way apart, for pictures."""
    if not len(x):
        return np.zeros(0, dtype=np.intp)
    distance = np.append(0.0, np.cumsum(np.hypot(np.diff(x), np.diff(y))))
    return np.unique(np.floor(distance / POINTS_M), return_index=True)[1]
