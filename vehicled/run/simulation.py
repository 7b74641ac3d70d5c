"""A drive in simulation: daemon and simulator together, scored against ground truth."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from vehicled.core.errors import SetupError, UserError
from vehicled.core.messages import Identification
from vehicled.daemon.machine import Machine
from vehicled.profile.noise import injected
from vehicled.profile.schema import Profile
from vehicled.run.injected import InjectedFailures
from vehicled.run.judge import TYPES as JUDGE_TYPES
from vehicled.run.judge import Judge, TracePoint
from vehicled.run.manoeuvre import TYPES as MANOEUVRE_TYPES
from vehicled.run.manoeuvre import ManoeuvreJudge
from vehicled.run.plan import Plan
from vehicled.run.result import Learnt, Result, figures_of, health_of
from vehicled.run.session import DriveOutcome, Listener, Observer, drive, greet
from vehicled.run.signals import give_back
from vehicled.run.world_files import conditions, world_files
from vehicled.runtime.connection import connect
from vehicled.runtime.ending import Outcome
from vehicled.runtime.simulator import SimulatorProcess

if TYPE_CHECKING:
    from sim_backend.world import World
    from vehicled.run.world_link import WorldLink


class SimulationSpec(Struct, frozen=True, kw_only=True):
    """Conditions of a simulated drive that are not the daemon's."""

    failures: tuple[str, ...] = ()
    """Faults to inject, as given to ``--fail``."""
    start: Literal["", "stand", "align", "push"] = ""
    """State of the vehicle at the start: ``align``, ``push``, or empty for the course's start."""
    by_hand: bool = False
    """True if a person drives: the simulator then does not arm the vehicle."""
    connect: str = ""
    """Address of a running simulator; empty: start one."""
    connect_timeout_s: float = 0.0
    """Time for which to try again while no simulator listens at that address, s."""
    in_process: bool = False
    """True if the simulated world is built in this process (lockstep only): no second process, no
    socket, the same digest."""


class Simulated(Struct, frozen=True):
    """A finished drive in simulation."""

    result: Result
    drive: DriveOutcome
    trace: Sequence[TracePoint]
    """Every instant of driving; empty unless asked for."""
    world: "World | None" = None
    """World as the drive left it, if it was built in this process."""


def simulate(
    plan: Plan,
    simulation: SimulationSpec,
    *,
    keep_trace: bool = False,
    listeners: Sequence[Listener] = (),
    progress: Callable[[Machine, Judge, int], None] | None = None,
    keeps_signal: bool = False,
) -> Simulated:
    """Drive the plan against the simulator and score the drive. Raises :class:`SetupError` and
    LinkError.

    A Ctrl-C or SIGTERM that ended the drive is given to the program afterwards, because it is meant
    for all of it; with ``keeps_signal`` it has ended the drive alone.
    """
    profile = (
        plan.loaded.profile
        if simulation.connect
        else simulated_profile(
            plan, simulation.failures, "stand" if simulation.by_hand else simulation.start
        )
    )
    if not simulation.connect and plan.spec.log_folder is not None:
        spec = replace(
            plan.spec, world=conditions(simulation.failures, simulation.start, plan.spec.duration_s)
        )
        plan = replace(plan, spec=spec, world_files=world_files(plan.loaded, mixed=spec.mixed))
    judge = Judge(plan.course, keep_trace=keep_trace)
    manoeuvre = ManoeuvreJudge(plan.course, plan.loaded.profile.vehicle, judge)
    learnt = Learnt()

    def show(machine: Machine, now_ns: int) -> None:
        if progress is not None:
            progress(machine, judge, now_ns)

    def know(machine: Machine) -> None:
        builder = machine.pipeline.builder
        if builder is not None:
            # To read the course a second time would hold the loop.
            judge.course_of = lambda command, lap_from_m: builder.course

    observer = Observer(
        on_machine=know,
        listeners=[
            (JUDGE_TYPES, judge.record),
            (MANOEUVRE_TYPES, manoeuvre.record),
            ((Identification,), learnt.record),
            *listeners,
        ],
        progress={"progress": show} if progress is not None else {},
        verdict=None
        if plan.loaded.profile.controller.name == "programme"
        else lambda: (manoeuvre.passed, manoeuvre.verdict),
        injected=InjectedFailures(simulation.failures) if simulation.failures else None,
    )
    world = None
    if simulation.in_process:
        link = _world(plan, simulation, profile)
        done, world = drive(plan, link, observer), link.world
    else:
        done = _drive_beside(plan, simulation, observer)
    for text in done.late_tasks:
        print(f"warning: {text}", file=sys.stderr)
    if not keeps_signal:
        give_back(done.signal)
    result = _result(plan, done, judge, manoeuvre, learnt)
    return Simulated(result, done, judge.trace or (), world)


def _drive_beside(plan: Plan, simulation: SimulationSpec, observer: Observer) -> DriveOutcome:
    """Drive against a simulator in a process of its own."""
    simulator_pid: int | None = None
    with ExitStack() as stack:
        if simulation.connect:
            sock = stack.enter_context(connect(simulation.connect, simulation.connect_timeout_s))
        else:
            simulator = SimulatorProcess(
                plan.loaded.path,
                plan.spec.overrides,
                plan.spec.course or plan.loaded.profile.course,
                plan.spec.seed,
                plan.spec.link,
                simulation.failures,
                scenario=not simulation.by_hand,
                start=simulation.start,
            )
            sock = stack.enter_context(simulator).sock
            simulator_pid = simulator.pid
        return drive(plan, greet(plan, sock), observer, simulator_pid=simulator_pid)


def _world(plan: Plan, simulation: SimulationSpec, profile: Profile) -> "WorldLink":
    """Build the simulated world of a profile whose files have absolute paths."""
    from sim_backend.emulators.failures import parse_failure
    from sim_backend.world import WorldSetup
    from vehicled.run.world_link import WorldLink

    return WorldLink(
        WorldSetup(
            profile=profile,
            course=plan.course,
            seed=plan.spec.seed,
            wires=plan.spec.link == "wires",
            failures=[parse_failure(text) for text in simulation.failures],
            scenario=not simulation.by_hand,
            start=simulation.start or None,
        )
    )


def _result(
    plan: Plan, done: DriveOutcome, judge: Judge, manoeuvre: ManoeuvreJudge, learnt: Learnt
) -> Result:
    profile = plan.loaded.profile
    machine = done.machine
    controller = profile.controller
    programme = controller.selected.name or "unnamed" if controller.name == "programme" else ""
    finished = machine.course_driven and (judge.finished or bool(programme))
    # The supervisor does not know about programmes.
    reason = machine.supervisor.reason
    why = (
        reason.text("programme")
        if programme and done.ending.outcome is Outcome.FINISHED
        else done.ending.why
    )
    if programme and manoeuvre.gave_up:
        selected = controller.selected
        why = (
            f"the entry speed of {selected.entry_speed_mps:g} m/s was not reached in "
            f"{selected.entry_s:g} s: choose another"
        )
    if machine.course_driven and not finished:
        why = (
            "the estimate reached the end of the course, but the vehicle only "
            f"{judge.driven_m:.1f} m of it"
        )
    return Result(
        finished=finished,
        why=why,
        profile=profile.name,
        course=plan.course.name,
        controller=profile.controller.label,
        estimator=profile.estimator.label,
        clock=plan.spec.clock,
        link=plan.spec.link,
        seed=done.seed,
        driven_m=judge.driven_m,
        course_m=judge.course_m,
        driving_s=judge.driving_s,
        tasks=health_of(
            machine.executive, charged=plan.spec.clock == "lockstep" and plan.board is None
        ),
        late_tasks=list(done.late_tasks),
        run_s=(done.ending.now_ns - done.started_ns) * 1e-9,
        wall_s=done.wall_s,
        digest=machine.digest.hexdigest(),
        frames=machine.digest.frames,
        log=done.log.path if done.log is not None else "",
        log_problem=done.log_problem,
        markings="" if programme else manoeuvre.verdict,
        markings_passed=None if programme else manoeuvre.passed,
        section=None if programme else manoeuvre.section,
        programme=programme,
        motion=manoeuvre.motion if programme else None,
        identified=learnt.values,
        contacts=[asdict(each) for each in judge.contacts],
        course_notes=plan.course_notes,
        noise=injected(plan.loaded.profile),
        mixed=plan.spec.mixed_name,
        stalls=done.stalls,
        observers_failed=done.observers_failed,
        messages=machine.usage,
        **figures_of(judge),
    )


def simulated_profile(
    plan: Plan, failures: Sequence[str] = (), start: Literal["", "stand", "align", "push"] = ""
) -> Profile:
    """Check what a simulator would refuse, and return the profile with absolute paths. Raises
    :class:`SetupError`."""
    from sim_backend.emulators.failures import FailureError, parse_failure
    from sim_backend.emulators.registry import check_emulators, check_failures
    from sim_backend.profile_check import resolved_profile

    wires = plan.spec.link == "wires"
    try:
        profile = resolved_profile(plan.loaded, plan.course, start or None)
        if wires:
            check_emulators(profile)
        check_failures(profile, [parse_failure(text) for text in failures], wires=wires)
    except FailureError as error:
        raise SetupError(f"--fail: {error}") from error
    except UserError as error:
        raise SetupError(str(error)) from error
    return profile
