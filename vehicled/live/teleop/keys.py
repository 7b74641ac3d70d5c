"""Decodes the bytes of a terminal into keys. Bytes may be split anywhere; unknown keys are reported
as ``OTHER``."""

from enum import Enum


class Key(Enum):
    """Key press, or one of its repeats."""

    HOLD = "space"
    FORWARD = "up"
    SLOWER = "down"
    LEFT = "left"
    RIGHT = "right"
    CENTRE = "c"
    TURN_ROUND = "r"
    TAKE = "enter"
    STOP = "x"
    EMERGENCY = "X"
    LEAVE = "q"
    OTHER = "another key"
    """Unknown key, paste, mouse event, or loss of the window's focus."""


_PLAIN = {
    0x20: Key.HOLD,
    0x0A: Key.TAKE,
    0x0D: Key.TAKE,
    0x7F: Key.STOP,
    0x08: Key.STOP,
    **{ord(c): Key.FORWARD for c in "wW"},
    **{ord(c): Key.SLOWER for c in "sS"},
    **{ord(c): Key.LEFT for c in "aA"},
    **{ord(c): Key.RIGHT for c in "dD"},
    **{ord(c): Key.CENTRE for c in "cC"},
    **{ord(c): Key.TURN_ROUND for c in "rR"},
    **{ord(c): Key.LEAVE for c in "qQ"},
    ord("x"): Key.STOP,
    ord("X"): Key.EMERGENCY,
}
_ARROWS = {ord("A"): Key.FORWARD, ord("B"): Key.SLOWER, ord("C"): Key.RIGHT, ord("D"): Key.LEFT}
_ESCAPE, _FOCUS_GAINED = 0x1B, b"\x1b[I"
_LONGEST = 32


class KeyDecoder:
    """Incremental decoder of key presses."""

    def __init__(self) -> None:
        self._rest = b""

    @property
    def waits(self) -> bool:
        """Return True if an escape sequence is incomplete; it is a lone Esc if nothing follows."""
        return bool(self._rest)

    def give_up(self) -> list[Key]:
        """End an incomplete sequence after its timeout."""
        waited, self._rest = bool(self._rest), b""
        return [Key.OTHER] if waited else []

    def feed(self, data: bytes) -> list[Key]:
        """Return the keys that ``data`` completes."""
        data, self._rest = self._rest + data, b""
        keys: list[Key] = []
        at = 0
        while at < len(data):
            if data[at] != _ESCAPE:
                keys.append(_PLAIN.get(data[at], Key.OTHER))
                at += 1
                continue
            end = _sequence_end(data, at)
            if end == 0:
                self._rest = data[at:]
                break
            sequence = data[at:end]
            if sequence != _FOCUS_GAINED:
                arrow = len(sequence) == 3 and sequence[1:2] in (b"[", b"O")
                keys.append(_ARROWS.get(sequence[2], Key.OTHER) if arrow else Key.OTHER)
            at = end
        return keys


def _sequence_end(data: bytes, at: int) -> int:
    """Return the end of the escape sequence that begins at ``at``; 0 if it is incomplete."""
    if at + 1 >= len(data):
        return 0
    if data[at + 1 : at + 2] == b"O":
        return at + 3 if at + 2 < len(data) else 0
    if data[at + 1 : at + 2] != b"[":
        # Alt and a key, or Esc and then a key: unknown in both cases.
        return at + 2
    for end in range(at + 2, min(len(data), at + _LONGEST)):
        if not 0x20 <= data[end] <= 0x3F:
            return end + 1
    return at + _LONGEST if len(data) >= at + _LONGEST else 0
