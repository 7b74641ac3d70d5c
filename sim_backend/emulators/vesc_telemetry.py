"""Telemetry of the VESC emulator: the newest motor sample, counters, and averages that reset when
read."""

from math import isfinite, pi

from drivers.vesc.appconf import UNREAD, AppConf
from drivers.vesc.canbus import CanMessage, Status, Status2, Status3, Status4, Status5, Status6
from drivers.vesc.values import TIMED_OUT, Values, ValuesLayout
from sim_backend.emulators.vesc_motor import MotorCalibration
from vehicled.core.messages import MotorStatus
from vehicled.core.messages.units import ZERO_CELSIUS_K

FET_CELSIUS = 30.0
"""Temperature if the motor model has no thermometer, because the controller always has one."""
NO_THERMISTOR_CELSIUS = -95.0
SUPPLY_V = 12.0
"""Supply voltage before the first sample."""
COUNTS_PER_REVOLUTION = 6
"""Tachometer counts per electrical revolution."""
LONGEST_STEP_S = 1.0
"""Longest gap between samples that is integrated."""

_LAYOUT_SINCE = (
    ((6, 0), ValuesLayout.STATUS),
    ((5, 0), ValuesLayout.DQ_VOLTAGES),
    ((4, 0), ValuesLayout.MOS_TEMPERATURES),
    ((3, 40), ValuesLayout.CONTROLLER_ID),
    ((3, 34), ValuesLayout.PID_POSITION),
    ((3, 8), ValuesLayout.FAULT),
)


def layout_of(firmware: tuple[int, int]) -> ValuesLayout:
    """Return the layout of GET_VALUES; before 3.8 in the order of pyvesc 1.0.5."""
    return next(
        (layout for since, layout in _LAYOUT_SINCE if firmware >= since), ValuesLayout.LEGACY
    )


def status_groups(conf: AppConf) -> list[tuple[int, tuple[int, ...]]]:
    """Return period and numbers of the enabled STATUS frames that are sent together."""
    if conf.status_mode != UNREAD:
        groups = [(conf.status_rate_hz, tuple(range(1, conf.status_mode + 1)))]
    else:
        groups = [
            (conf.status_rate_hz, _bits(conf.status_mask)),
            (conf.status_rate_2_hz, _bits(conf.status_mask_2)),
        ]
    return [
        (round(1e9 / rate_hz), numbers) for rate_hz, numbers in groups if rate_hz > 0 and numbers
    ]


def _bits(mask: int) -> tuple[int, ...]:
    return tuple(bit + 1 for bit in range(6) if mask > 0 and mask >> bit & 1)


class _Average:
    """Mean since the last read; the newest value if none came since."""

    def __init__(self) -> None:
        self.newest = 0.0
        self._sum = 0.0
        self._count = 0

    def add(self, value: float) -> None:
        self.newest = value
        self._sum += value
        self._count += 1

    def read_reset(self) -> float:
        mean = self._sum / self._count if self._count else self.newest
        self._sum, self._count = 0.0, 0
        return mean


class Telemetry:
    """Converts samples of the sensor model to GET_VALUES and STATUS frames."""

    def __init__(self, params: MotorCalibration, controller_id: int) -> None:
        forward = 1.0 if params.erpm_per_mps > 0.0 else -1.0
        self._erpm_per_radps = forward * params.pole_pairs * 30.0 / pi
        # Full drive corresponds to the driver's maximum duty.
        self._duty_per_share = forward * params.max_duty
        self._controller_id = controller_id
        self.voltage_v = SUPPLY_V
        self.restart()

    def restart(self) -> None:
        """Reset counters and averages, which are in RAM."""
        self.erpm = self.duty = 0.0
        self._fet_celsius, self._motor_celsius = FET_CELSIUS, NO_THERMISTOR_CELSIUS
        self._motor_current, self._input_current = _Average(), _Average()
        self._t_ns: int | None = None
        self._used_ah = self._charged_ah = self._used_wh = self._charged_wh = 0.0
        self._turns = self._turns_either_way = 0.0

    def observe(self, sample: MotorStatus) -> None:
        """Take the present motor state. Unknown fields keep their values."""
        dt_s = (
            0.0
            if self._t_ns is None
            else min(max(0.0, (sample.t_ns - self._t_ns) * 1e-9), LONGEST_STEP_S)
        )
        self._t_ns = sample.t_ns
        if isfinite(sample.motor_speed_radps):
            self.erpm = sample.motor_speed_radps * self._erpm_per_radps
        if isfinite(sample.duty):
            self.duty = sample.duty * self._duty_per_share
        if isfinite(sample.motor_current_a):
            # Its sign distinguishes motoring from generating, not the direction of torque.
            self._motor_current.add(sample.motor_current_a)
        if isfinite(sample.input_current_a):
            self._input_current.add(sample.input_current_a)
        if isfinite(sample.input_voltage_v):
            self.voltage_v = sample.input_voltage_v
        if isfinite(sample.controller_temperature_k):
            self._fet_celsius = sample.controller_temperature_k - ZERO_CELSIUS_K
        if isfinite(sample.motor_temperature_k):
            self._motor_celsius = sample.motor_temperature_k - ZERO_CELSIUS_K
        self._turns += self.erpm * dt_s / 60.0
        self._turns_either_way += abs(self.erpm) * dt_s / 60.0
        hours = dt_s / 3600.0
        drawn_ah = self._input_current.newest * hours
        drawn_wh = drawn_ah * self.voltage_v
        self._used_ah += max(0.0, drawn_ah)
        self._charged_ah += max(0.0, -drawn_ah)
        self._used_wh += max(0.0, drawn_wh)
        self._charged_wh += max(0.0, -drawn_wh)

    def values(self, fault_code: int, timed_out: bool) -> Values:
        """Return GET_VALUES. Block commutation has no d and q quantities; without an encoder the
        position is 0."""
        return Values(
            fet_temperature_c=self._fet_celsius,
            motor_temperature_c=self._motor_celsius,
            motor_current_a=self._motor_current.read_reset(),
            input_current_a=self._input_current.read_reset(),
            d_current_a=0.0,
            q_current_a=0.0,
            duty=self.duty,
            erpm=self.erpm,
            input_voltage_v=self.voltage_v,
            used_ah=self._used_ah,
            charged_ah=self._charged_ah,
            used_wh=self._used_wh,
            charged_wh=self._charged_wh,
            tachometer=self._tachometer(self._turns),
            absolute_tachometer=self._tachometer(self._turns_either_way),
            fault_code=fault_code,
            pid_position_deg=0.0,
            controller_id=self._controller_id,
            mos_temperatures_c=(0.0, 0.0, 0.0),
            d_voltage_v=0.0,
            q_voltage_v=0.0,
            status=TIMED_OUT if timed_out else 0,
        )

    def status(self, number: int) -> CanMessage:
        """Return STATUS, or STATUS_n up to 6."""
        own = self._controller_id
        match number:
            case 1:
                return Status(own, self.erpm, self._motor_current.newest, self.duty)
            case 2:
                return Status2(own, self._used_ah, self._charged_ah)
            case 3:
                return Status3(own, self._used_wh, self._charged_wh)
            case 4:
                return Status4(
                    own, self._fet_celsius, self._motor_celsius, self._input_current.newest, 0.0
                )
            case 5:
                return Status5(own, self._tachometer(self._turns), self.voltage_v)
            case _:
                return Status6(own, 0.0, 0.0, 0.0, 0.0)

    @staticmethod
    def _tachometer(turns: float) -> int:
        # A counter of 32 bits.
        return (int(turns * COUNTS_PER_REVOLUTION) + 2**31) % 2**32 - 2**31
