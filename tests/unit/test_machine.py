"""The machine without any operating system: two pure sides joined in the test, as the simulator
link would join them."""

import json
from binascii import crc32
from collections.abc import Sequence

import pytest

from drivers.msglink.codec import MsglinkDecoder, encode
from drivers.msglink.device import MsgLinkDevice, MsgLinkParams
from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.control.interface import Controller
from vehicled.core.executive import DeclaredStopwatch
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    Corrections,
    Direction,
    EstimatorStatus,
    Event,
    GnssFix,
    GroundTruth,
    ImuSample,
    Message,
    Mode,
    ModeChange,
    OperatorAction,
    OperatorCommand,
    PortState,
    Reaction,
    ReferenceState,
    StateEstimate,
    TaskTick,
    WheelSpeed,
    WireChunk,
)
from vehicled.core.ports import NEVER_NS, Send
from vehicled.core.tasks import PIPELINE
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.daemon.app import COMMAND_LIFETIME_NS
from vehicled.daemon.machine import Machine, Outgoing, RateRow
from vehicled.daemon.pipeline import STOP_TIMEOUT_NS, Pipeline
from vehicled.daemon.reference import ReferenceFrame
from vehicled.paths.datum import LOT_17
from vehicled.runtime.ending import EndConditions
from vehicled.safety.gate import Gate
from vehicled.safety.monitors.sources import MonitoredSource
from vehicled.safety.supervisor import Supervisor

MS = 1_000_000
START = 1_000 * MS
COST = 100_000
RATES_HZ = {"ingestion": 400.0, "fusion": 200.0}
VEHICLE = make_vehicle(
    track_m=0.33,
    length_m=0.7,
    width_m=0.4,
    mass_kg=7.0,
    steering=make_steering(gain_rad=0.3, max_wheel_rad=0.3, rate_radps=1.0, delay_s=0.1),
    drive=make_drive(no_load_speed_radps=161.0, wheel_radius_m=0.0845),
)
LIMITS = Limits(max_speed_mps=3.0, max_lateral_acceleration_mps2=2.5, corridor_m=2.0)


class Recorder:
    """A log in memory."""

    def __init__(self) -> None:
        self.records: list[tuple[int, Message]] = []

    def record(self, message: Message, log_time_ns: int) -> None:
        self.records.append((log_time_ns, message))

    def of(self, kind: type[Message]) -> list[Message]:
        return [message for _, message in self.records if type(message) is kind]


class Estimator:
    """Believes it stands at the origin, and remembers what it was given."""

    def __init__(self) -> None:
        self.seen: list[Message] = []
        self.commands: list[ActuatorCommand] = []
        self.speed_mps = 0.0

    def observe(self, message: Message) -> None:
        self.seen.append(message)

    def command(self, command: ActuatorCommand) -> None:
        self.commands.append(command)

    def adapt(self, vehicle: Vehicle) -> None:
        self.vehicle = vehicle

    def step(self, now_ns: int) -> StateEstimate:
        newest = max((m.t_ns for m in self.seen), default=0)  # type: ignore[attr-defined]
        return StateEstimate(
            now_ns, newest, 0.0, 0.0, 0.0, self.speed_mps, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING
        )


class SteadyController(Controller):
    """Steers a little to the left."""

    finished = False
    resets = 0

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        self.resets += 1

    def adapt(self, vehicle: Vehicle) -> None:
        self.vehicle = vehicle

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        return ControlCommand(
            now_ns, estimate.newest_input_ns, 0.06, 0.4, 0.0, 1.0, 0.0, 0.1, 0.0, 0.0
        )


class Rig:
    """A machine with its log, driven by hand."""

    def __init__(self, *, simulated: bool = True) -> None:
        self.log = Recorder()
        self.estimator, self.controller = Estimator(), SteadyController()
        accepts: dict[str, Sequence[type[Message]]] = {
            "gnss": [GnssFix],
            "imu": [ImuSample],
            "drive": [ActuatorCommand],
            "operator": [OperatorCommand],
            "truth": [GroundTruth],
            "ins": [ReferenceState],
        }
        self.machine = Machine(
            devices={
                port: MsgLinkDevice(MsgLinkParams(), types, COMMAND_LIFETIME_NS)
                for port, types in accepts.items()
            },
            actuator="drive",
            pipeline=self.pipeline(
                MonitoredSource(name="imu", message=ImuSample, silence_ns=50 * MS),
                MonitoredSource(name="gnss", message=GnssFix, silence_ns=500 * MS),
            ),
            rates={
                name: RateRow(rate_hz=RATES_HZ.get(name, 100.0), deadline_ns=10 * MS)
                for name in PIPELINE
            },
            stopwatch=DeclaredStopwatch([COST] * len(PIPELINE)),
            sink=self.log,
            virtual=True,
            references={"ins": ReferenceFrame(LOT_17, (0.0, 0.0, 0.0)).truth},
            truth_port="truth",
        )
        self.machine.start(START)
        for port in accepts if simulated else accepts.keys() - {"truth"}:
            self.machine.on_port(port, PortState.OPENED, "test", START)
        self.frames: list[tuple[int, str, bytes]] = []

    def pipeline(self, *sources: MonitoredSource) -> Pipeline:
        return Pipeline(
            sources=sources,
            vehicle=VEHICLE,
            limits=LIMITS,
            estimator=self.estimator,  # type: ignore[arg-type]
            controller=self.controller,
            supervisor=Supervisor(),
            gate=Gate(VEHICLE, LIMITS),
            sink=self.log,
        )

    def run(self, from_ns: int, to_ns: int, *, imu: bool = True, gnss: bool = True) -> None:
        """Run the machine over a stretch of time, with sensors that speak."""
        machine, now = self.machine, from_ns
        while (now := max(machine.next_due_ns(), machine.executive.busy_until_ns)) < to_ns:
            if imu:
                machine.on_rx(
                    "imu", encode(ImuSample(now - MS, 0, (0.0, 0.0, 9.8), (0.0, 0.0, 0.0))), now
                )
            if gnss and now % (100 * MS) == 0:
                for noise_mps in (0.0, 0.01, -0.01):
                    velocity = self.estimator.speed_mps + noise_mps, 0.0, 0.0
                    machine.on_rx(
                        "gnss", encode(GnssFix(now - 60 * MS, 0, 0.7, -1.5, 260.0, velocity)), now
                    )
            machine.on_time(now)
            self.frames += sent(machine.take_tx())

    def drive(self) -> None:
        """Arm and drive, as an operator would by a port."""
        self.run(START, START + 50 * MS)
        for action in (OperatorAction.ARM, OperatorAction.DRIVE):
            self.machine.on_rx(
                "operator", encode(OperatorCommand(0, 0, action, "test")), START + 50 * MS
            )
        self.run(START + 50 * MS, START + 100 * MS)
        assert self.machine.mode is Mode.AUTO
        self.estimator.speed_mps = 1.0


def sent(outgoing: Sequence[Outgoing]) -> list[tuple[int, str, bytes]]:
    return [
        (out.t_ns, out.port, out.action.data) for out in outgoing if isinstance(out.action, Send)
    ]


def commands(frames: list[tuple[int, str, bytes]]) -> list[ActuatorCommand]:
    decoder = MsglinkDecoder()
    return [
        m for _, _, data in frames for m in decoder.feed(data) if isinstance(m, ActuatorCommand)
    ]


def test_one_sample_crosses_the_pipeline_within_one_tick() -> None:
    rig = Rig()
    rig.drive()
    rig.frames.clear()
    sample = ImuSample(START + 99 * MS, 0, (0.0, 0.0, 9.8), (0.0, 0.0, 0.1))
    rig.machine.on_rx("imu", encode(sample), START + 99 * MS + 7)
    rig.machine.on_time(START + 100 * MS)
    assert rig.estimator.seen[-1].t_rx_ns == START + 99 * MS + 7  # type: ignore[attr-defined]
    (outgoing,) = rig.machine.take_tx()
    (command,) = commands(sent([outgoing]))
    assert command.newest_input_ns == sample.t_ns
    assert command.throttle == pytest.approx(0.4)
    assert outgoing.t_ns == START + 100 * MS + 4 * COST, (
        "leaves with the end of the task that made it"
    )
    assert isinstance(outgoing.action, Send)
    assert outgoing.action.deadline_ns == START + 100 * MS + 3 * COST + COMMAND_LIFETIME_NS


def test_a_stop_frame_is_sent_every_tick_even_disarmed() -> None:
    rig = Rig()
    rig.run(START, START + 200 * MS, imu=False, gnss=False)
    stops = commands(rig.frames)
    assert len(stops) == 20
    assert all((c.throttle, c.brake, c.mode) == (0.0, 1.0, Mode.INIT) for c in stops), (
        "nothing has shown that it stands"
    )


def test_values_that_are_not_finite_never_reach_the_estimator() -> None:
    rig = Rig()
    rig.run(START, START + 20 * MS)
    nan = float("nan")
    rig.machine.on_rx(
        "imu", encode(ImuSample(START, 0, (nan, 0.0, 0.0), (0.0, 0.0, 0.0))), START + 21 * MS
    )
    rig.machine.on_rx("gnss", encode(GnssFix(START, 0, nan, 0.0, 0.0)), START + 21 * MS)
    rig.machine.on_time(START + 22_500_000)
    assert rig.estimator.seen
    assert all(m.t_rx_ns != START + 21 * MS for m in rig.estimator.seen)  # type: ignore[attr-defined]
    assert rig.machine.pipeline.not_finite == 2


@pytest.mark.parametrize(
    ("dated_ms", "silent"),
    [(10.0, False), (10.1, True), (-2000.0, False), (-2000.1, True), (3e13, True), (0.0, False)],
)
def test_a_source_whose_dates_no_filter_uses_is_silent(dated_ms: float, silent: bool) -> None:
    rig = Rig()
    now_ns = START + 22_500_000
    sources = rig.machine.pipeline.monitors.sources
    rig.machine.pipeline.inbox.put(GnssFix(now_ns + round(dated_ms * MS), START, 0.7, 0.1, 0.0))
    rig.machine.pipeline.ingest(now_ns)
    assert (sources.age_ns(GnssFix, now_ns) == NEVER_NS) is silent
    assert bool(sources.trouble(GnssFix)) is silent


def test_truth_is_logged_and_given_to_no_task() -> None:
    rig = Rig()
    rig.machine.on_rx("truth", encode(GroundTruth(START, 0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0)), START)
    rig.run(START, START + 20 * MS)
    assert rig.log.of(GroundTruth)
    assert not any(isinstance(m, GroundTruth) for m in rig.estimator.seen)


@pytest.mark.parametrize("simulated", [False, True])
def test_a_reference_becomes_the_truth_unless_a_simulator_gives_it(simulated: bool) -> None:
    rig = Rig(simulated=simulated)
    place = LOT_17.to_geodetic(3.0, 4.0, 0.0)
    state = ReferenceState(
        START,
        0,
        *place,
        (0.6, 0.8, 0.0),
        0.0,
        0.0,
        0.5,
        0.1,
        (0.01, 0.02, 0.03),
        (0.1, 0.1, 0.2),
        0.003,
    )
    rig.machine.on_rx("ins", encode(state), START + MS)
    assert len(rig.machine.pipeline.inbox) == 0
    rig.run(START, START + 20 * MS)
    assert [type(m) for m in rig.log.of(ReferenceState)] == [ReferenceState]
    truths = rig.log.of(GroundTruth)
    assert len(truths) == (not simulated)
    if truths:
        (truth,) = truths
        assert isinstance(truth, GroundTruth)
        assert (truth.x_m, truth.y_m) == pytest.approx((3.0, 4.0), abs=1e-6)
        assert (truth.position_sigma_m, truth.yaw_sigma_rad, truth.speed_sigma_mps) == (
            0.02,
            0.003,
            0.1,
        )
    assert not any(isinstance(m, ReferenceState | GroundTruth) for m in rig.estimator.seen)


def test_a_message_on_the_wrong_port_is_refused() -> None:
    rig = Rig()
    rig.machine.on_rx("gnss", encode(OperatorCommand(0, 0, OperatorAction.ARM, "intruder")), START)
    rig.run(START, START + 50 * MS)
    assert rig.machine.mode is Mode.STANDBY
    assert "armed" in rig.machine.why
    assert not rig.log.of(OperatorCommand)


def test_bytes_of_an_unknown_port_are_kept_in_the_log() -> None:
    rig = Rig()
    rig.machine.on_rx("lidar", b"\x00\xff", START)
    assert WireChunk(START, "lidar", Direction.RX, b"\x00\xff", crc32(b"\x00\xff")) in rig.log.of(
        WireChunk
    )


def test_the_journal_holds_every_byte_in_order_and_every_tick() -> None:
    rig = Rig()
    rig.drive()
    logged = [
        m for m in rig.log.of(WireChunk) if isinstance(m, WireChunk) and m.direction is Direction.TX
    ]
    assert [(m.t_ns, m.port, m.data) for m in logged] == rig.frames
    assert len(rig.log.of(TaskTick)) == sum(rig.machine.executive.stats(i).n for i in range(4))
    assert rig.machine.digest.frames == len(rig.frames)


def test_imu_silence_stops_the_vehicle_and_it_does_not_resume() -> None:
    rig = Rig()
    rig.drive()
    rig.run(START + 100 * MS, START + 400 * MS, imu=False)
    assert rig.machine.mode is Mode.STOPPING
    assert "IMU" in rig.machine.why
    rig.run(START + 400 * MS, START + 800 * MS)
    assert rig.machine.mode is Mode.STOPPING
    assert commands(rig.frames)[-1].throttle == 0.0


def test_a_lost_actuator_brakes_and_the_run_says_why() -> None:
    rig = Rig()
    rig.drive()
    rig.machine.on_port("drive", PortState.LOST, "unplugged", START + 100 * MS)
    rig.run(START + 100 * MS, START + 150 * MS)
    assert rig.machine.mode is Mode.STOPPING
    assert "unplugged" in rig.machine.why


def test_brake_now_needs_no_task() -> None:
    rig = Rig()
    rig.drive()
    (command,) = commands(sent(rig.machine.brake_now(START + 101 * MS)))
    assert (command.throttle, command.brake, command.reaction) == (0.0, 1.0, Reaction.BRAKE)


def test_the_run_ends_at_standstill_or_timeout() -> None:
    rig = Rig()
    rig.drive()
    now = START + 100 * MS
    rig.machine.on_message(OperatorCommand(now, now, OperatorAction.STOP, "test"), now)
    rig.run(now, now + 100 * MS)
    assert not rig.machine.over(now + 100 * MS)
    rig.estimator.speed_mps = 0.0
    # The throttle may act for two delays of the drive, 0.2 s, and 0.1 s more.
    rig.run(now + 100 * MS, now + 250 * MS)
    assert not rig.machine.over(now + 250 * MS)
    rig.run(now + 250 * MS, now + 400 * MS)
    assert rig.machine.over(now + 400 * MS)


def test_the_controller_starts_afresh_with_every_drive() -> None:
    rig = Rig()
    rig.drive()
    assert rig.controller.resets == 1


def test_what_the_gate_had_to_cut_is_counted_by_kind_and_reported_when_the_drive_is_over() -> None:
    rig = Rig()
    rig.drive()
    now = START + 100 * MS
    gate = rig.machine.pipeline.gate
    assert gate.clipped_by_kind["jerk"] > 0
    assert not [event for event in rig.log.of(Event) if event.name == "commands_cut"]  # type: ignore[attr-defined]
    rig.machine.on_message(OperatorCommand(now, now, OperatorAction.STOP, "test"), now)
    rig.estimator.speed_mps = 0.0
    rig.run(now, now + 400 * MS)
    (event_at_end,) = [event for event in rig.log.of(Event) if event.name == "commands_cut"]  # type: ignore[attr-defined]
    cut = json.loads(event_at_end.fields)  # type: ignore[attr-defined]
    assert cut == {kind: n for kind, n in gate.clipped_by_kind.items() if n}


class Receiver(MsgLinkDevice):
    """A device that takes corrections, as a GNSS receiver does."""

    consumes: tuple[type[Message], ...] = (Corrections,)

    def __init__(self) -> None:
        super().__init__(MsgLinkParams(), [Corrections], COMMAND_LIFETIME_NS)
        self.taken: list[Message] = []

    def on_command(self, command: Message, now_ns: int) -> None:
        self.taken.append(command)
        super().on_command(command, now_ns)


def test_what_one_device_produces_reaches_the_devices_that_take_it() -> None:
    rig = Rig()
    source = MsgLinkDevice(MsgLinkParams(), [Corrections], COMMAND_LIFETIME_NS)
    receiver = Receiver()
    machine = Machine(
        devices={"ntrip": source, "gnss": receiver, "drive": rig.machine.device("drive")},
        actuator="drive",
        pipeline=rig.pipeline(),
        rates={name: RateRow(rate_hz=100.0, deadline_ns=10 * MS) for name in PIPELINE},
        stopwatch=DeclaredStopwatch([COST] * len(PIPELINE)),
        sink=rig.log,
        virtual=True,
    )
    machine.start(START)
    correction = Corrections(START, 0, "base", b"\xd3\x00\x01x")
    machine.on_rx("ntrip", encode(correction), START)
    machine.on_rx("gnss", encode(correction), START)
    machine.on_time(START)
    assert len(receiver.taken) == 1, "not its own"
    forwarded = [port for _, port, _ in sent(machine.take_tx())]
    assert sorted(forwarded) == ["drive", "gnss"]


def test_a_stop_by_the_operator_is_recorded_and_not_waited_for_without_end() -> None:
    rig = Rig()
    rig.drive()
    now = START + 100 * MS
    rig.machine.on_message(OperatorCommand(now, now, OperatorAction.STOP, "test"), now)
    rig.run(now, now + 50 * MS)
    change = rig.log.of(ModeChange)[-1]
    assert isinstance(change, ModeChange)
    assert (change.before, change.after, change.code, change.origin) == (
        Mode.AUTO,
        Mode.STOPPING,
        "stop_requested",
        "test",
    )
    assert change.reason == "stopped by test"
    # The vehicle does not stand still: its actuator is stuck.
    assert not rig.machine.over(now + 50 * MS)
    assert rig.machine.over(now + 50 * MS + STOP_TIMEOUT_NS)


def test_the_brake_goes_out_whoever_raises_about_it() -> None:
    rig = Rig()
    rig.drive()

    def broken(command: ActuatorCommand) -> None:
        raise ValueError("no")

    rig.estimator.command = broken  # type: ignore[method-assign]
    rig.frames.clear()
    rig.run(START + 100 * MS, START + 115 * MS)
    assert [(c.throttle, c.brake) for c in commands(rig.frames)] == [(0.0, 1.0)] * 2
    assert [
        (c.throttle, c.brake) for c in commands(sent(rig.machine.brake_now(START + 120 * MS)))
    ] == [(0.0, 1.0)]


@pytest.mark.parametrize("action", [OperatorAction.STOP, OperatorAction.EMERGENCY_STOP])
def test_a_run_that_is_ended_waits_for_the_vehicle_whatever_stopped_it(
    action: OperatorAction,
) -> None:
    rig = Rig()
    rig.drive()
    now = START + 100 * MS
    run = EndConditions(rig.machine, None, until_ns=10**18, stays=True)
    rig.machine.on_message(OperatorCommand(now, now, action, "test"), now)
    run.interrupt("SIGTERM")
    assert run.turn(now) is None
    rig.run(now, now + 50 * MS)
    assert run.turn(now + 50 * MS) is None
    late = run.turn(now + 50 * MS + STOP_TIMEOUT_NS)
    assert late is not None
    assert late.why.endswith("the vehicle may roll")
    rig.estimator.speed_mps = 0.0
    rig.run(now + 50 * MS, now + 400 * MS)
    ending = run.turn(now + 400 * MS)
    assert ending is not None
    assert ending.why.endswith("the vehicle stands")


@pytest.mark.parametrize(
    ("status", "expected_mps"),
    [
        (EstimatorStatus.UNINITIALISED, -0.7),
        (EstimatorStatus.ALIGNING, 0.3),
        (EstimatorStatus.RUNNING, 0.3),
    ],
)
def test_rules_see_the_measured_speed_until_the_estimator_has_started(
    status: EstimatorStatus, expected_mps: float
) -> None:
    pipeline = Rig().pipeline()
    pipeline.estimate.put(StateEstimate(0, 0, 0.0, 0.0, 0.0, 0.3, 0.0, (1e-4,) * 16, status), 0)
    pipeline.monitors.on_message(WheelSpeed(0, 0, -0.7, 0.1), 0)
    assert pipeline._rule_inputs(0, "").speed_mps == expected_mps
