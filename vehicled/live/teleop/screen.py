"""Texts of the terminal: the list of keys, and the status line."""

from typing import Any

from vehicled.live.teleop.reading import Reading

KEYS = """\
enter         arm and start driving: then hold the space bar
space         deadman: hold it to drive; releasing it brakes
up, down      more throttle; less throttle, then brake      (or w, s)
left, right   steer; c centres the steering                 (or a, d)
r             change between forward and reverse, at zero throttle
x             stop          X  emergency stop          q  disarm and quit
Any other key releases the deadman, as do Ctrl-Z, Ctrl-C and a window that loses its focus."""

PAD_KEYS = """\
Deadman of the pad: hold {deadman} to drive. Start driving with {take}, stop with {stop}.
Keys: enter arms and starts driving, x stops, X is the emergency stop, q disarms and quits."""


def status_line(status: dict[str, Any], reading: Reading, hint: str, *, active: bool) -> str:
    """Return mode, speed, steering and deadman in one line."""
    if not status:
        return "waiting for the daemon"
    speed = (status.get("estimate") or {}).get("speed_mps")
    parts = [f"{status['mode']:<8} {'-.--' if speed is None else format(speed, '5.2f')} m/s"]
    parts.append(f"[{hint}]" if active else "[enter: start driving]")
    pedal = (
        f"brake {reading.brake:.1f}" if reading.brake > 0.0 else f"throttle {reading.throttle:+.2f}"
    )
    parts += [_bar(reading.steering), pedal]
    waiting = status.get("waiting_for") or []
    return "  ".join(parts + ([f"waits for: {waiting[0]}"] if waiting and active else []))


def _bar(steering: float) -> str:
    """Return the steering as a mark between left and right."""
    cells = ["-"] * 11
    cells[5] = "+"
    cells[round(5 - 5 * max(-1.0, min(1.0, steering)))] = "#"
    return "L" + "".join(cells) + "R"
