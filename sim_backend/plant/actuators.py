"""Simulated actuators: command board, steering servo and linkage, drive with its supply, brake.

A command passes the board (neutral after a timeout), then one dead time for steering and one for
drive and brake, and acts from the next grid point on. Queues are ordered and hold at most one entry
per grid point.
"""

from collections import deque
from math import copysign, expm1, isfinite

from sim_backend.plant.wiring import ActuatorWiring, wiring
from vehicled.core.clamp import clamp
from vehicled.profile.schema import Battery, Sim

HORIZON_NS = 1_000_000_000
"""Largest lead of a command's stamp, ns. Later ones are refused, so that the queues stay bounded;
no runtime sends them."""
_NEVER_NS = 2**63 - 1


class Supply:
    """Battery with voltage sag, and the motor current it feeds.

    Open-circuit voltage falls linearly with charge: full at the start, nominal at half. Motor
    current is proportional to torque; the controller draws the duty's fraction of it from the
    battery. Duty and back-EMF give the relative torque ``duty V / nominal - speed /
    no_load_speed``; with ``V = open - R duty I(V)`` that is one linear equation, solved exactly.
    """

    def __init__(self, battery: Battery, no_load_speed_radps: float, step_s: float) -> None:
        self._nominal_v = battery.nominal_v
        self._full_v = battery.full_v
        self._volts_per_coulomb = (
            2.0 * (battery.full_v - battery.nominal_v) / (3600.0 * battery.capacity_ah)
        )
        self._resistance_ohm = battery.internal_resistance_ohm
        self._full_drive_a = battery.full_drive_current_a
        self._no_load_radps = no_load_speed_radps
        self._step_s = step_s
        self._drawn_c = 0.0
        self.voltage_v = battery.full_v
        self.motor_current_a = 0.0
        self.input_current_a = 0.0

    def step(self, duty: float, motor_speed_radps: float) -> float:
        """Supply the motor for one grid step at a duty -1..1. Return the throttle that gives the
        same torque at nominal voltage."""
        open_v = self._full_v - self._volts_per_coulomb * self._drawn_c
        if open_v < 0.0:
            open_v = 0.0
        if duty == 0.0:
            self.voltage_v = open_v
            self.motor_current_a = self.input_current_a = 0.0
            return 0.0
        sign = 1.0
        if duty < 0.0:
            # The bridge reverses the polarity; current is drawn either way.
            sign, duty, motor_speed_radps = -1.0, -duty, -motor_speed_radps
        back_emf_share = motor_speed_radps / self._no_load_radps
        ohm_a = self._resistance_ohm * duty * self._full_drive_a
        voltage_v = (open_v + ohm_a * back_emf_share) / (1.0 + ohm_a * duty / self._nominal_v)
        torque_share = duty * voltage_v / self._nominal_v - back_emf_share
        if torque_share < 0.0:
            # The motor is faster than the duty asks for; this controller does not regenerate.
            torque_share, voltage_v = 0.0, open_v
        self.voltage_v = voltage_v
        self.motor_current_a = self._full_drive_a * torque_share
        self.input_current_a = duty * self.motor_current_a
        self._drawn_c += self.input_current_a * self._step_s
        return sign * (duty * voltage_v / self._nominal_v)


class Actuators:
    """Path from received commands to the plant's inputs: ``throttle``, ``brake`` and
    ``wheel_angle_rad`` after each step."""

    def __init__(
        self, sim: Sim, start_ns: int, step_ns: int, wired: ActuatorWiring | None = None
    ) -> None:
        """``wired`` is the wiring of ``sim``, where it is known already: reading a twin file takes
        milliseconds."""
        wired = wired or wiring(sim)
        self._start_ns = start_ns
        self._step_ns = step_ns
        self._angle_rad = wired.angle_rad
        self._max_wheel_rad = wired.max_wheel_rad
        self._slew_rad = wired.rate_radps * step_ns * 1e-9
        self._half_slack_rad = 0.5 * wired.slack_rad
        self._dead_zone = wired.dead_zone
        self._reverse_share = wired.reverse_share
        self._steering_delay_ns = round(wired.steering_delay_s * 1e9)
        self.drive_delay_ns = round(wired.drive_delay_s * 1e9)
        """Dead time of the drive, ns."""
        self._brake_delay_ns = round(wired.brake_delay_s * 1e9)
        self._timeout_ns = round(sim.command_timeout_s * 1e9)
        self._steering_queue: deque[tuple[int, float]] = deque()
        self._drive_queue: deque[tuple[int, float]] = deque()
        self._brake_queue: deque[tuple[int, float]] = deque()
        self._expiry_ns = _NEVER_NS
        self._newest_ns = start_ns
        self._now_ns = start_ns
        self._next_event_ns = _NEVER_NS
        self._target_rad = self._servo_rad = self._target(0.0)
        self._supply = Supply(sim.battery, wired.no_load_speed_radps, step_ns * 1e-9)
        self.sags = wired.no_load_speed_radps > 0.0
        """True if the drive depends on the battery voltage; else the motor speed is not used."""
        self._servo = (
            _Servo(wired, self._servo_rad, step_ns * 1e-9) if wired.bandwidth_radps > 0.0 else None
        )
        self._drive_gain = _lag_gain(wired.drive_lag_s, step_ns * 1e-9)
        self._brake_gain = _lag_gain(wired.brake_lag_s, step_ns * 1e-9)
        self._brake_commanded = 0.0
        self._drive_commanded = 0.0
        self._throttle_share = wired.throttle_share
        self._throttle_step = wired.throttle_rate_ps * step_ns * 1e-9
        self._drive_followed = 0.0
        self._drive_target = 0.0
        self.duty = 0.0
        """Commanded throttle, after the dead time."""
        self.throttle = 0.0
        """Equivalent throttle at nominal voltage, for the plant."""
        self.brake = 0.0
        self.wheel_angle_rad = self._servo_rad
        self.ignored_commands = 0
        """Number of commands that were not finite or stamped beyond ``HORIZON_NS``."""
        self.timeouts = 0
        """Number of times the board went to neutral."""

    @property
    def supply(self) -> Supply:
        """Battery and motor current, for the telemetry."""
        return self._supply

    @property
    def commanded_throttle(self) -> float:
        """Throttle that the board commands now, after the dead time and before the controller's
        ramp."""
        return self._drive_commanded

    def command(self, t_ns: int, throttle: float, brake: float, steering: float) -> None:
        """Take a command that reached the board at ``t_ns``: throttle -1..1 (reverse limited to the
        drive's ratio), brake 0..1, steering -1..1 left positive; clipped like a pulse width. A
        non-finite command is counted and ignored, and does not restart the board's timeout. Never
        raises.
        """
        if (
            not (isfinite(throttle) and isfinite(brake) and isfinite(steering))
            or t_ns > self._now_ns + HORIZON_NS
        ):
            self.ignored_commands += 1
            return
        # A wire keeps its order even if the stamps do not.
        t_ns = self._newest_ns = max(t_ns, self._newest_ns)
        if t_ns > self._expiry_ns:
            self._go_neutral()
        self._expiry_ns = t_ns + self._timeout_ns
        self._enqueue(
            t_ns,
            clamp(throttle, -self._reverse_share, 1.0),
            clamp(brake, 0.0, 1.0),
            clamp(steering, -1.0, 1.0),
        )

    def step(self, now_ns: int, motor_speed_radps: float) -> None:
        """Move the actuators over the grid step that begins at ``now_ns``."""
        if now_ns >= self._next_event_ns:
            self._act(now_ns)
        self._now_ns = now_ns
        target, servo = self._target_rad, self._servo_rad
        if target != servo:
            slew = self._slew_rad
            gap = target - servo
            if gap > slew:
                servo += slew
            elif gap < -slew:
                servo -= slew
            else:
                servo = target
            self._servo_rad = servo
            if self._servo is None:
                self._pull(servo)
        if self._servo is not None:
            self._pull(self._servo.step(servo))
        if self._drive_followed != self._drive_commanded:
            self._follow(self._drive_commanded)
        if self.duty != self._drive_target:
            self.duty = _lagged(self.duty, self._drive_target, self._drive_gain)
        if self.brake != self._brake_commanded:
            self.brake = _lagged(self.brake, self._brake_commanded, self._brake_gain)
        self.throttle = self._supply.step(self.duty, motor_speed_radps) if self.sags else self.duty

    def _follow(self, throttle: float) -> None:
        """Rate-limit the throttle and apply the controller's map."""
        gap, most = throttle - self._drive_followed, self._throttle_step
        self._drive_followed = followed = (
            throttle
            if most == 0.0 or abs(gap) <= most
            else self._drive_followed + copysign(most, gap)
        )
        throttle_map = self._throttle_share
        self._drive_target = (
            followed if throttle_map is None else copysign(throttle_map(abs(followed)), followed)
        )

    def _pull(self, servo_rad: float) -> None:
        """Move the wheels by what exceeds the slack between servo and wheels."""
        half = self._half_slack_rad
        if self.wheel_angle_rad > servo_rad + half:
            self.wheel_angle_rad = servo_rad + half
        elif self.wheel_angle_rad < servo_rad - half:
            self.wheel_angle_rad = servo_rad - half

    def _act(self, now_ns: int) -> None:
        """Apply every command due at this grid point."""
        if now_ns >= self._expiry_ns:
            self._go_neutral()
        steering, drive, brake = self._steering_queue, self._drive_queue, self._brake_queue
        while steering and steering[0][0] <= now_ns:
            self._target_rad = self._target(steering.popleft()[1])
        while drive and drive[0][0] <= now_ns:
            self._drive_commanded = drive.popleft()[1]
        while brake and brake[0][0] <= now_ns:
            self._brake_commanded = brake.popleft()[1]
        self._find_next_event()

    def _go_neutral(self) -> None:
        at_ns, self._expiry_ns = self._expiry_ns, _NEVER_NS
        self.timeouts += 1
        self._enqueue(at_ns, 0.0, 0.0, 0.0)

    def _enqueue(self, t_ns: int, throttle: float, brake: float, steering: float) -> None:
        self._put(self._steering_queue, t_ns + self._steering_delay_ns, steering)
        self._put(self._drive_queue, t_ns + self.drive_delay_ns, throttle)
        self._put(self._brake_queue, t_ns + self._brake_delay_ns, brake)
        self._find_next_event()

    def _put(self, queue: deque[tuple[int, float]], due_ns: int, value: float) -> None:
        at_ns = self._grid_point(due_ns)
        if queue and queue[-1][0] == at_ns:
            queue.pop()
        queue.append((at_ns, value))

    def _find_next_event(self) -> None:
        next_ns = self._expiry_ns
        for queue in (self._steering_queue, self._drive_queue, self._brake_queue):
            if queue and queue[0][0] < next_ns:
                next_ns = queue[0][0]
        self._next_event_ns = next_ns

    def _grid_point(self, t_ns: int) -> int:
        """Return the first grid point at or after ``t_ns``."""
        return self._start_ns + -((self._start_ns - t_ns) // self._step_ns) * self._step_ns

    def _target(self, steering: float) -> float:
        """Return the servo's target angle for a command -1..1."""
        size = abs(steering)
        if self._dead_zone > 0.0:
            size = (
                (size - self._dead_zone) / (1.0 - self._dead_zone)
                if size > self._dead_zone
                else 0.0
            )
        return clamp(
            self._angle_rad(size if steering >= 0.0 else -size),
            -self._max_wheel_rad,
            self._max_wheel_rad,
        )


class _Servo:
    """Second-order follower of an angle, integrated implicitly."""

    def __init__(self, wired: ActuatorWiring, angle_rad: float, step_s: float) -> None:
        stiff = wired.bandwidth_radps * step_s
        self._pull = stiff * wired.bandwidth_radps
        self._implicit_gain = 1.0 / (1.0 + 2.0 * wired.damping_ratio * stiff + stiff * stiff)
        self._step_s = step_s
        self._angle_rad = angle_rad
        self._rate_radps = 0.0

    def step(self, target_rad: float) -> float:
        """Angle one step on."""
        self._rate_radps = self._implicit_gain * (
            self._rate_radps + self._pull * (target_rad - self._angle_rad)
        )
        self._angle_rad += self._step_s * self._rate_radps
        return self._angle_rad


def _lag_gain(lag_s: float, step_s: float) -> float:
    return -expm1(-step_s / lag_s) if lag_s > 0.0 else 1.0


def _lagged(value: float, target: float, gain: float) -> float:
    """A first-order step towards the target, which is reached in the end."""
    after = value + gain * (target - value)
    return target if gain == 1.0 or abs(target - after) < 1e-6 else after
