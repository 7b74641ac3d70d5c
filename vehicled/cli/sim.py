"""Commands ``vehicled sim | simulator``."""

import sys
from argparse import Namespace
from contextlib import ExitStack
from math import isfinite
from pathlib import Path

from vehicled.app import SetupError
from vehicled.judge import TAPS as JUDGE_TAPS
from vehicled.judge import Judge
from vehicled.machine import Machine
from vehicled.messages import Event, Fault, Identification
from vehicled.output import check_plot_file
from vehicled.run.findings import print_warnings
from vehicled.run.injected import InjectedFailures, announce
from vehicled.run.live_view import check_view
from vehicled.run.manoeuvre import TAPS as MANOEUVRE_TAPS
from vehicled.run.manoeuvre import ManoeuvreJudge
from vehicled.run.plan import Plan
from vehicled.run.result import Learnt, Result, exit_status, figures_of, health_of
from vehicled.run.session import Drive, Tap, drive
from vehicled.runtime.connection import connect
from vehicled.runtime.ending import START_PATIENCE_NS
from vehicled.runtime.events import EventLog
from vehicled.runtime.simulator import SimulatorProcess
from vehicled.terminal import Progress


def run(arguments: Namespace) -> int:
    """Drive a course in simulation and print the result."""
    plan = Plan.of(
        arguments,
        clock=arguments.clock,
        link=arguments.link,
        seed=arguments.seed,
        backend=arguments.async_backend,
        paced=arguments.clock == "wall" and not arguments.strict_clock,
    )
    print_warnings(plan.findings)
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    if not arguments.connect:
        _check_simulated(plan, arguments.fail)
    if arguments.by_hand and arguments.clock != "wall":
        raise SetupError("manual driving (--by-hand) needs --clock wall")
    if arguments.by_hand and arguments.start:
        raise SetupError("--start cannot be combined with --by-hand: leave out one of them")
    if arguments.view is not None and arguments.clock != "wall":
        raise SetupError("--view needs --clock wall: a lockstep drive ends before a page has loaded")
    if arguments.view is not None:
        check_view(plan.loaded.profile.view, arguments.view)
    if not arguments.quiet and not arguments.by_hand:
        for note in plan.course_notes:
            print(f"note: {note}", file=sys.stderr)
    judge = Judge(plan.course, keep_trace=bool(arguments.plot))
    manoeuvre = ManoeuvreJudge(plan.course, plan.loaded.profile.vehicle, judge)
    learnt = Learnt()
    progress = Progress()
    taps: list[Tap] = [
        (JUDGE_TAPS, judge.record),
        (MANOEUVRE_TAPS, manoeuvre.record),
        ((Identification,), learnt.record),
        ((Fault, Event), EventLog(progress.above(), json=False, quiet=True, ready=plan.clock == "wall").record),
        ((Event,), lambda message, log_time_ns: announce(progress.above(), message)),
    ]
    length_m = plan.course.length_m
    started_ns = 0

    def show(machine: Machine, now_ns: int) -> None:
        nonlocal started_ns
        started_ns = started_ns or now_ns
        if progress.due():
            estimate = machine.estimate
            known = estimate is not None and isfinite(estimate.speed_mps)
            speed = f"{estimate.speed_mps:4.2f} m/s" if estimate is not None and known else "no estimate yet"
            share = min(1.0, judge.driven_m / length_m)
            bar = "#" * round(24 * share)
            time_s = (now_ns - started_ns) * 1e-9
            text = (
                f"[{bar:<24}] {judge.driven_m:6.1f} of {length_m:.1f} m  {speed}  t = {time_s:6.1f} s  {machine.mode.name.lower()}"
            )
            progress.show(text)

    simulator_pid: int | None = None
    with ExitStack() as stack:
        if arguments.connect and arguments.fail:
            raise SetupError("with --connect, give --fail to 'vehicled simulator' on the other computer")
        if arguments.connect and arguments.start:
            raise SetupError("with --connect, give --start to 'vehicled simulator'")
        if arguments.connect and arguments.by_hand:
            raise SetupError("with --connect, give --by-hand to 'vehicled simulator'; see also vehicled run")
        if arguments.connect:
            sock = stack.enter_context(connect(arguments.connect))
        else:
            simulator = SimulatorProcess(
                plan.loaded.path,
                plan.overrides,
                arguments.course or plan.loaded.profile.course,
                plan.seed,
                plan.link,
                arguments.fail,
                scenario=not arguments.by_hand,
                start=arguments.start or "",
            )
            sock = stack.enter_context(simulator).sock
            simulator_pid = simulator.pid
        done = drive(
            plan,
            sock,
            until_s=arguments.duration,
            # A person may take any time and drive repeatedly.
            patience_s=None if arguments.by_hand else START_PATIENCE_NS * 1e-9,
            stays=arguments.by_hand,
            ends_disarmed=arguments.by_hand,
            log_folder=None if arguments.no_log else (arguments.log or ""),
            taps=taps,
            progress=None if arguments.quiet else show,
            door="any",
            view=arguments.view,
            simulator_pid=simulator_pid,
            injected=InjectedFailures(arguments.fail) if arguments.fail else None,
            judged=None if plan.loaded.profile.controller.name == "programme" else lambda: manoeuvre.verdict,
        )
        progress.close()
    result = _result(plan, done, judge, manoeuvre, learnt)
    if arguments.json:
        print(result.to_json())
    elif arguments.by_hand:
        print(f"{result.why}; log: {result.log_problem or result.log or 'none written'}")
        if result.log:
            print(f"to save the path as a course: vehicled record-path {result.log}")
    else:
        result.show()
    if arguments.plot:
        from vehicled.analysis.lap_plot import plot_drive

        plot_drive(plan.course, judge.trace or [], result, arguments.plot)
        if not arguments.json:
            print(f"plot: {arguments.plot}")
    return int(done.ending.outcome) if arguments.by_hand else exit_status(done.ending, result.finished, result.markings)


def simulator(arguments: Namespace) -> int:
    """Run the simulator in this process."""
    from sim_backend.__main__ import main

    overrides = [word for override in arguments.set for word in ("--set", override)]
    course = ["--course", arguments.course] if arguments.course else []
    failures = [word for failure in arguments.fail for word in ("--fail", failure)]
    place = ["--ptys", arguments.ptys] if arguments.ptys else ["--listen", arguments.listen]
    options = ["--seed", str(arguments.seed), "--link", arguments.link, *place, *(["--by-hand"] if arguments.by_hand else [])]
    options += ["--start", arguments.start] if arguments.start else []
    return main(["--profile", arguments.profile, *course, *options, *overrides, *failures])


def _result(plan: Plan, done: Drive, judge: Judge, manoeuvre: ManoeuvreJudge, learnt: Learnt) -> Result:
    profile = plan.loaded.profile
    machine = done.machine
    controller = profile.controller
    programme = controller.selected.name or "unnamed" if controller.name == "programme" else ""
    finished = machine.course_driven and (judge.finished or bool(programme))
    # The supervisor does not know about programmes.
    why = done.ending.why.replace("the course is finished", "the programme is finished") if programme else done.ending.why
    if programme and manoeuvre.gave_up:
        selected = controller.selected
        why = f"the entry speed of {selected.entry_speed_mps:g} m/s was not reached in {selected.entry_s:g} s: choose another"
    if machine.course_driven and not finished:
        why = f"the estimate reached the end of the course, but the vehicle only {judge.driven_m:.1f} m of it"
    return Result(
        finished=finished,
        why=why,
        profile=profile.name,
        course=plan.course.name,
        controller=profile.controller.name,
        estimator=profile.estimator.name,
        clock=plan.clock,
        link=plan.link,
        seed=done.seed,
        driven_m=judge.driven_m,
        course_m=plan.course.length_m,
        driving_s=judge.driving_s,
        tasks=health_of(machine.executive),
        run_s=(done.ending.now_ns - done.started_ns) * 1e-9,
        wall_s=done.wall_s,
        digest=machine.digest.hexdigest(),
        frames=machine.digest.frames,
        log=done.log.path if done.log is not None else "",
        log_problem=done.log_problem,
        markings="" if programme else manoeuvre.verdict,
        section=None if programme else manoeuvre.section,
        programme=programme,
        motion=manoeuvre.motion if programme else None,
        identified=learnt.values,
        course_notes=plan.course_notes,
        stalls=done.stalls,
        **figures_of(judge),
    )


def _check_simulated(plan: Plan, failures: list[str]) -> None:
    """Check the set-up before a simulator is started that would refuse it. Raises :class:`SetupError`."""
    from sim_backend.emulators.failures import FailureError, parse_failure
    from sim_backend.emulators.registry import check_emulators, check_failures
    from sim_backend.truth import SIM_PROFILE_ERRORS, resolved_profile

    wires = plan.link == "wires"
    try:
        profile = resolved_profile(plan.loaded, plan.course)
        if wires:
            check_emulators(profile)
        check_failures(profile, [parse_failure(text) for text in failures], wires=wires)
    except FailureError as error:
        raise SetupError(f"--fail: {error}") from error
    except SIM_PROFILE_ERRORS as error:
        raise SetupError(str(error)) from error
