"""What the driver is told: the keys, and a line of what the vehicle does."""

from typing import Any

from vehicled.teleop.reading import Reading

KEYS = """\
enter         arm, and drive by hand: then hold the space bar
space         held: the deadman; let go: the brake
up, down      more throttle; off the throttle and brake     (or w, s)
left, right   turn the wheels; c centres them               (or a, d)
r             forward or backward, at no throttle
x             stop          X  emergency stop          q  disarm and leave
Any other key lets go. So do a window that loses its focus, Ctrl-Z and Ctrl-C."""

PAD_KEYS = """\
The pad drives while its deadman is held: {deadman}. Take the vehicle with {take}, stop with {stop}.
Here: enter arms and drives by hand, x stops, X emergency stop, q disarms and leaves."""


def status_line(status: dict[str, Any], reading: Reading, hint: str, *, seated: bool) -> str:
    """Mode, speed, wheel and the deadman in one line."""
    if not status:
        return "waiting for the daemon"
    speed = (status.get("estimate") or {}).get("speed_mps")
    parts = [f"{status['mode']:<8} {'-.--' if speed is None else format(speed, '5.2f')} m/s"]
    parts.append(f"[{hint}]" if seated else "[enter: drive by hand]")
    pedal = f"brake {reading.brake:.1f}" if reading.brake > 0.0 else f"throttle {reading.throttle:+.2f}"
    parts += [_bar(reading.steering), pedal]
    waiting = status.get("waiting_for") or []
    return "  ".join(parts + ([f"waits for: {waiting[0]}"] if waiting and seated else []))


def _bar(steering: float) -> str:
    """The wheel as a mark between left and right."""
    cells = ["-"] * 11
    cells[5] = "+"
    cells[round(5 - 5 * max(-1.0, min(1.0, steering)))] = "#"
    return "L" + "".join(cells) + "R"
