"""Emulator of an Xsens MTi: MTData2 while it measures, answers while it is configured.

Its outputs are the factory ones, or, if the driver does not configure it, those of the driver's
table in the profile. Settings are in flash and survive a brown-out.
"""

from math import degrees

from drivers.imu.xsens import (
    ACCELERATION,
    AT_EVERY_SAMPLE,
    ERROR,
    EULER_ANGLES,
    FILTER_VALID,
    FLOAT64,
    GO_TO_CONFIG,
    GO_TO_MEASUREMENT,
    OUTPUT_CONFIGURATION,
    PACKET_COUNTER,
    PROTOCOL,
    QUATERNION,
    RATE_OF_TURN,
    SAMPLE_TIME_FINE,
    STATUS_WORD,
    TEMPERATURE,
    WAKE_UP,
    WAKE_UP_ACK,
    Value,
    XbusMessage,
    encode,
    encode_mtdata2,
    message,
    pack_outputs,
    unpack_outputs,
)
from drivers.imu.xsens_time import TICKS_PER_SECOND
from sim_backend.emulators.inertial import ImuReading, InertialUnit, OutputSchedule, euler
from sim_backend.emulators.interface import NEVER_NS
from sim_backend.emulators.line import ANSWER_NS, baud_of, on_its_line
from vehicled.core.wire.framing import Framer
from vehicled.profile.schema import DeviceTable

BAUD = 115_200
FACTORY = (
    (PACKET_COUNTER, AT_EVERY_SAMPLE),
    (SAMPLE_TIME_FINE, AT_EVERY_SAMPLE),
    (QUATERNION, 100),
    (STATUS_WORD, AT_EVERY_SAMPLE),
)
BASE_RATE_HZ = 400
"""Base rate; outputs come at integer fractions of it."""
CONFIG_AFTER_S = 1.7
"""Longest delay of the acknowledgement of GoToConfig while it measures."""
WAKE_UP_NS = 500_000_000
"""Time for the host to answer WakeUp; after it the unit starts measuring."""
INVALID_PARAMETER = 0x21
_TICK_NS = 1_000_000_000 // TICKS_PER_SECOND
_WITH_ALL = (PACKET_COUNTER, SAMPLE_TIME_FINE, STATUS_WORD)
_OWN_RATE = (QUATERNION, EULER_ANGLES, ACCELERATION, RATE_OF_TURN, TEMPERATURE)


class XsensUnit(InertialUnit):
    """MTi as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(port, device, seed, start_ns, baud_of(device.port) or BAUD)
        outputs = list(FACTORY)
        if not self.params.configure:
            rate = round(self.params.rate_hz)
            outputs = [(xdi, AT_EVERY_SAMPLE) for xdi in _WITH_ALL]
            outputs += [(xdi, rate) for xdi in (QUATERNION, ACCELERATION, RATE_OF_TURN)]
        self._framer = Framer((PROTOCOL,))
        self._wakes_until_ns = NEVER_NS
        self.measuring = True
        self._set(outputs)
        self._count = 0

    def _set(self, outputs: list[tuple[int, int]]) -> None:
        self.outputs = outputs
        """Outputs (id, rate) as they would be read back."""
        self._paces = {
            xdi: OutputSchedule(rate) for xdi, rate in outputs if xdi & 0xFFF0 in _OWN_RATE
        }

    def _begin(self, now_ns: int) -> None:
        self._framer = Framer((PROTOCOL,))
        self._count = 0
        self.measuring = False
        self._wakes_until_ns = now_ns + WAKE_UP_NS
        self.send(encode(WAKE_UP))

    def next_due_ns(self) -> int:
        """Time of the next answer, or of the end of the wait for the host."""
        return min(super().next_due_ns(), self._wakes_until_ns)

    def on_time(self, now_ns: int) -> None:
        """Send the answers that are due, or start measuring if WakeUp was not answered."""
        super().on_time(now_ns)
        if now_ns >= self._wakes_until_ns:
            self._wakes_until_ns = NEVER_NS
            self.measuring = True

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        for _, frame in self._framer.feed(data):
            self._obey(message(frame), now_ns)

    def _obey(self, request: XbusMessage, now_ns: int) -> None:
        if request.mid == WAKE_UP_ACK:
            self._wakes_until_ns = NEVER_NS
        elif request.mid == GO_TO_CONFIG:
            late_ns = (
                round(float(self.chance.uniform(0.01, CONFIG_AFTER_S)) * 1e9)
                if self.measuring
                else ANSWER_NS
            )
            self.measuring = False
            self._wakes_until_ns = NEVER_NS
            self.answer(encode(GO_TO_CONFIG + 1), now_ns, late_ns)
        elif request.mid == GO_TO_MEASUREMENT and not self.measuring:
            self.answer(encode(GO_TO_MEASUREMENT + 1), now_ns)
            self.measuring = True
            self._wakes_until_ns = NEVER_NS
        elif request.mid == OUTPUT_CONFIGURATION and not self.measuring:
            if request.data:
                wanted = [(xdi, rate) for xdi, rate in unpack_outputs(request.data) if xdi]
                if not all(_known(xdi) for xdi, _ in wanted):
                    self.answer(encode(ERROR, bytes((INVALID_PARAMETER,))), now_ns)
                    return
                self._set([(xdi, _rate(xdi, rate)) for xdi, rate in wanted])
            self.answer(encode(OUTPUT_CONFIGURATION + 1, pack_outputs(self.outputs)), now_ns)
        # Messages in the wrong state or unknown ones get no answer.

    def _sample(self, measured: ImuReading) -> None:
        if not self.measuring:
            return
        due = {xdi for xdi, pace in self._paces.items() if pace.due(measured.t_ns)}
        if due:
            self._count = (self._count + 1) & 0xFFFF
            due_ids = [xdi for xdi, _ in self.outputs if xdi in due or xdi in _WITH_ALL]
            self.send(
                encode_mtdata2([(xdi, self._value(xdi & 0xFFF0, measured)) for xdi in due_ids])
            )

    def _value(self, kind: int, measured: ImuReading) -> Value:
        if kind == PACKET_COUNTER:
            return self._count
        if kind == SAMPLE_TIME_FINE:
            return self.clock_ns(measured.t_ns) // _TICK_NS & 0xFFFF_FFFF
        if kind == STATUS_WORD:
            return 1 | FILTER_VALID | measured.clipped << 8
        if kind == QUATERNION:
            return self.attitude()
        if kind == EULER_ANGLES:
            roll, pitch, yaw = euler(self.attitude())
            return degrees(roll), degrees(pitch), degrees(yaw)
        if kind == ACCELERATION:
            return measured.force_mps2
        if kind == RATE_OF_TURN:
            return measured.rate_radps
        return measured.celsius


def _known(xdi: int) -> bool:
    """True for ENU outputs, in any number format; only these are supported."""
    kind = xdi & 0xFFF0
    return xdi in _WITH_ALL or (kind in _OWN_RATE and xdi & 0xF <= FLOAT64)


def _rate(xdi: int, wanted_hz: int) -> int:
    """Return the largest integer fraction of the base rate that does not exceed the wanted rate."""
    if xdi in _WITH_ALL:
        return AT_EVERY_SAMPLE
    return max(
        [
            rate
            for rate in range(1, BASE_RATE_HZ + 1)
            if BASE_RATE_HZ % rate == 0 and rate <= max(1, wanted_hz)
        ]
    )


xsens = on_its_line(XsensUnit)
