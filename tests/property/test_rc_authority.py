"""An RC operator outranks every other source, in every mode, whatever the others send and in
whatever order."""

from math import inf, nan

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.rc_bench import HIGH, LOW, MIDDLE, Bench, channels
from vehicled.core.messages import Mode, OperatorAction, RcChannels, TeleopCommand
from vehicled.safety.modes import DRIVING, MOVING
from vehicled.safety.monitors.rc import FRAMES

OTHERS = st.one_of(
    st.tuples(
        st.just("ask"),
        st.sampled_from(OperatorAction),
        st.sampled_from(["page", "pad", "mavlink", "ros2", "rc", ""]),
    ),
    st.tuples(
        st.just("stick"),
        st.floats(-1.0, 1.0) | st.just(nan),
        st.sampled_from(["page", "pad", "mavlink", "rc"]),
    ),
    st.tuples(st.just("setpoint")),
    st.tuples(st.just("unplugged"), st.sampled_from(["pad", "rc"])),
    st.tuples(st.just("wait"), st.integers(1, 30)),
    st.tuples(st.just("course ends")),
)
HANDS = st.one_of(
    st.tuples(st.just("mode"), st.sampled_from([LOW, MIDDLE, HIGH])),
    st.tuples(st.just("throttle"), st.floats(-1.0, 1.0)),
    st.tuples(st.just("steering"), st.floats(-1.0, 1.0)),
    st.tuples(st.just("arm"), st.sampled_from([LOW, HIGH])),
    st.tuples(st.just("kill"), st.sampled_from([LOW, LOW, HIGH])),
    st.tuples(st.just("on"), st.booleans()),
    st.tuples(st.just("frame"), st.sampled_from([{}, {"failsafe": True}, {"frame_lost": True}])),
)
STOPS = (OperatorAction.STOP, OperatorAction.DISARM, OperatorAction.EMERGENCY_STOP)


def do(bench: Bench, what: tuple[object, ...]) -> None:
    match what:
        case ("ask", OperatorAction() as action, str() as origin):
            bench.ask(action, origin=origin)
        case ("stick", float() as throttle, str() as origin):
            bench.stick(throttle, origin=origin)
        case ("setpoint",):
            bench.setpoint()
        case ("unplugged", str() as origin):
            gone = TeleopCommand(
                bench.now_ns, bench.now_ns, 0.0, 0.0, 1.0, False, origin, unplugged=True
            )
            bench.monitors.on_message(gone, bench.now_ns)
        case ("wait", int() as ticks):
            bench.step(ticks)
        case ("on", bool() as on):
            bench.on = on
        case ("frame", dict() as fields):
            bench.frame = fields
        case (str() as name, float() as value):
            bench.hands[name] = value


def drives(bench: Bench) -> bool:
    """True while the operator's switch and a living link give him control."""
    rc = bench.monitors.rc
    return rc.holds(bench.now_ns) and not rc.killed


@given(
    st.sampled_from([Mode.AUTO, Mode.TELEOP, Mode.OFFBOARD, Mode.ALIGN, None]),
    st.lists(OTHERS | HANDS, max_size=40),
)
@examples(100)
def test_while_he_has_control_nobody_else_drives(
    begin: Mode | None, events: list[tuple[object, ...]]
) -> None:
    bench = Bench()
    bench.switch(FRAMES + 2)
    if begin is not None:
        bench.drive(begin)
    for event in events:
        do(bench, event)
        bench.step()
        rc, teleop = bench.monitors.rc, bench.monitors.teleop
        if rc.killed:
            assert bench.mode not in MOVING
            assert bench.mode is not Mode.ARMED
        if not drives(bench):
            continue
        # Whatever drives now is the operator, with the stick of his own newest frame.
        if bench.mode in DRIVING:
            assert (bench.mode, bench.supervisor.driver, teleop.by_rc) == (Mode.TELEOP, "rc", True)
            hands = rc._switches
            assert hands is not None
            assert teleop.command is not None
            assert (teleop.command.throttle, teleop.command.steering) == (
                hands.throttle,
                hands.steering,
            )
        for action in (
            OperatorAction.DRIVE,
            OperatorAction.OFFBOARD,
            OperatorAction.TELEOP,
            OperatorAction.ALIGN,
        ):
            assert bench.supervisor.refusal(action)


@given(
    st.sampled_from([Mode.AUTO, Mode.TELEOP, Mode.OFFBOARD, Mode.ALIGN]),
    st.lists(OTHERS, max_size=25),
    st.floats(-1.0, 1.0),
)
@examples(60)
def test_he_takes_over_in_the_tick_of_his_frame(
    mode: Mode, before: list[tuple[object, ...]], throttle: float
) -> None:
    bench = Bench()
    bench.switch(FRAMES + 2)
    bench.drive(mode)
    for event in before:
        do(bench, event)
        bench.step()
    was = bench.mode
    bench.switch(1, mode=HIGH, throttle=throttle)
    if was in DRIVING:
        assert (bench.mode, bench.supervisor.driver) == (Mode.TELEOP, "rc")
    elif was is Mode.STOPPING:
        assert bench.mode in (Mode.TELEOP, Mode.STANDBY)


@given(
    st.sampled_from(STOPS),
    st.sampled_from(["page", "rc", "mavlink"]),
    st.lists(OTHERS, max_size=15),
)
@examples(40)
def test_a_stop_of_anybody_holds_until_he_moves_his_switch(
    stop: OperatorAction, origin: str, after: list[tuple[object, ...]]
) -> None:
    bench = Bench()
    bench.switch(FRAMES + 2)
    bench.drive(Mode.AUTO)
    bench.switch(3, mode=HIGH, throttle=0.4)
    assert bench.mode is Mode.TELEOP
    bench.ask(stop, origin=origin)
    for event in after:
        if event[:2] == ("ask", OperatorAction.ARM):
            continue
        do(bench, event)
        bench.step()
        assert bench.mode not in DRIVING


NUMBERS = st.one_of(
    st.floats(),
    st.sampled_from([nan, inf, -inf, 0.0, 172.0, 992.0, 1811.0, 1e308, -1e308]),
    st.floats(150.0, 1850.0),
)


@given(
    st.lists(
        st.tuples(st.lists(NUMBERS, max_size=18), st.booleans(), st.booleans(), st.floats()),
        max_size=30,
    )
)
@examples(60)
def test_no_frame_breaks_it_and_only_possible_ones_drive(
    frames: list[tuple[list[float], bool, bool, float]],
) -> None:
    bench = Bench()
    bench.switch(FRAMES + 2, mode=HIGH)
    bench.on = False
    for values, failsafe, lost, quality in frames:
        before = bench.monitors.rc.age_ns(bench.now_ns)
        frame = RcChannels(bench.now_ns, bench.now_ns, tuple(values), failsafe, lost, quality)
        reading = bench.monitors.rc.on_message(frame, bench.now_ns)
        if reading is not None:
            bench.monitors.teleop.on_message(reading, bench.now_ns, rc=True)
            assert abs(reading.throttle) <= 1.0
            assert abs(reading.steering) <= 1.0
            assert not failsafe
            assert not lost
        elif failsafe or lost:
            assert bench.monitors.rc.age_ns(bench.now_ns) >= before
        bench.step()
        assert bench.monitors.rc.status(bench.now_ns) is not None


@given(st.binary(max_size=60), st.integers(0, 15))
@examples(30)
def test_frames_in_the_future_keep_no_handset_alive(noise: bytes, ticks: int) -> None:
    bench = Bench()
    bench.switch(FRAMES + 2, mode=HIGH)
    bench.on = False
    far = RcChannels(10**18, 10**18, channels(mode=HIGH))
    bench.monitors.rc.on_message(far, bench.now_ns)
    bench.step(102)
    assert not bench.monitors.rc.alive(bench.now_ns)
