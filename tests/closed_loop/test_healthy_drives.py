"""Healthy drives that were once stopped or capped: each finishes or is still driving, without a
reaction, when its time is over."""

import pytest

from sim_backend.connection import START_NS
from tests.closed_loop.fault_judge import SECOND_NS
from vehicled.core.messages import Fault, Message, Mode, Reaction
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.profile import load
from vehicled.run.judge import Judge
from vehicled.run.plan import course_of

DRIVES = {
    # A gain of the speed loop for a drive without any delay swung the speed between 0.3 and 1.0
    # m/s.
    "mpc, and a profile that states no delay of the drive": (
        "husky_a200",
        "random:seed=794725,length_m=13.29,speed_mps=0.634,lateral_mps2=0.734,bend_m=1.585", 6.0,
        ["controller.name=mpc", "vehicle.drive.delay_s=0"], 26,
    ),
    # A look-ahead of 1.5 s cuts a bend by more than a narrow corridor.
    "regulated pursuit in a narrow corridor": (
        "f1tenth",
        "random:seed=891649,length_m=55.08,speed_mps=2.69,lateral_mps2=2.42,bend_m=6.737", 9.0,
        ["controller.name=regulated_pure_pursuit"], 27,
    ),
    # Without the lag from wheels to path the plan swung to the lateral limit, and beyond it by what
    # the turns had measured.
    "mpc at 12.6 m/s": (
        "opencav",
        "random:seed=443402,length_m=252.8,speed_mps=12.6,lateral_mps2=1.47,bend_m=107.5", 20.0,
        ["controller.name=mpc"], 79,
    ),
    # The plan cut a loop short, because its poses counted from the far side of the loop, which was
    # nearer.
    "mpc on a course that comes back to itself": (
        "f1tenth_gnss",
        "random:seed=488211,length_m=18.75,speed_mps=1.23,lateral_mps2=1.86,bend_m=3.07", 12.0,
        ["controller.name=mpc"], 104,
    ),
    # Back to the course from an offset of plain GNSS, the law asked for more than the lateral
    # limit.
    "flat with plain GNSS": (
        "opencav",
        "random:seed=966419,length_m=119.6,speed_mps=6.71,lateral_mps2=0.967,bend_m=46.56", 9.0,
        [
            "controller.name=flat", 'sim.gnss.model="recorded"', 'sim.gnss.carrier="none"',
            "sim.gnss.recorded.wander_sigma_m=0.216", "sim.gnss.recorded.smooth_sigma_m=0.216",
        ],
        150,
    ),
    # The law's speed fell faster than the vehicle, which was taken for a push, and a throttle too
    # little for the motor stood still.
    "regulated pursuit that slows down before the end": (
        "roboracer", "random:seed=2947,length_m=4,speed_mps=1.27,lateral_mps2=1.4,bend_m=3.164",
        12.0,
        ["controller.name=regulated_pure_pursuit",
         "controller.regulated_pure_pursuit.speed.creep_mps=0.15"], 7001,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRIVES)
def test_it_is_neither_stopped_nor_capped(name: str) -> None:
    vehicle, place, seconds, overrides, seed = DRIVES[name]
    profile = load(vehicle, overrides).profile
    course = course_of(profile, place)
    reactions: list[str] = []
    judge = Judge(course)

    class Tap(Judge):
        def record(self, message: Message, log_time_ns: int) -> None:
            judge.record(message, log_time_ns)
            if (
                isinstance(message, Fault)
                and message.active
                and message.reaction >= Reaction.CAP_SPEED
            ):
                reactions.append(f"{message.code}: {message.reason}")

    pair = WrappedPair(profile, course, (), Tap(course), seed=seed, link="messages")
    while not pair.machine.course_driven and pair.now_ns < START_NS + seconds * SECOND_NS:
        pair.grant()
        pair.reply()
    assert reactions == []
    assert pair.machine.course_driven or pair.machine.mode is Mode.AUTO
    assert judge.driven_m > 1.0


@pytest.mark.parametrize("estimator", ["ekf4", "planar", "ins"])
def test_every_estimator_arms_and_drives_with_its_defaults(estimator: str) -> None:
    profile = load("art", [f"estimator.name={estimator}"]).profile
    course = course_of(profile, "circle_r5_ccw")
    judge = Judge(course)
    pair = WrappedPair(profile, course, (), judge, seed=1, link="messages")
    while pair.now_ns < START_NS + 5 * SECOND_NS:
        pair.grant()
        pair.reply()
    assert pair.machine.mode is Mode.AUTO, pair.machine.waiting_for(START_NS + 5 * SECOND_NS)
    assert judge.estimate_position_m.max < 0.15
