"""Response of a vehicle to its commands, from one recorded drive: steering gain, offset and delay,
and the response of its speed.

Steering. The command as it was held, moved by a delay and slewed (straight to full in ``SLEW_S``),
makes a wheel angle that is linear in gain and offset, and with the true speed a yaw rate: least
squares at each delay, and the best of them.

Speed. ``dv/dt = (reach u - friction - v) / time_constant`` under the held throttle u, its free run
fitted to the true speed. Drives at almost constant throttle say little of reach and friction apart:
a weak prior holds them, and only their difference matters then.
"""

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.messages import ActuatorCommand
from vehicled.offline.recordings.recording import Recording, seconds

SLEW_S = 0.5
"""Steering actuator of the ART, straight to full, as seen on it."""
DRIVE_DELAY_S = 0.1
FINE_S = 0.01
RATE_HALF_S = 0.3
"""The yaw rate compared is the mean over this time to both sides: a gyro's text is coarse."""
DELAYS_S = np.arange(0.0, 0.8001, 0.02)
MIN_SPEED_MPS = 0.3
MIN_ROWS = 100
PRIOR = np.array([2.0, 1.2, 0.1])
PRIOR_SIGMA = np.array([0.8, 1.0, 0.3])
SPEED_SIGMA_MPS = 0.1
CORRELATED_ROWS = 40
"""Rows over which errors of the fits are correlated, 4 s."""


class ResponseError(ValueError):
    """A drive that does not show how its vehicle answers; says why."""


class DriveResponse(Struct, frozen=True, kw_only=True):
    """Response identified from one drive. Angles of the virtual front wheel for the wheelbase of
    the recording's vehicle."""

    gain_rad: float
    """Wheel angle per unit command."""
    offset_rad: float
    delay_s: float
    """Delay from sending a command to the start of its effect; the slew comes on top."""
    r2: float
    """Share of the variance of the yaw rate that is explained."""
    reach_mps: float
    """Speed per unit throttle, in the long run and without friction."""
    friction_mps: float
    time_constant_s: float
    speed_rms_mps: float
    """Free run against truth, over the drive."""
    gain_sigma_rad: float = 0.0
    """Standard deviation of the identification, as are the next four; 0 for a response that is
    known exactly."""
    offset_sigma_rad: float = 0.0
    delay_sigma_s: float = 0.0
    speed_sigma: float = 0.0
    """Relative standard deviation of the speed at the mean throttle."""
    time_constant_sigma: float = 0.0
    """Relative standard deviation."""


def identify(recording: Recording) -> DriveResponse:
    """The response that a recording shows. Raises :class:`ResponseError` for one that has no truth
    or no commands to show it."""
    commands = [m for m in recording.inputs if isinstance(m, ActuatorCommand)]
    truth = recording.truth
    t_s = seconds(truth.t_ns)
    known = np.isfinite(truth.speed_mps) & np.isfinite(truth.yaw_rad)
    if (
        len(commands) < MIN_ROWS
        or int((known & (truth.speed_mps > MIN_SPEED_MPS)).sum()) < MIN_ROWS
    ):
        raise ResponseError(
            f"{recording.name}: fewer than {MIN_ROWS} rows of commands and motion: record a "
            "longer drive"
        )
    command_s = np.array([m.t_ns for m in commands]) * 1e-9
    fine_s = np.arange(t_s[0], t_s[-1], FINE_S)
    speed = np.interp(t_s, t_s[known], truth.speed_mps[known])
    yaw = np.interp(t_s, t_s[known], np.unwrap(truth.yaw_rad[known]))
    steering = np.array([m.steering for m in commands])
    if float(np.std(steering)) < 0.02:
        raise ResponseError(
            f"{recording.name}: the steering was hardly moved; record a drive with turns to "
            "both sides"
        )
    fine_speed = np.interp(fine_s, t_s, speed)
    gain, offset, delay_s, r2, steering_sigma = _steering(
        recording, fine_s, fine_speed, t_s, yaw, command_s, steering
    )
    throttle = _held(
        fine_s - DRIVE_DELAY_S, command_s, np.clip([m.throttle for m in commands], 0.0, 1.0)
    )
    (reach, tau, friction), rms, covariance = _speed(throttle, fine_speed, fine_speed[0])
    mean_throttle = float(throttle[fine_speed > MIN_SPEED_MPS].mean())
    level = np.array([mean_throttle, 0.0, -1.0])
    speed_mps = max(reach * mean_throttle - friction, MIN_SPEED_MPS)
    return DriveResponse(
        gain_rad=gain, offset_rad=offset, delay_s=delay_s, r2=r2,
        reach_mps=reach, friction_mps=friction, time_constant_s=tau, speed_rms_mps=rms,
        gain_sigma_rad=steering_sigma[0], offset_sigma_rad=steering_sigma[1],
        delay_sigma_s=steering_sigma[2],
        speed_sigma=float(np.sqrt(level @ covariance @ level)) / speed_mps,
        time_constant_sigma=float(np.sqrt(covariance[1, 1])) / tau,
    )  # fmt: skip


def _held(at_s: Array, t_s: Array, values: Array) -> Array:
    """Values held from one row to the next; the first one before all."""
    return np.asarray(values[np.clip(np.searchsorted(t_s, at_s + 1e-6, side="right") - 1, 0, None)])


def _steering(
    recording: Recording,
    fine_s: Array,
    speed: Array,
    t_s: Array,
    yaw: Array,
    command_s: Array,
    steering: Array,
) -> tuple[float, float, float, float, tuple[float, float, float]]:
    """Gain, offset, delay, explained share of the variance, and standard deviations of the first
    three."""
    inside = (
        (t_s > t_s[0] + 1.0)
        & (t_s < t_s[-1] - 1.0)
        & (np.interp(t_s, fine_s, speed) > MIN_SPEED_MPS)
    )
    rate = (np.interp(t_s + RATE_HALF_S, t_s, yaw) - np.interp(t_s - RATE_HALF_S, t_s, yaw)) / (
        2.0 * RATE_HALF_S
    )
    wheelbase_m = recording.vehicle.wheelbase_m
    window = np.ones(2 * round(RATE_HALF_S / FINE_S) + 1)
    window /= len(window)
    straight = np.convolve(speed / wheelbase_m, window, "same")

    def basis_at(delay_s: float) -> Array:
        wheel = _slewed(_held(fine_s - delay_s, command_s, steering))
        turning = np.convolve(wheel * speed / wheelbase_m, window, "same")
        return np.asarray(
            np.stack([np.interp(t_s, fine_s, turning), np.interp(t_s, fine_s, straight)], axis=1)[
                inside
            ]
        )

    best = (np.inf, 0.0, 0.0, 0.0)
    for delay_s in DELAYS_S:
        basis = basis_at(delay_s)
        (gain, offset), *_ = np.linalg.lstsq(basis, rate[inside], rcond=None)
        left = float((rate[inside] - basis @ np.array([gain, offset])).var())
        if left < best[0]:
            best = (left, float(gain), float(offset), float(delay_s))
    left, gain, offset, delay = best
    r2 = 1.0 - left / float(rate[inside].var())
    if not gain > 0.0 or r2 < 0.5:
        raise ResponseError(
            f"{recording.name}: the commands explain {max(r2, 0.0):.0%} of its turning: not "
            "the drive of these commands"
        )
    step_s = float(DELAYS_S[1] - DELAYS_S[0])
    basis = basis_at(delay)
    by_delay = (
        gain * (basis_at(delay + step_s)[:, 0] - basis_at(delay - step_s)[:, 0]) / (2.0 * step_s)
    )
    residual = rate[inside] - basis @ np.array([gain, offset])
    jacobian = np.column_stack([basis, by_delay])
    sigma = np.sqrt(
        np.diag(_covariance(jacobian, residual)) + np.array([0.0, 0.0, step_s**2 / 12.0])
    )
    return gain, offset, delay, r2, (float(sigma[0]), float(sigma[1]), float(sigma[2]))


def _slewed(command: Array) -> Array:
    step = FINE_S / SLEW_S
    out, now = np.empty(len(command)), 0.0
    for k, goal in enumerate(command.tolist()):
        now += min(max(goal - now, -step), step)
        out[k] = now
    return out


def _speed(
    throttle: Array, speed: Array, start_mps: float
) -> tuple[tuple[float, float, float], float, Array]:
    """(reach, time constant, friction), the RMS of the free run, and the covariance (3, 3);
    Gauss-Newton with the prior, numerical Jacobian.
    """
    every = slice(None, None, round(0.1 / FINE_S))

    def run(p: Array) -> Array:
        reach, tau, friction = p
        share, v, out = FINE_S / tau, start_mps, np.empty(len(throttle))
        for k, goal in enumerate((reach * throttle - friction).tolist()):
            out[k] = v
            v = max(0.0, v + share * (goal - v))
        return out[every]

    def residual(p: Array) -> Array:
        return np.concatenate(
            [(run(p) - speed[every]) / SPEED_SIGMA_MPS, (p - PRIOR) / PRIOR_SIGMA]
        )

    lower, upper = np.array([0.1, 0.2, 0.0]), np.array([10.0, 10.0, 5.0])
    p, now = PRIOR.copy(), residual(PRIOR)
    damping = 1e-3
    for _ in range(40):
        jacobian = np.stack(
            [(residual(p + step) - now) / 1e-4 for step in 1e-4 * np.eye(3)], axis=1
        )
        normal = jacobian.T @ jacobian
        move = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -jacobian.T @ now)
        trial = np.clip(p + move, lower, upper)
        after = residual(trial)
        if float(after @ after) < float(now @ now):
            small = float(np.abs(trial - p).max()) < 1e-5
            p, now, damping = trial, after, max(damping / 3.0, 1e-9)
            if small:
                break
        else:
            damping *= 5.0
            if damping > 1e9:
                break
    missed = run(p) - speed[every]
    rms = float(np.sqrt(np.mean(missed**2)))
    jacobian = np.stack([(run(p + step) - run(p)) / 1e-4 for step in 1e-4 * np.eye(3)], axis=1)
    return (
        (float(p[0]), float(p[1]), float(p[2])),
        rms,
        _covariance(jacobian, missed, PRIOR_SIGMA / SPEED_SIGMA_MPS),
    )


def _covariance(jacobian: Array, residual: Array, prior_sigma: Array | None = None) -> Array:
    """Return the covariance (p, p) of a least-squares fit whose rows are correlated (Newey & West
    1987, Econometrica 55, 703-708). ``prior_sigma`` (p,), in units of the rows' error, is that of a
    fit with priors.
    """
    normal = jacobian.T @ jacobian
    if prior_sigma is not None:
        normal = normal + np.diag(prior_sigma**-2.0)
    scores = jacobian * residual[:, None]
    meat = scores.T @ scores
    for lag in range(1, min(CORRELATED_ROWS, len(residual) // 4)):
        both = scores[lag:].T @ scores[:-lag]
        meat = meat + (1.0 - lag / CORRELATED_ROWS) * (both + both.T)
    bread = np.linalg.inv(normal)
    return np.asarray(bread @ meat @ bread)
