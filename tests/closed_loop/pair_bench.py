"""Bench for one drive with a pair of failures, in lockstep."""

import traceback
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from sim_backend.connection import START_NS
from sim_backend.emulators.failures import Failure
from tests.closed_loop.fault_judge import DRIVING, SECOND_NS, Judge, Stop
from tests.closed_loop.misfortunes import OUTSIDE, Case, end_s
from tests.closed_loop.outside import Outside
from vehicled.core.messages import Mode, OperatorAction, Reaction
from vehicled.core.vehicle import STANDSTILL_MPS
from vehicled.maps.grid import OccupancyGrid
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile

SETTLE_S = 4.0
"""Time after the last failure until the vehicle drives or stands."""
REST_S = 0.5
AFTER_S = 2.0
"""Time watched afterwards."""


class Found(Struct, kw_only=True):
    """Result of a drive."""

    broken: list[str]
    """Broken rules, with times; empty if all is well."""
    stops: list[Stop]
    end: str
    """Mode at the end and its reason."""


def run(case: Case) -> Found:
    """Drive, inject the failures, re-arm after a stop, and judge. Never raises on account of the
    daemon."""
    judge = Judge()
    judge.raises_expected = any(failure.kind.endswith("_raises") for failure in case.failures)
    try:
        end = _drive(case, judge)
    except Exception as error:  # noqa: BLE001 - whatever it is: it is what was looked for
        trace = "".join(traceback.format_exception(error)[-3:])
        judge.broken[f"raised {type(error).__name__}: {error}\n{trace}"] += 1
        end = "raised"
    return Found(
        broken=[f"{text} ({n} times)" if n > 1 else text for text, n in judge.broken.items()],
        stops=list(judge.stops),
        end=end,
    )


def _drive(case: Case, judge: Judge) -> str:
    pair = begin(
        profile_of(case.profile), course_of(case.course), case.failures, judge, case.seed, case.link
    )
    outside, machine = Outside(pair, case.failures), pair.machine
    over_ns = START_NS + round(max(end_s(failure) for failure in case.failures) * SECOND_NS)
    over_ns = max(over_ns, START_NS + 2 * SECOND_NS)
    settled_ns = armed_ns = 0
    while True:
        pair.grant()
        now_ns = pair.now_ns
        outside.act(now_ns)
        calm = machine.mode in DRIVING or stands(judge)
        waited_s = (now_ns - over_ns) / SECOND_NS
        if not settled_ns and waited_s >= (REST_S if calm else SETTLE_S):
            if not calm:
                judge.broken[
                    (
                        f"neither drives nor stands {SETTLE_S:g} s after the last misfortune: "
                        f"{machine.mode.name}"
                    )
                ] += 1
            settled_ns = now_ns
            armed_ns = 0 if machine.mode in DRIVING else now_ns + round(REST_S * SECOND_NS)
        if armed_ns and now_ns >= armed_ns:
            armed_ns = 0
            outside.ask(now_ns, OperatorAction.ARM, OperatorAction.DRIVE)
        if settled_ns and now_ns >= settled_ns + round((REST_S + AFTER_S) * SECOND_NS):
            break
        pair.reply()
    _judge_end(pair, judge)
    return f"{machine.mode.name}: {machine.why}"


def begin(
    profile: Profile,
    course: Course,
    failures: Sequence[Failure],
    judge: Judge,
    seed: int,
    link: str,
    grid: OccupancyGrid | None = None,
) -> WrappedPair:
    """Start a drive that the judge follows. ``grid``: the map of the profile."""
    inside = [failure for failure in failures if failure.port not in OUTSIDE]
    pair = WrappedPair(profile, course, inside, judge, seed, link=link, grid=grid)
    judge.supervisor = pair.machine.supervisor
    return pair


def stands(judge: Judge) -> bool:
    """True if the true vehicle stands."""
    return judge.truth is not None and abs(judge.truth.speed_mps) < STANDSTILL_MPS


def _judge_end(pair: WrappedPair, judge: Judge) -> None:
    machine, command = pair.machine, judge.command
    assert command is not None
    if machine.mode in DRIVING:
        if command.reaction >= Reaction.CONTROLLED_STOP:
            judge.broken[f"drives at the end under {command.reaction.name}"] += 1
    elif not stands(judge):
        judge.broken[f"rolls at the end: {machine.mode.name}, {machine.why}"] += 1
    elif machine.mode in (Mode.STANDBY, Mode.INIT, Mode.FAULT) and not machine.why:
        judge.broken["stands at the end and does not say why"] += 1


@lru_cache(maxsize=8)
def course_of(name: str) -> Course:
    """Return a course, read once."""
    return load_course(name)


@lru_cache(maxsize=2)
def profile_of(name: str) -> Profile:
    """Return a profile, read once."""
    return load_profile(name)
