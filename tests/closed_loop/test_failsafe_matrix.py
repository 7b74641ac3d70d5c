"""Every row of the failsafe matrix, injected once on each link in lockstep, and the document that
is made of the matrix."""

import ast
import json
from collections.abc import Callable
from math import isfinite
from pathlib import Path

import pytest
from msgspec.structs import replace

import vehicled.safety
from tests.closed_loop.conftest import ROOT
from tests.closed_loop.failure_bench import will_fail
from tests.forked import branch
from tests.grid import sampled
from vehicled.cli import main
from vehicled.core.journal import NullSink
from vehicled.core.messages import Mode
from vehicled.offline.failsafe import command
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.offline.failsafe.document import markdown
from vehicled.offline.failsafe.injections import BOTH, INJECTIONS, Injection
from vehicled.offline.failsafe.report import TrialResult, again, lines
from vehicled.offline.failsafe.stage import InjectionScene
from vehicled.offline.failsafe.trial import BEGIN_S, TrialDrive, failures_of, injection_s, run_trial
from vehicled.offline.failsafe.wall import WALL
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile
from vehicled.safety.matrix import CAPABILITIES, MATRIX, RULES, substitutes

pytestmark = pytest.mark.xdist_group("matrix")  # the way to the injections is driven once


def measured(injection: Injection, link: str, seed: int) -> TrialResult:
    """A trial that went well."""
    return TrialResult(
        row=injection.row, code=injection.code, how=injection.how, simulated=False,
        clock="lockstep", link=link, profile="art", seed=seed, problem="", react_ms=1.0,
        limit_ms=10.0, stop_m=float("nan"), reported=(),
    )  # fmt: skip


FIRST = {injection.row: injection for injection in reversed(INJECTIONS)}
FIRST_OF_RULE = {(injection.row, injection.code): injection for injection in reversed(INJECTIONS)}
CASES = [
    (injection, link)
    for injection in INJECTIONS
    for link in injection.links
    # Every rule on messages; on wires every row, and what is there alone. The command tries every
    # rule on both.
    if link == "messages" or "messages" not in injection.links or FIRST[injection.row] is injection
]


def in_suite(case: tuple[Injection, str]) -> bool:
    """Keep one injection of every rule, on messages where it can; and every fourth row on wires,
    too."""
    injection, link = case
    if link == "messages" or "messages" not in injection.links:
        return FIRST_OF_RULE[injection.row, injection.code] is injection
    return injection.row % 4 == 0


SOON_S = 1.0
"""Driving time before the injections of this test, s."""


def under_way(
    profile: str, overrides: tuple[str, ...], scene: InjectionScene, link: str, course: str
) -> TrialDrive:
    """A drive shortly before any injection."""
    drive = TrialDrive(
        load_profile(profile, overrides), load_course(course), scene, link, (), seed=0
    )
    drive.until(BEGIN_S + SOON_S - 0.2)
    return drive


@pytest.mark.parametrize(
    ("injection", "link"),
    sampled(CASES, in_suite),
    ids=[f"{injection.key} {injection.how[:24]} {link}" for injection, link in CASES],
)
def test_a_row_is_detected_by_its_rule_and_answered_in_time(
    injection: Injection, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command drives for longer before the injection. A second is enough to have its speed, but
    # not for the course over ground: it says where the vehicle heads only after some metres.
    if injection.code != "gyro_against_course":
        monkeypatch.setattr("vehicled.offline.failsafe.trial.DRIVE_S", SOON_S)
    at_s = injection_s(injection, link, seed=0)

    def go_on(drive: TrialDrive) -> TrialResult:
        for failure in failures_of(injection, at_s):
            will_fail(drive.stage.pair, drive.stage.profile, failure, seed=0)
        return drive.inject(injection, at_s)

    shared = injection.profile, injection.overrides, injection.scene, link, injection.course
    trial = (
        run_trial(injection, link, seed=0)
        if injection.prepare is not None
        else branch(under_way, shared, go_on)
    )
    assert trial.problem == "", trial
    assert isfinite(trial.react_ms)
    assert trial.react_ms <= trial.limit_ms


def test_no_row_and_no_rule_is_left_out() -> None:
    for link in BOTH:
        assert {each.row for each in INJECTIONS if link in each.links} == {
            row.number for row in MATRIX
        }
    assert {each.code for each in INJECTIONS} >= {rule.code for rule in RULES}
    assert {each.row for each in WALL} == {1, 6, 17, *range(24, 30)}


def test_the_command_tries_every_row_on_both_links_and_skips_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def one(job: tuple[int, str, int]) -> TrialResult:
        index, link, seed = job
        tried.append((INJECTIONS[index].row, INJECTIONS[index].code, link))
        return measured(INJECTIONS[index], link, seed)

    class Here:
        def __init__(self, _: int) -> None:
            pass

        def __enter__(self) -> "Here":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def map(
            self, run: Callable[..., TrialResult], jobs: list[tuple[int, str, int]], chunksize: int
        ) -> list[TrialResult]:
            return [one(job) for job in jobs]

    monkeypatch.setattr(command, "ProcessPoolExecutor", Here)
    assert main(["failsafe", "test", "--clock", "lockstep", "--n", "1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    for link in BOTH:
        assert {row for row, _, there in tried if there == link} == {row.number for row in MATRIX}
        assert {line["row"] for line in said if line["link"] == link} == {
            row.number for row in MATRIX
        }
    assert {code for _, code, _ in tried} >= {rule.code for rule in RULES}


@pytest.mark.parametrize("link", BOTH)
def test_a_simulated_drive_runs_by_every_rule_and_every_check(link: str) -> None:
    """The safety layer has no switch for simulation, and the daemon of a simulation has all of it.
    The bodies of mixed reality only add obstacles, in a module of their own."""
    profile = load_profile("art_vesc")
    pair = WrappedPair(profile, load_course("circle_r5_ccw"), (), NullSink(), 0, link=link)
    supervisor = pair.machine.supervisor
    assert supervisor._rules == RULES
    supervisor._arrange(profile.limits)
    for mode in Mode:
        limits = *supervisor._upper[mode], *supervisor._bounds[mode]
        tested = {code for code, *_ in (*supervisor._flags[mode], *limits)}
        tested |= {rule.code for rule in supervisor._moving[mode]}
        assert tested == {rule.code for rule in RULES if mode in rule.modes}
    assert all(rule.modes for rule in RULES)
    package = Path(vehicled.safety.__file__).parent
    words = {
        word
        for module in package.rglob("*.py")
        if module.name != "mixed_reality.py"
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        for word in (getattr(node, name, None) for name in ("id", "attr", "arg", "module"))
        if isinstance(word, str)
    }
    assert not {
        word
        for word in words - {"VirtualScan", "VirtualWorld"}
        if "simul" in word.lower() or "virtual" in word.lower() or "sim_backend" in word
    }
    assert {"now_ns", "missing"} <= words, "it looks at something"


def test_the_document_is_the_matrix() -> None:
    assert (ROOT / "docs" / "failsafe.md").read_text() == markdown()


def test_a_daemon_without_its_rule_fails_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    import vehicled.daemon.app
    from vehicled.safety.supervisor import Supervisor

    monkeypatch.setattr(
        vehicled.daemon.app,
        "Supervisor",
        lambda: Supervisor([rule for rule in RULES if rule.code != "gnss_silent"]),
    )
    injection = next(each for each in INJECTIONS if each.code == "gnss_silent")
    trial = run_trial(injection, "messages", seed=0)
    assert "not detected by gnss_silent" in trial.problem


def test_the_same_seed_gives_the_same_trial() -> None:
    injection = next(each for each in INJECTIONS if each.code == "imu_silent")
    first, again, other = (run_trial(injection, "messages", seed) for seed in (3, 3, 4))
    assert first == again
    assert first.react_ms != other.react_ms


def test_a_missing_actuator_ability_is_replaced_and_reported() -> None:
    assert {name for row in MATRIX for name in row.substitute} == set(CAPABILITIES)
    assert {row.number for row in MATRIX if "telemetry" in row.substitute} == {13, 14, 16, 17, 18}
    assert substitutes(frozenset()) == ()
    assert len(substitutes(frozenset(CAPABILITIES))) == sum(len(row.substitute) for row in MATRIX)


def test_trials_are_put_together_by_injection_and_link() -> None:
    injection = next(each for each in INJECTIONS if each.row == 8)

    def trial(seed: int, link: str, react_ms: float, problem: str = "") -> TrialResult:
        return replace(measured(injection, link, seed), react_ms=react_ms, problem=problem)

    first, second = lines(
        [
            trial(1, "wires", 3.0),
            trial(2, "wires", 5.0, "late"),
            trial(3, "wires", 4.0),
            trial(1, "messages", 1.0),
        ]
    )
    assert (first.n, first.passed, first.problems) == (3, 2, ["seed 2: late"])
    assert (
        again(first, first.problems[0])
        == "vehicled failsafe test --row 8 --clock lockstep --link wires --seed 2 --n 1"
    )
    assert (first.react_min_ms, first.react_p50_ms, first.react_max_ms) == (3.0, 4.0, 5.0)
    assert (second.link, second.n, second.stop_max_m) == ("messages", 1, None)


def test_the_command_reports_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "failsafe",
                "test",
                "--row",
                "4",
                "--clock",
                "lockstep",
                "--n",
                "2",
                "--link",
                "messages",
                "--json",
            ]
        )
        == 0
    )
    lines = json.loads(capsys.readouterr().out)
    assert {each["code"] for each in lines} == {"emergency_stop", "rc_killed"}
    (line,) = (each for each in lines if each["code"] == "emergency_stop")
    assert (line["row"], line["n"], line["passed"]) == (4, 2, 2)
    assert 0.0 <= line["react_min_ms"] <= line["react_max_ms"] <= 50.0


def test_a_row_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["failsafe", "test", "--row", "99"]) == 2
    assert "no row 99" in capsys.readouterr().err
