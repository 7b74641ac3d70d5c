"""The indoor experiment of Unjhawala et al. 2023 on the twin: motion capture as GNSS receiver and
compass, with wandering noise added, and the whole daemon behind it.

Two sine curves, five tests each, at 1 m/s. The twin of the ART vehicle sends the packets of its
motion capture system, the driver reads them, the daemon adds the noise of the profile
(``--noise`` of ``vehicled run``) and drives. Each test has a noise of its own. The same tests are
driven without noise, which shows how much of the error is the noise. What is judged is the distance
of the true rear axle from the curve.

The published tests were driven with other weights and the wheel angle sent unscaled: their table
stands beside ours, not under it. ``vehicled experiment mpc-tracking`` compares the published filter
and controller with ours on the same curves, without drivers.
"""

from argparse import Namespace
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec import Struct

from sim_backend.connection import START_NS
from vehicled.core.errors import SetupError
from vehicled.core.messages import Event, Fault, GnssFix, GroundTruth, Message, Mode
from vehicled.offline.replications.experiments.common import ExperimentConsole, on_terminal
from vehicled.offline.replications.experiments.mpc_tracking import (
    PUBLISHED,
    TESTS,
    curve,
)
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker
from vehicled.profile import load_profile
from vehicled.run.argument_types import CONTROLLER, ESTIMATOR, PROFILE
from vehicled.run.command_line import CommandParser
from vehicled.run.pair import Pair

LONGEST_S = 40.0
"""A test that has not come to its end by then has failed to."""
REST_S = 0.5


class MocapTest(Struct, frozen=True, kw_only=True):
    """One drive. Errors are those of the true rear axle, in m."""

    trajectory: int
    test: int
    noise: bool
    finished: bool
    why: str
    """Reason of the last mode of the daemon."""
    mean_m: float
    max_m: float
    measured_m: float
    """Mean distance of the fixes from the true place of what they measure."""
    noise_events: int
    """Events of the log that say that noise is injected."""
    faults: list[str] = []
    """Codes of the faults."""


class _TestRecord:
    """Sink of a drive: truth, fixes and faults."""

    def __init__(self, course: Course, arm_m: Sequence[float]) -> None:
        self._tracker = PathTracker(course)
        self._datum = course.datum
        self._arm_m = arm_m
        self.driving = False
        self.errors: list[float] = []
        self.off: list[float] = []
        self.faults: set[str] = set()
        self.noise_events = 0
        self._places: list[tuple[int, float, float, float]] = []

    def record(self, message: Message, log_time_ns: int) -> None:
        """Take a record of the log."""
        if isinstance(message, GroundTruth):
            self._places.append((message.t_ns, message.x_m, message.y_m, message.yaw_rad))
            if self.driving:
                found = self._tracker.update(message.x_m, message.y_m, message.yaw_rad)
                self.errors.append(abs(found.cross_track_m))
        elif isinstance(message, GnssFix) and self._places and self.driving:
            self._compare(message)
        elif isinstance(message, Fault) and message.active:
            self.faults.add(message.code)
        elif isinstance(message, Event):
            self.noise_events += message.name == "noise_injected"

    def _compare(self, fix: GnssFix) -> None:
        stamps = [each[0] for each in self._places[-20:]]
        nearest = int(np.argmin(np.abs(np.array(stamps) - fix.t_ns)))
        _, x, y, yaw = self._places[-20:][nearest]
        east, north, _ = self._datum.to_enu(fix.latitude_rad, fix.longitude_rad, fix.height_m)
        forward, left, _ = self._arm_m
        c, s = np.cos(yaw), np.sin(yaw)
        self.off.append(
            float(np.hypot(east - x - c * forward + s * left, north - y - s * forward - c * left))
        )


def declare_experiment_mocap_tracking(parser: CommandParser) -> None:
    """Declare the command."""
    parser.describe(__doc__ or "")
    parser.add_argument(
        "--tests",
        type=int,
        default=TESTS,
        metavar="N",
        help=f"tests of each trajectory (default {TESTS})",
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art_mocap",
        metavar="P",
        help="vehicle with motion capture and its noise (default art_mocap)",
    )
    parser.add_argument(
        "--estimator", type=ESTIMATOR, metavar="NAME", help="other estimator than the profile's"
    )
    parser.add_argument(
        "--controller", type=CONTROLLER, metavar="NAME", help="other controller than the profile's"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of noise and sensors (default 1)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=on_terminal(run))


def run(arguments: Namespace, console: ExperimentConsole) -> int:
    """Drive all tests and show them beside the published ones. Raises :class:`SetupError` for
    arguments that cannot be used."""
    if not 1 <= arguments.tests <= 1000 or arguments.seed < 0:
        raise SetupError("--tests takes 1 to 1000, --seed a whole number from 0 on")
    overrides = [
        f"{table}.name={name}"
        for table in ("estimator", "controller")
        if (name := getattr(arguments, table))
    ]
    found = []
    for noise in (True, False):
        for trajectory in (0, 1):
            for test in range(arguments.tests if noise else 1):
                console.progress(
                    f"{'with' if noise else 'without'} noise, trajectory {trajectory + 1}, "
                    f"test {test + 1}"
                )
                found.append(
                    drive(
                        arguments.profile,
                        trajectory,
                        test,
                        seed=arguments.seed,
                        noise=noise,
                        overrides=overrides,
                    )
                )
    if arguments.json:
        console.text(msgspec.json.encode({"tests": found, "published": PUBLISHED}).decode())
        return 0
    _show(console, found)
    return 0


def drive(
    profile: str,
    trajectory: int,
    test: int,
    *,
    seed: int,
    noise: bool,
    overrides: Sequence[str] = (),
) -> MocapTest:
    """Drive one test on wires in lockstep. Raises :class:`SetupError` for a profile without noise
    on its motion capture."""
    loaded = load_profile(profile, list(overrides))
    noised = [name for name, device in loaded.devices.items() if device.noise is not None]
    if not noised:
        raise SetupError(
            f"profile {profile!r} has no table [devices.NAME.noise]: nothing imitates a receiver"
        )
    own = 1 + (seed * 1000 + trajectory) * 1000 + test
    loaded = load_profile(
        profile,
        [
            *overrides,
            f"inject_noise={'true' if noise else 'false'}",
            *(f"devices.{name}.noise.seed={own}" for name in noised),
        ],
    )
    course = curve(trajectory)
    record = _TestRecord(course, loaded.devices[noised[0]].lever_arm_m)
    pair = Pair(loaded, course, [], record, own, link="wires")
    machine, stopped_ns = pair.machine, 0
    while pair.now_ns < START_NS + LONGEST_S * 1e9:
        pair.grant()
        pair.reply()
        was, record.driving = record.driving, machine.mode is Mode.AUTO
        if was and not record.driving:
            stopped_ns = pair.now_ns
        if stopped_ns and pair.now_ns - stopped_ns > REST_S * 1e9:
            break
    errors = np.array(record.errors or [np.nan])
    return MocapTest(
        trajectory=trajectory + 1,
        test=test + 1,
        noise=noise,
        finished=machine.course_driven,
        why=machine.why,
        mean_m=float(errors.mean()),
        max_m=float(errors.max()),
        measured_m=float(np.mean(record.off)) if record.off else float("nan"),
        noise_events=record.noise_events,
        faults=sorted(record.faults),
    )


def _show(console: ExperimentConsole, found: Sequence[MocapTest]) -> None:
    rows = []
    for each in found:
        published = ["", ""]
        if each.noise and each.test <= TESTS:
            published = [
                f"{PUBLISHED[key][each.trajectory - 1][each.test - 1]:.3f}"
                for key in ("mean_error_real_m", "max_error_real_m")
            ]
        rows.append(
            [
                str(each.trajectory),
                str(each.test) if each.noise else "no noise",
                f"{each.measured_m:.3f}",
                f"{each.mean_m:.3f}",
                f"{each.max_m:.3f}",
                *published,
                "" if each.finished else each.why,
            ]
        )
    console.table(
        "cross-track error of the true rear axle (m)",
        [
            "trajectory",
            "test",
            "measurement error",
            "mean",
            "max",
            "published mean, real",
            "published max, real",
            "not finished",
        ],
        rows,
    )
    noisy = [each for each in found if each.noise]
    done = sum(each.finished for each in noisy)
    console.text(
        f"with noise: {done} of {len(noisy)} finished, mean of the means "
        f"{np.mean([each.mean_m for each in noisy]):.3f} m, largest error "
        f"{max(each.max_m for each in noisy):.3f} m"
    )
