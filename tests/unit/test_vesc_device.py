"""The VESC devices against a controller of the test: who may drive when, what is reported, what is
on the wire."""

import json
from collections.abc import Sequence
from math import isnan

import pytest
from msgspec.structs import replace

from drivers.vesc.appconf import SIGNATURES, AppConf, RawAppConf, encode_appconf
from drivers.vesc.canbus import (
    EVERYONE,
    Can,
    CanSetpoint,
    Fill,
    NotifyBoot,
    Ping,
    Pong,
    ProcessBuffer,
    Reassembler,
    Short,
    Status,
    Status4,
    Status5,
    decode_can,
    encode_can,
    split_comm,
)
from drivers.vesc.comm import Comm, FwVersion, Request, SetCommand, decode_comm, encode_comm
from drivers.vesc.device import VescCan, VescUart
from drivers.vesc.params import CanParams, UartParams
from drivers.vesc.uart import UartDecoder, frame_uart
from drivers.vesc.values import KILL_SWITCH, TIMED_OUT, Values, ValuesLayout
from vehicled.core.events import MessageUnused
from vehicled.core.messages import (
    ActuatorCommand,
    Event,
    Fault,
    Message,
    Mode,
    MotorStatus,
    PortState,
    Reaction,
    WheelSpeed,
)
from vehicled.core.ports import NEVER_NS, Send
from vehicled.core.wire.can import CanFrame, pack, unpack_all
from vehicled.core.wire.usage import Loss, Unused

MS = 1_000_000
WANTED = (MotorStatus, WheelSpeed)
GOOD = AppConf(
    signature=SIGNATURES[6, 0],
    controller_id=1,
    timeout_ms=150,
    timeout_brake_current_a=8.0,
    status_rate_hz=50,
    status_rate_2_hz=5,
    status_mask=1,
    status_mask_2=0,
    can_mode=0,
    servo_output=1,
    app=3,
)
IDLE = Values(
    fet_temperature_c=30.0,
    motor_temperature_c=-95.0,
    motor_current_a=1.5,
    input_current_a=0.5,
    duty=0.1,
    erpm=4614.0,
    input_voltage_v=16.2,
    tachometer=1,
    absolute_tachometer=1,
    fault_code=0,
    controller_id=1,
    status=0,
)


def bus_error(can_id: int, *content: int) -> CanFrame:
    return CanFrame(can_id, bytes(content).ljust(8, b"\0"), extended=False, error=True)


class Bench:
    """A device, a controller that answers it after a millisecond, and a clock."""

    def __init__(self, wire: str = "can", **params) -> None:
        self.wire = wire
        self.device: VescCan | VescUart
        if wire == "can":
            self.device = VescCan(CanParams(**params), WANTED, 50 * MS)
        else:
            self.device = VescUart(UartParams(**params), WANTED, 50 * MS)
        self.now = 1_000 * MS
        self.version = FwVersion(6, 0, "60_MK6", bytes(12), 1, 0, 0)
        self.conf = GOOD
        self.values = IDLE
        self.layout = ValuesLayout.STATUS
        self.alive = True
        self.answers_appconf = True
        self.status_period: int | None = 20 * MS
        self._status_due = self.now
        self._long = Reassembler()
        self._serial = UartDecoder()
        self.messages: list[Message] = []
        self.sent: list[Send] = []
        self.payloads: list[bytes] = []
        self.frames: list[CanFrame] = []

    def open(self) -> "Bench":
        self.messages += self.device.on_port(PortState.OPENED, "", self.now)
        self.collect()
        return self

    def lose(self) -> None:
        self.messages += self.device.on_port(PortState.LOST, "unplugged", self.now)
        self.collect()

    def collect(self) -> None:
        for action in self.device.take_tx():
            assert isinstance(action, Send)
            assert action.deadline_ns > self.now
            self.sent.append(action)
            if self.wire == "can":
                for frame in unpack_all(action.data):
                    self.frames.append(frame)
                    match decode_can(frame)[1]:
                        case Short(1, 254, _, payload):
                            self.answer(payload)
                        case Fill(1) as piece:
                            self._long.fill(piece)
                        case ProcessBuffer(1, 254) as end:
                            packet = self._long.process(end)
                            assert packet
                            self.answer(packet)
                        case Ping(target, sender) if target in (1, EVERYONE):
                            if self.alive:
                                self.deliver(pack(encode_can(Pong(sender, 1))))
            else:
                for payload in self._serial.feed(action.data):
                    self.answer(payload)

    def answer(self, payload: bytes) -> None:
        self.payloads.append(payload)
        if not self.alive:
            return
        match decode_comm(payload)[1]:
            case Request(Comm.FW_VERSION):
                self.reply(encode_comm(self.version))
            case Request(Comm.GET_APPCONF):
                if self.answers_appconf:
                    self.reply(encode_comm(RawAppConf(encode_appconf(self.conf, (6, 0)))))
            case Request(Comm.GET_VALUES):
                self.reply(encode_comm(self.values, self.layout))

    def reply(self, payload: bytes) -> None:
        if self.wire == "can":
            self.deliver(b"".join(map(pack, split_comm(254, 1, payload, 1))))
        else:
            self.deliver(frame_uart(payload))

    def deliver(self, data: bytes) -> None:
        self.messages += self.device.on_rx(data, self.now + MS)

    def run(self, duration_ms: int, command: ActuatorCommand | None = None) -> Sequence[Message]:
        """Let time pass in steps of 5 ms with STATUS frames and, every 10 ms, a command; returns
        what was reported."""
        before = len(self.messages)
        end = self.now + duration_ms * MS
        while self.now < end:
            self.now += 5 * MS
            if (
                self.wire == "can"
                and self.alive
                and self.status_period
                and self.now >= self._status_due
            ):
                self._status_due = self.now + self.status_period
                self.deliver(pack(encode_can(Status(1, 4614.0, 1.5, 0.1))))
            if command is not None and self.now % (10 * MS) == 0:
                self.device.on_command(command, self.now)
                self.collect()
            if self.now >= self.device.next_due_ns():
                self.messages += self.device.on_time(self.now)
                self.collect()
        return self.messages[before:]

    def motor(self) -> list[tuple[int, float]]:
        """Motor commands so far."""
        if self.wire == "can":
            found = [
                message
                for frame in self.frames
                for message in [decode_can(frame)[1]]
                if isinstance(message, CanSetpoint)
            ]
            return [(message.packet, message.value) for message in found]
        contents = [decode_comm(payload)[1] for payload in self.payloads]
        return [
            (c.command, c.value)
            for c in contents
            if isinstance(c, SetCommand) and c.command != Comm.SET_SERVO_POS
        ]

    def servo(self) -> list[float]:
        """Servo commands so far."""
        contents = [decode_comm(payload)[1] for payload in self.payloads]
        return [
            c.value
            for c in contents
            if isinstance(c, SetCommand) and c.command == Comm.SET_SERVO_POS
        ]

    def faults(self, active: bool = True) -> list[str]:
        """Codes of the episodes begun (or ended) so far."""
        return [
            message.code
            for message in self.messages
            if isinstance(message, Fault) and message.active is active
        ]

    def reason(self, code: str) -> str:
        """Reason of the last episode of this code."""
        return [
            message.reason
            for message in self.messages
            if isinstance(message, Fault) and message.active and message.code == code
        ][-1]


def command(
    throttle: float = 0.0, brake: float = 0.0, steering: float = 0.0, mode: Mode = Mode.AUTO
) -> ActuatorCommand:
    return ActuatorCommand(0, 0, throttle, brake, steering, 0.0, mode)


STANDBY = command(brake=1.0, mode=Mode.STANDBY)
BRAKE = {"can": (Can.SET_CURRENT_BRAKE, 20.0), "uart": (Comm.SET_CURRENT_BRAKE, 20.0)}
DUTY = {"can": Can.SET_DUTY, "uart": Comm.SET_DUTY}
ZERO = {"can": (Can.SET_CURRENT, 0.0), "uart": (Comm.SET_CURRENT, 0.0)}
each_wire = pytest.mark.parametrize("wire", ["can", "uart"])


def armed(wire: str = "can", **params) -> Bench:
    bench = Bench(wire, **params).open()
    bench.run(300, STANDBY)
    assert bench.device.ready
    assert bench.device.refusal == ""
    assert bench.faults() == []
    return bench


@each_wire
def test_opening_brakes_then_asks_then_is_ready(wire) -> None:
    bench = Bench(wire).open()
    assert bench.motor() == [BRAKE[wire]]
    assert bench.servo() == []
    assert not bench.device.ready
    reported = bench.run(50)
    assert bench.device.ready
    (event,) = [message for message in reported if isinstance(message, Event)]
    assert event.name == "vesc_ready"
    assert json.loads(event.fields) == {
        "firmware": "6.00", "hardware": "60_MK6", "timeout_ms": 150, "timeout_brake_current_a": 8.0,
    }  # fmt: skip


@each_wire
def test_driving_needs_a_disarmed_command_first(wire) -> None:
    bench = Bench(wire).open()
    bench.run(100, command(throttle=0.5))
    assert set(bench.motor()) == {BRAKE[wire]}
    assert bench.faults() == ["vesc_drive_refused"]
    bench.run(100, STANDBY)
    assert bench.faults(active=False) == ["vesc_drive_refused"]
    before = len(bench.motor())
    bench.run(50, command(throttle=0.5))
    assert set(bench.motor()[before:]) == {(DUTY[wire], 0.1)}
    assert bench.faults() == ["vesc_drive_refused"]


@each_wire
@pytest.mark.parametrize(
    ("params", "throttle", "brake", "can", "expected"),
    [
        ({}, 0.5, 0.0, Can.SET_DUTY, 0.1),
        ({"control": "current", "max_current_a": 30.0}, 0.5, 0.0, Can.SET_CURRENT, 15.0),
        (
            {"control": "speed", "max_speed_mps": 2.0, "erpm_offset": 10.0},
            0.5,
            0.0,
            Can.SET_RPM,
            4624.0,
        ),
        ({"erpm_per_mps": -4614.0}, 0.5, 0.0, Can.SET_DUTY, -0.1),
        (
            {"control": "speed", "max_speed_mps": 2.0, "erpm_per_mps": -1000.0},
            0.5,
            0.0,
            Can.SET_RPM,
            -1000.0,
        ),
        ({}, 0.0, 0.0, Can.SET_CURRENT, 0.0),
        ({"control": "speed"}, 0.0, 0.0, Can.SET_CURRENT, 0.0),
        ({"max_brake_current_a": 40.0}, 0.0, 0.25, Can.SET_CURRENT_BRAKE, 10.0),
        ({}, 1.0, 0.5, Can.SET_CURRENT_BRAKE, 10.0),
        ({}, 7.0, 0.0, Can.SET_DUTY, 0.2),
        ({}, float("nan"), 0.0, Can.SET_CURRENT_BRAKE, 20.0),
        ({}, 0.5, float("nan"), Can.SET_CURRENT_BRAKE, 20.0),
    ],
)
def test_every_command_is_a_frame(wire, params, throttle, brake, can, expected) -> None:
    bench = armed(wire, **params)
    before = len(bench.motor())
    bench.device.on_command(command(throttle, brake), bench.now)
    bench.collect()
    ((kind, value),) = bench.motor()[before:]
    assert (Can(kind) if wire == "can" else Comm(kind)).name == can.name
    assert value == pytest.approx(expected, abs=1e-5)
    assert bench.sent[-1].deadline_ns == bench.now + 50 * MS


@each_wire
@pytest.mark.parametrize(
    ("steering", "position"),
    [(0.0, 0.5), (1.0, 0.15), (-1.0, 0.85), (0.5, 0.325), (9.0, 0.15), (float("nan"), 0.5)],
)
def test_the_servo_follows_within_its_limits(wire, steering, position) -> None:
    bench = armed(wire)
    before = len(bench.servo())
    bench.device.on_command(command(steering=steering), bench.now)
    bench.collect()
    assert bench.servo()[before:] == [pytest.approx(position, abs=6e-4)]


def test_limits_of_the_linkage_cut_the_servo() -> None:
    bench = armed(servo_center=0.53, servo_gain=0.4, servo_min=0.2, servo_max=0.8)
    bench.device.on_command(command(steering=1.0), bench.now)
    bench.collect()
    assert bench.servo()[-1] == 0.8
    # No servo on this controller: only the motor frame.
    bench = armed(steering=False)
    bench.device.on_command(command(steering=1.0), bench.now)
    bench.collect()
    assert bench.servo() == []


def test_the_servo_command_wants_no_reply_and_is_the_known_frame() -> None:
    bench = armed()
    bench.device.on_command(command(), bench.now)
    (action,) = bench.device.take_tx()
    assert isinstance(action, Send)
    assert unpack_all(action.data) == [
        CanFrame(0x101, bytes(4)),
        CanFrame(0x801, bytes.fromhex("fe020c01f4")),
    ]


@each_wire
def test_a_newer_command_replaces_one_that_was_not_taken(wire) -> None:
    bench = armed(wire)
    bench.device.take_tx()
    bench.device.on_command(command(throttle=1.0), bench.now)
    bench.device.on_command(command(brake=1.0), bench.now)
    before = len(bench.motor())
    bench.collect()
    assert bench.motor()[before:] == [BRAKE[wire]]


@each_wire
def test_it_never_speaks_without_a_command_but_to_ask(wire) -> None:
    """ALIVE, or a repeated command, would feed the controller's own watchdog on behalf of a control
    loop that is dead."""
    bench = armed(wire)
    bench.payloads.clear()
    bench.frames.clear()
    bench.run(1000)
    assert {payload[0] for payload in bench.payloads} == {Comm.GET_VALUES}
    assert bench.motor() == []


def test_status_frames_become_speed_and_motor_status() -> None:
    bench = armed()
    bench.deliver(
        pack(encode_can(Status4(1, 40.0, -95.0, 2.5, 0.0))) + pack(encode_can(Status5(1, 0, 15.5)))
    )
    before = len(bench.messages)
    bench.deliver(pack(encode_can(Status(1, 9228.0, 3.0, 0.2))))
    motor, wheel = bench.messages[before:]
    assert isinstance(motor, MotorStatus)
    assert isinstance(wheel, WheelSpeed)
    assert wheel == WheelSpeed(bench.now + MS, bench.now + MS, 2.0, 0.05)
    assert motor.motor_speed_radps == pytest.approx(9228.0 / 2 * 3.141592653589793 / 30)
    assert (motor.motor_current_a, motor.duty, motor.input_current_a, motor.input_voltage_v) == (
        3.0,
        0.2,
        2.5,
        15.5,
    )
    assert motor.controller_temperature_k == pytest.approx(313.15)
    assert motor.motor_temperature_k != motor.motor_temperature_k
    assert motor.fault_code == 0


def test_slow_fields_are_forgotten_when_they_are_old() -> None:
    bench = armed()
    bench.answer = lambda payload: None  # type: ignore[method-assign]
    reported = bench.run(2500)
    last = [message for message in reported if isinstance(message, MotorStatus)][-1]
    assert last.input_voltage_v != last.input_voltage_v
    assert last.duty == 0.1


def test_while_status_frames_come_the_polls_give_no_second_speed() -> None:
    bench = armed()
    reported = bench.run(1000)
    assert len([message for message in reported if isinstance(message, WheelSpeed)]) == 50
    assert len([message for message in reported if isinstance(message, MotorStatus)]) == 70


def test_a_serial_controller_is_polled_for_everything() -> None:
    bench = armed("uart")
    reported = bench.run(1000)
    wheels = [message for message in reported if isinstance(message, WheelSpeed)]
    assert 48 <= len(wheels) <= 52
    assert wheels[0].speed_mps == 1.0
    motor = next(message for message in reported if isinstance(message, MotorStatus))
    assert (motor.input_voltage_v, motor.input_current_a) == (16.2, 0.5)
    # What was not asked for is not produced.
    device = VescUart(UartParams(), (), 1)
    assert not device.on_rx(frame_uart(encode_comm(IDLE)), 1)


@each_wire
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"timeout_ms": 1000}, "time-out is 1000 ms, the profile allows 200 ms"),
        ({"timeout_ms": 0}, "time-out is off"),
        ({"timeout_brake_current_a": 0.0}, "on time-out it coasts"),
        ({"timeout_brake_current_a": 2.0}, "brakes with 2 A, the profile wants 5 A"),
        ({"servo_output": 0}, "it would not steer"),
    ],
)
def test_a_controller_that_is_set_up_otherwise_is_not_driven(wire, changes, text) -> None:
    bench = Bench(wire)
    bench.conf = AppConf(**{name: getattr(GOOD, name) for name in GOOD.__struct_fields__} | changes)
    bench.open().run(300, STANDBY)
    assert not bench.device.ready
    assert bench.faults() == ["vesc_config"]
    assert text in bench.reason("vesc_config")
    bench.run(100, command(throttle=1.0))
    assert set(bench.motor()) == {BRAKE[wire]}
    assert text in bench.reason("vesc_drive_refused")
    # Put right while the daemon waits: it looks again.
    bench.conf = GOOD
    bench.run(6000, STANDBY)
    assert bench.device.ready
    assert bench.faults(active=False) == ["vesc_drive_refused", "vesc_config"]


def test_on_can_the_configuration_must_be_that_of_the_controller() -> None:
    bench = Bench()
    bench.conf = AppConf(
        **{name: getattr(GOOD, name) for name in GOOD.__struct_fields__} | {"controller_id": 9}
    )
    bench.open().run(300)
    assert "that of controller 9, not 1" in bench.reason("vesc_config")


@each_wire
def test_firmware_whose_configuration_cannot_be_read(wire) -> None:
    bench = Bench(wire)
    bench.version = FwVersion(5, 0, "60", bytes(12))
    bench.layout = ValuesLayout.DQ_VOLTAGES
    bench.open().run(300, STANDBY)
    assert not bench.device.ready
    assert "unknown for firmware 5.00" in bench.reason("vesc_config")
    assert bytes((Comm.GET_APPCONF,)) not in bench.payloads
    accepting = Bench(wire, accept_unreadable_timeout=True)
    accepting.version, accepting.layout = bench.version, bench.layout
    accepting.open().run(300, STANDBY)
    assert accepting.device.ready
    assert accepting.faults() == []
    (event,) = [message for message in accepting.messages if isinstance(message, Event)]
    assert "not read back" in json.loads(event.fields)["timeout"]


@each_wire
def test_old_firmware_never_gets_a_servo_command(wire) -> None:
    """Before 3.2 command 12 is SET_MCCONF: two bytes of servo position would be taken for a motor
    configuration."""
    bench = Bench(wire, accept_unreadable_timeout=True)
    bench.version, bench.layout = FwVersion(2, 18), ValuesLayout.LEGACY
    bench.open().run(300, STANDBY)
    bench.run(300, command(throttle=1.0, steering=1.0))
    assert "too old to be driven" in bench.reason("vesc_config")
    assert bench.servo() == []
    assert set(bench.motor()) == {BRAKE[wire]}


@each_wire
def test_a_configuration_that_never_comes_is_a_fault(wire) -> None:
    bench = Bench(wire)
    bench.answers_appconf = False
    bench.open().run(4000, STANDBY)
    assert "never came" in bench.reason("vesc_config")
    assert bench.faults().count("vesc_config") == 1
    bench.answers_appconf = True
    bench.run(6000, STANDBY)
    assert bench.device.ready


@each_wire
def test_fault_codes_disable_until_disarmed(wire) -> None:
    bench = armed(wire)
    bench.values = Values(
        **{name: getattr(IDLE, name) for name in IDLE.__struct_fields__} | {"fault_code": 5}
    )
    bench.run(300, command(throttle=0.5))
    fault = next(message for message in bench.messages if isinstance(message, Fault))
    assert (fault.code, fault.reaction, fault.active) == (
        "vesc_over_temp_fet",
        Reaction.DISABLE,
        True,
    )
    assert bench.motor()[-1] == BRAKE[wire]
    assert [message.fault_code for message in bench.messages if isinstance(message, MotorStatus)][
        -1
    ] == 5
    # While it lasts, disarming does not help.
    bench.run(100, STANDBY)
    bench.run(100, command(throttle=0.5))
    assert bench.motor()[-1] == BRAKE[wire]
    bench.values = IDLE
    bench.run(300, command(throttle=0.5))
    assert bench.faults(active=False)[-1] == "vesc_over_temp_fet"
    assert bench.motor()[-1] == BRAKE[wire]
    bench.run(100, STANDBY)
    bench.run(100, command(throttle=0.5))
    assert bench.motor()[-1] == (DUTY[wire], 0.1)
    assert bench.faults().count("vesc_over_temp_fet") == 1


@each_wire
def test_a_fault_that_comes_and_goes_is_one_episode(wire) -> None:
    """A controller clears its fault after half a second and finds it again."""
    bench = armed(wire)
    for number in range(20):
        bench.values = replace(IDLE, fault_code=2 * (number % 2))
        bench.run(250)
    bench.values = IDLE
    bench.run(8000)
    assert bench.faults() == ["vesc_under_voltage"] * 2
    assert bench.faults(active=False) == ["vesc_under_voltage"] * 2


@each_wire
@pytest.mark.parametrize(
    ("values", "field", "attribute"),
    [
        ({"erpm": 2e9}, "erpm", "motor_speed_radps"),
        ({"duty": 30.0}, "duty", "duty"),
        ({"input_voltage_v": -3000.0}, "input_voltage_v", "input_voltage_v"),
        ({"input_voltage_v": 3000.0}, "input_voltage_v", "input_voltage_v"),
        ({"fet_temperature_c": 3000.0}, "fet_temperature_c", "controller_temperature_k"),
        ({"motor_temperature_c": 3000.0}, "motor_temperature_c", "motor_temperature_k"),
        ({"input_current_a": 1e6}, "input_current_a", "input_current_a"),
    ],
)
def test_telemetry_that_cannot_be_is_unknown(wire, values, field, attribute) -> None:
    bench = Bench(wire)
    bench.values = replace(IDLE, **{"motor_temperature_c": 40.0, **values})
    bench.status_period = None
    bench.open().run(500, STANDBY)
    status = [message for message in bench.messages if isinstance(message, MotorStatus)][-1]
    assert isnan(getattr(status, attribute))
    assert sum(isnan(getattr(status, name)) for name in status.__struct_fields__) == 1
    assert bench.device.usage.of("GET_VALUES").lost.keys() == {Loss(Unused.OUT_OF_RANGE, field)}
    assert any(isinstance(message, WheelSpeed) for message in bench.messages) is (field != "erpm")
    assert (
        sum(
            isinstance(message, Event) and message.name == MessageUnused.names[0]
            for message in bench.messages
        )
        == 1
    )


@each_wire
def test_one_fault_after_another_is_two_episodes(wire) -> None:
    bench = armed(wire)
    for code in (2, 2, 10, 77):
        bench.values = Values(
            **{name: getattr(IDLE, name) for name in IDLE.__struct_fields__} | {"fault_code": code}
        )
        bench.run(150)
    assert bench.faults() == [
        "vesc_under_voltage",
        "vesc_booting_from_watchdog_reset",
        "vesc_unknown_77",
    ]
    assert bench.faults(active=False) == ["vesc_under_voltage", "vesc_booting_from_watchdog_reset"]
    assert "trust the number" in bench.reason("vesc_unknown_77")


@each_wire
def test_its_own_time_out_and_kill_switch_are_reported(wire) -> None:
    bench = armed(wire)
    bench.values = Values(
        **{name: getattr(IDLE, name) for name in IDLE.__struct_fields__} | {"status": TIMED_OUT}
    )
    bench.run(300)
    assert bench.faults() == []  # nobody commands: of course it has timed out
    bench.run(1500, STANDBY)
    assert bench.faults() == ["vesc_timed_out"]
    bench.values = Values(
        **{name: getattr(IDLE, name) for name in IDLE.__struct_fields__} | {"status": KILL_SWITCH}
    )
    bench.run(300, STANDBY)
    assert bench.faults() == ["vesc_timed_out", "vesc_kill_switch"]
    assert bench.faults(active=False) == ["vesc_timed_out"]


@each_wire
@pytest.mark.parametrize("pause_ms", [60, 160, 300])
def test_its_time_out_after_a_pause_of_ours_is_no_fault(wire, pause_ms) -> None:
    """The daemon stalled for longer than the controller's time-out; the first answers are from
    before the next command."""
    bench = Bench(wire, silence_s=0.5)
    bench.conf = AppConf(
        **{name: getattr(GOOD, name) for name in GOOD.__struct_fields__}
        | {"timeout_ms": pause_ms // 20 * 10}
    )
    bench.open().run(300, STANDBY)
    bench.run(1500, command(throttle=0.5))
    bench.now += pause_ms * MS
    late = Values(
        **{name: getattr(IDLE, name) for name in IDLE.__struct_fields__} | {"status": TIMED_OUT}
    )
    bench.reply(encode_comm(late, ValuesLayout.STATUS))
    bench.device.on_command(command(throttle=0.5), bench.now)
    bench.collect()
    bench.reply(encode_comm(late, ValuesLayout.STATUS))
    bench.run(1500, command(throttle=0.5))
    assert bench.faults() == []
    assert bench.motor()[-1] == (DUTY[wire], 0.1)
    # Commands that go on without reaching it are reported all the same.
    bench.values = late
    bench.run(300, command(throttle=0.5))
    assert bench.faults()[0] == "vesc_timed_out"


@each_wire
def test_a_pause_is_measured_by_the_profile_where_the_time_out_cannot_be_read(wire) -> None:
    bench = Bench(wire, silence_s=0.5, timeout_ms=100, accept_unreadable_timeout=True)
    bench.version = FwVersion(6, 99, "60_MK6", bytes(12), 1, 0, 0)
    bench.open().run(1500, STANDBY)
    bench.now += 110 * MS
    bench.device.on_command(STANDBY, bench.now)
    bench.collect()
    bench.values = Values(
        **{name: getattr(IDLE, name) for name in IDLE.__struct_fields__} | {"status": TIMED_OUT}
    )
    bench.run(900, STANDBY)
    assert bench.faults() == []
    bench.run(400, STANDBY)
    assert bench.faults() == ["vesc_timed_out"]


@each_wire
def test_silence_stops_and_disarms_and_asks_again(wire) -> None:
    bench = armed(wire)
    bench.run(100, command(throttle=0.5))
    bench.alive = False
    gone = bench.now
    bench.run(400, command(throttle=0.5))
    fault = [
        message
        for message in bench.messages
        if isinstance(message, Fault) and message.code == "vesc_silent"
    ][-1]
    assert fault.reaction is Reaction.BRAKE
    assert fault.t_ns - gone <= 125 * MS
    assert bench.motor()[-1] == BRAKE[wire]
    bench.alive = True
    bench.payloads.clear()
    bench.run(500, command(throttle=0.5))
    assert bytes((Comm.FW_VERSION,)) in bench.payloads
    assert bytes((Comm.GET_APPCONF,)) in bench.payloads
    assert bench.faults(active=False)[-1] == "vesc_silent"
    assert bench.motor()[-1] == BRAKE[wire]
    bench.run(50, STANDBY)
    bench.run(50, command(throttle=0.5))
    assert bench.motor()[-1] == (DUTY[wire], 0.1)
    assert bench.faults().count("vesc_silent") == 1


@each_wire
def test_a_reconnect_comes_back_disarmed(wire) -> None:
    bench = armed(wire)
    bench.run(100, command(throttle=0.5))
    bench.lose()
    assert bench.device.next_due_ns() == NEVER_NS
    bench.now += 500 * MS
    before = len(bench.motor())
    bench.open()
    assert bench.motor()[before:] == [BRAKE[wire]]
    bench.run(500, command(throttle=0.5))
    assert set(bench.motor()[before:]) == {BRAKE[wire]}
    assert "opened anew" in bench.device.refusal
    bench.run(20, STANDBY)
    bench.run(20, command(throttle=0.5))
    assert bench.motor()[-1] == (DUTY[wire], 0.1)


def test_a_restart_of_the_controller_disarms_and_is_checked_anew() -> None:
    bench = armed()
    bench.run(100, command(throttle=0.5))
    bench.conf = AppConf(
        **{name: getattr(GOOD, name) for name in GOOD.__struct_fields__} | {"timeout_ms": 1000}
    )
    bench.deliver(pack(encode_can(NotifyBoot(1, b""))))
    bench.run(200, command(throttle=0.5))
    assert bench.faults() == ["vesc_restarted", "vesc_drive_refused", "vesc_config"]
    assert bench.motor()[-1] == BRAKE["can"]
    bench.conf = GOOD
    bench.run(6000, STANDBY)
    assert set(bench.faults(active=False)) == {
        "vesc_restarted",
        "vesc_drive_refused",
        "vesc_config",
    }
    bench.run(50, command(throttle=0.5))
    assert bench.motor()[-1] == (Can.SET_DUTY, 0.1)


def test_status_frames_that_are_off_are_diagnosed_and_polls_take_over() -> None:
    bench = Bench()
    bench.status_period = None
    bench.conf = AppConf(
        **{name: getattr(GOOD, name) for name in GOOD.__struct_fields__} | {"status_mask": 0}
    )
    bench.open()
    bench.run(4000, STANDBY)
    assert bench.faults() == ["vesc_status_off"]
    assert "switched off" in bench.reason("vesc_status_off")
    assert len([message for message in bench.messages if isinstance(message, WheelSpeed)]) >= 35
    bench.status_period = 20 * MS
    bench.run(200, STANDBY)
    assert bench.faults(active=False) == ["vesc_status_off"]


def test_a_silent_controller_raises_only_the_silence_fault() -> None:
    bench = Bench().open()
    bench.run(3000, STANDBY)
    bench.alive = False
    bench.run(2000, STANDBY)
    bench.alive = True
    bench.run(3000, STANDBY)
    assert bench.faults() == bench.faults(active=False) == ["vesc_silent"]


def test_the_fault_of_missing_status_frames_ends_with_silence_and_is_raised_again() -> None:
    bench = Bench()
    bench.status_period = None
    bench.open().run(4000, STANDBY)
    bench.alive = False
    bench.run(2000, STANDBY)
    assert bench.faults() == ["vesc_status_off", "vesc_silent"]
    assert bench.faults(active=False) == ["vesc_status_off"]
    bench.alive = True
    bench.run(4000, STANDBY)
    assert bench.faults() == ["vesc_status_off", "vesc_silent", "vesc_status_off"]


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        ([], "any other node: check power"),
        ([CanFrame(0x18015505, bytes(8))], "UAVCAN nodes (5): set its CAN Mode to VESC"),
        ([encode_can(Status(9, 0.0, 0.0, 0.0))], "others (9): check controller_id"),
        ([encode_can(Pong(254, 12))], "others (12)"),
        ([CanFrame(4, bytes(8), error=True, extended=False)], "wrong bit rate"),
        ([CanFrame(0x123, bytes(8), extended=False)], "not of a VESC"),
    ],
)
def test_a_controller_that_is_not_received_is_explained(frames, text) -> None:
    bench = Bench()
    bench.alive = False
    bench.open().run(500)
    for frame in frames:
        bench.deliver(pack(frame))
    bench.run(1000)
    assert bench.faults() == ["vesc_silent"]
    assert text in bench.reason("vesc_silent")


def test_what_the_bus_reports_is_one_warning_per_kind_and_ends_when_it_is_quiet() -> None:
    bench = Bench().open()
    bench.run(500)
    passive = bus_error(0x04, 0, 0x10)
    for _ in range(50):
        bench.deliver(pack(passive))
        bench.run(20)
    assert bench.faults() == ["can_bus_errors"]
    assert "error-passive (reception)" in bench.reason("can_bus_errors")
    assert "check bit rate, termination, wiring" in bench.reason("can_bus_errors")
    bench.deliver(pack(bus_error(0x40)))
    assert "bus-off" in bench.reason("can_bus_errors")
    assert bench.faults() == ["can_bus_errors"] * 2
    bench.run(10_500)
    assert bench.faults(active=False) == ["can_bus_errors"] * 2
    assert bench.device.error_frames == 51  # type: ignore[union-attr]


def test_status_without_answers_leaves_the_fault_code_unknown() -> None:
    bench = Bench()
    bench.answer = lambda payload: None  # type: ignore[method-assign]
    bench.open().run(1500)
    assert bench.faults() == ["vesc_unanswered"]
    fault = next(message for message in bench.messages if isinstance(message, Fault))
    assert fault.reaction is Reaction.CONTROLLED_STOP


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "power, cable"),
        (b"\x00\xf8\x80" * 40, "baud rate is wrong"),
        (b"$GNGGA,1\r\n" * 9, "another device"),
    ],
)
def test_a_serial_line_without_controller_is_explained(data, text) -> None:
    bench = Bench("uart")
    bench.alive = False
    bench.open().run(300)
    if data:
        bench.deliver(data)
    bench.run(1200)
    assert bench.faults() == ["vesc_silent"]
    assert text in bench.reason("vesc_silent")
    assert bool(bench.device.dropped_bytes) is bool(data)


def test_frames_of_and_for_others_are_not_ours() -> None:
    bench = armed()
    before = len(bench.messages)
    fault = encode_comm(
        Values(**{name: getattr(IDLE, name) for name in IDLE.__struct_fields__} | {"fault_code": 3})
    )
    for target, sender in ((253, 1), (254, 2)):
        bench.deliver(b"".join(map(pack, split_comm(target, sender, fault, 1))))
    bench.deliver(
        pack(encode_can(Status(2, 99.0, 0.0, 0.0))) + pack(encode_can(NotifyBoot(2, b"")))
    )
    assert bench.messages[before:] == []
    assert isinstance(bench.device, VescCan)
    assert bench.device.usage.of("STATUS").refused == {Loss(Unused.FOREIGN): 1}
    assert bench.device.usage.of("NOTIFY_BOOT").refused == {Loss(Unused.FOREIGN): 1}
    assert bench.device.foreign_frames > 2


@pytest.mark.parametrize("size", [1, 7, 16, 30])
def test_records_may_be_cut_anywhere(size) -> None:
    stream = (
        b"".join(
            map(
                pack,
                [*split_comm(254, 1, encode_comm(IDLE), 1), encode_can(Status(1, 10.0, 0.0, 0.0))],
            )
        )
        * 2
    )
    whole = list(VescCan(CanParams(), WANTED, 1).on_rx(stream, 5))
    device = VescCan(CanParams(), WANTED, 1)
    cut = [
        message
        for at in range(0, len(stream), size)
        for message in device.on_rx(stream[at : at + size], 5)
    ]
    assert repr(cut) == repr(whole)
    assert [type(message) for message in whole] == [
        MotorStatus,
        WheelSpeed,
        MotorStatus,
        WheelSpeed,
    ] + [MotorStatus] * 2 + [WheelSpeed]


def test_a_false_start_on_the_serial_line_does_not_hold_back_what_follows() -> None:
    bench = armed("uart")
    before = len([m for m in bench.messages if isinstance(m, WheelSpeed)])
    bench.deliver(b"\x02\xff")
    bench.run(200)
    assert len([m for m in bench.messages if isinstance(m, WheelSpeed)]) - before >= 8
    assert bench.faults() == []


@pytest.mark.parametrize(
    "params",
    [
        {"erpm_per_mps": 0.0},
        {"servo_center": 0.9},
        {"controller_id": 254, "host_id": 254},
        {"servo_min": 0.6},
    ],
)
def test_parameters_that_cannot_be_are_refused(params) -> None:
    with pytest.raises(ValueError, match="must"):
        CanParams(**params)


def test_a_restart_alone_disarms() -> None:
    bench = armed()
    bench.run(100, command(throttle=0.5))
    bench.deliver(pack(encode_can(NotifyBoot(1, b""))))
    bench.run(500, command(throttle=0.5))
    assert bench.faults(active=False) == ["vesc_restarted"]
    assert bench.device.ready
    assert bench.motor()[-1] == BRAKE["can"]
    assert "has restarted" in bench.device.refusal
    bench.run(20, STANDBY)
    bench.run(20, command(throttle=0.5))
    assert bench.motor()[-1] == (Can.SET_DUTY, 0.1)


@each_wire
def test_a_pause_in_the_drive_is_no_disarming(wire) -> None:
    bench = Bench(wire).open()
    bench.run(300, command(throttle=0.0))
    assert bench.motor()[-1] == ZERO[wire]
    bench.run(50, command(throttle=0.5))
    assert bench.motor()[-1] == BRAKE[wire]
    bench.run(50, command(throttle=0.0))
    bench.run(50, command(throttle=0.5))
    assert bench.motor()[-1] == BRAKE[wire]
    assert bench.faults() == ["vesc_drive_refused"]


@each_wire
def test_nothing_is_left_to_send_on_a_port_that_was_lost(wire) -> None:
    bench = armed(wire)
    bench.device.on_command(command(throttle=0.5), bench.now)
    bench.now += 200 * MS
    bench.device.on_time(bench.now)
    bench.device.on_port(PortState.LOST, "unplugged", bench.now)
    assert list(bench.device.take_tx()) == []


def test_questions_do_not_pile_up_on_a_port_that_takes_nothing() -> None:
    bench = armed()
    bench.device.take_tx()
    for _ in range(100):
        bench.now += 100 * MS
        bench.device.on_time(bench.now)
    assert len(bench.device.take_tx()) <= 4


def test_what_a_false_start_held_back_comes_without_further_bytes() -> None:
    device = VescUart(UartParams(), WANTED, 50 * MS)
    device.on_port(PortState.OPENED, "", 0)
    assert list(device.on_rx(b"\x02\xff" + frame_uart(encode_comm(IDLE)), MS)) == []
    found = [
        message
        for at in range(2, 250)
        for message in device.on_time(at * MS)
        if isinstance(message, WheelSpeed)
    ]
    assert [wheel.speed_mps for wheel in found] == [1.0]


def test_telemetry_is_as_old_as_the_profile_says() -> None:
    bench = armed(latency_ms=3.0)
    before = len(bench.messages)
    bench.deliver(pack(encode_can(Status(1, 0.0, 0.0, 0.0))))
    wheel = bench.messages[before + 1]
    assert isinstance(wheel, WheelSpeed)
    assert (wheel.t_rx_ns - wheel.t_ns, wheel.t_rx_ns) == (3 * MS, bench.now + MS)


def test_a_motor_that_runs_backwards_gets_negative_current() -> None:
    bench = armed(control="current", erpm_per_mps=-4614.0)
    bench.run(10, command(throttle=0.5))
    assert bench.motor()[-1] == (Can.SET_CURRENT, -10.0)


@each_wire
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_motor_status_is_positive_forwards_whichever_way_the_motor_turns(wire, sign) -> None:
    bench = armed(wire, erpm_per_mps=sign * 4614.0)
    before = len(bench.messages)
    # The current is that which the motor draws: its sign does not show the direction.
    if wire == "can":
        bench.deliver(pack(encode_can(Status(1, sign * 9228.0, 3.0, sign * 0.2))))
    else:
        fields = {"erpm": sign * 9228.0, "duty": sign * 0.2, "motor_current_a": 3.0}
        bench.reply(
            encode_comm(
                Values(**{name: getattr(IDLE, name) for name in IDLE.__struct_fields__} | fields),
                ValuesLayout.STATUS,
            )
        )
    motor, wheel = bench.messages[before:]
    assert isinstance(motor, MotorStatus)
    assert isinstance(wheel, WheelSpeed)
    assert motor.motor_speed_radps == pytest.approx(9228.0 / 2 * 3.141592653589793 / 30)
    assert (motor.motor_current_a, motor.duty, wheel.speed_mps) == (3.0, 0.2, 2.0)


@each_wire
def test_a_configuration_nobody_asked_for_is_not_judged(wire) -> None:
    bench = armed(wire)
    before = len(bench.messages)
    bench.reply(encode_comm(RawAppConf(bytes(400))))
    assert bench.messages[before:] == []
    assert bench.device.ready


def test_a_tachometer_that_starts_anew_or_wraps_gives_no_wrong_speed() -> None:
    driver = VescUart(UartParams(odometry="tachometer"), (WheelSpeed,), 1)
    driver.on_port(PortState.OPENED, "", 0)
    counts = [2**31 - 3, -(2**31) + 3, -(2**31) + 9]
    found: list[Message] = []
    for i, count in enumerate(counts):
        driver._on_tachometer(count, 20_000_000 * (i + 1))
    found += driver._take(0)
    speeds = [m.speed_mps for m in found if isinstance(m, WheelSpeed)]
    assert speeds == pytest.approx([6 * 60.0 / (6 * 4614.0 * 0.02)] * 2)
    driver._on_tachometer(0, 10**10)
    assert not [m for m in driver._take(0) if isinstance(m, WheelSpeed)], (
        "after a pause it may have started anew"
    )
