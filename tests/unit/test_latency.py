"""Added latency of a simulation: its text, its keys, and what the world delays by it."""

from pathlib import Path

import pytest

from drivers.msglink.codec import encode
from sim_backend.world import OPERATOR_PORT, TRUTH_PORT, World, port_names
from vehicled.cli import main
from vehicled.core.errors import SetupError
from vehicled.core.messages import ActuatorCommand
from vehicled.paths.catalog import load_course
from vehicled.profile import ProfileError, load, load_profile
from vehicled.profile.latency import latency_overrides
from vehicled.run.plan import Plan
from vehicled.run.spec import RunSpec

MS = 1_000_000
START = 1_000_000_000
UNTIL = START + 2_000 * MS


def world(latency: str, *, seed: int = 3, wires: bool = False) -> tuple[World, list[str]]:
    profile = load_profile("art", latency_overrides(latency))
    return World(profile, load_course("circle_r5_ccw"), seed, START, wires=wires), port_names(
        profile
    )


def arrivals(latency: str, *, seed: int = 3, wires: bool = False) -> dict[str, list[int]]:
    """Arrival times by port, of a daemon that sends nothing."""
    made, names = world(latency, seed=seed, wires=wires)
    found: dict[str, list[int]] = {}
    for to_ns in range(START, UNTIL, 7 * MS):
        for t_ns, port, _ in made.advance(to_ns):
            assert t_ns <= to_ns
            found.setdefault(names[port], []).append(t_ns)
    return found


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("", []),
        ("20ms", ["sim.latency.sensing_ms=20.0", "sim.latency.actuation_ms=20.0"]),
        ("0.02s", ["sim.latency.sensing_ms=20.0", "sim.latency.actuation_ms=20.0"]),
        (
            "5..200ms",
            ["sim.latency.sensing_ms=[5.0, 200.0]", "sim.latency.actuation_ms=[5.0, 200.0]"],
        ),
        ("actuation=5..50ms", ["sim.latency.actuation_ms=[5.0, 50.0]"]),
        (
            "sensing=20ms,actuation=50ms",
            ["sim.latency.sensing_ms=20.0", "sim.latency.actuation_ms=50.0"],
        ),
    ],
)
def test_the_option_stands_for_keys_of_the_profile(text: str, overrides: list[str]) -> None:
    assert latency_overrides(text) == overrides
    model = load_profile("art", overrides).sim.latency
    assert load_profile("art", latency_overrides(str(model))).sim.latency == model


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("20", "the unit is missing"),
        ("5..200", "the unit is missing"),
        ("200..5ms", "write the smaller one first"),
        ("-5ms", "is not a latency"),
        ("nanms", "is not a latency"),
        ("1e3ms", "is not a latency"),
        ("1..2..3ms", "is not a latency"),
        ("9s", "more than 5000 ms"),
        ("steering=5ms", "name sensing or actuation"),
        ("5ms,6ms", "name sensing or actuation"),
        ("sensing=5ms,", "name sensing or actuation"),
        ("sensing=5ms,sensing=6ms", "given twice"),
        ("=5ms", "name sensing or actuation"),
        ("sensing=", "is not a latency"),
    ],
)
def test_wrong_latencies_are_refused_with_the_cure(text: str, why: str) -> None:
    with pytest.raises(SetupError, match=f"--latency: .*{why}"):
        Plan.of(RunSpec(profile="art", latency=text))


@pytest.mark.parametrize("value", ["[200, 5]", "-1", "6000", "[1, 2, 3]", '"5ms"'])
def test_wrong_keys_are_refused_with_the_place(value: str) -> None:
    with pytest.raises(ProfileError, match=r"sim\.latency\.sensing_ms"):
        load("art", [f"sim.latency.sensing_ms={value}"])


def test_the_latency_of_a_simulator_elsewhere_is_given_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["sim", "--connect", f"unix:{tmp_path}/none", "--latency", "5ms"]) == 2
    assert "give --latency to 'vehicled simulator'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["simulator", "--listen", f"unix:{tmp_path}/none", "--latency", "5"])
    assert "the unit is missing" in capsys.readouterr().err


@pytest.mark.parametrize("wires", [False, True])
def test_a_constant_latency_moves_every_arrival_of_the_devices(wires: bool) -> None:
    plain, late = arrivals("", wires=wires), arrivals("sensing=30ms,actuation=9ms", wires=wires)
    for port, times in plain.items():
        added_ns = 0 if port in (OPERATOR_PORT, TRUTH_PORT) else 30 * MS
        reached = UNTIL - 60 * MS
        assert [t for t in late[port] if t < reached] == [
            t + added_ns for t in times if t + added_ns < reached
        ], port
    assert len(plain["imu"]) > 200


def test_a_drawn_latency_stays_within_its_bounds_in_order_and_follows_the_seed() -> None:
    plain, late = arrivals(""), arrivals("sensing=5..40ms")
    for port in ("gnss", "imu"):
        added = [b - a for a, b in zip(plain[port], late[port], strict=False)]
        assert min(added) >= 5 * MS
        assert max(added) <= 40 * MS
        assert max(added) - min(added) > 10 * MS
        assert late[port] == sorted(late[port])
    assert arrivals("sensing=5..40ms") == late
    assert arrivals("sensing=5..40ms", seed=4) != late


def duty_times(latency: str) -> list[int]:
    """Grid points at which the drive follows commands that leave the daemon 0, 40 and 80 ms after
    the start."""
    made, names = world(latency)
    port, changes, before = names.index("drive"), [], 0.0
    frames = [
        (START + 40 * MS * k, encode(ActuatorCommand(0, 0, 0.2 * (k + 1), 0.0, 0.0, 0.0)))
        for k in range(3)
    ]
    for to_ns in range(START, START + 400 * MS, MS):
        while frames and frames[0][0] <= to_ns:
            made.on_frame(port, *frames.pop(0))
        made.advance(to_ns)
        commanded = made.actuators._drive_commanded
        if commanded != before:
            changes.append(to_ns)
            before = commanded
    return changes


def test_commands_act_later_by_the_latency_of_the_actuation_only() -> None:
    plain = duty_times("")
    assert len(plain) >= 3
    assert duty_times("sensing=200ms") == plain
    assert duty_times("actuation=25ms")[:3] == [t + 25 * MS for t in plain[:3]]
    drawn = duty_times("actuation=5..90ms")
    assert drawn != plain
    assert drawn == duty_times("actuation=5..90ms")


@pytest.mark.parametrize("wires", [False, True])
def test_a_drawn_latency_keeps_the_order_of_the_bytes(wires: bool) -> None:
    def received(latency: str) -> bytes:
        made, names = world(latency, wires=wires)
        return b"".join(data for _, port, data in made.advance(UNTIL) if names[port] == "imu")

    plain, late = received(""), received("sensing=5..200ms")
    assert len(late) > len(plain) // 2
    assert plain.startswith(late)
