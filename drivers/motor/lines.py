"""Lines of text of a serial protocol: bounded, in linear time."""

MAX_LINE_BYTES = 128
"""Longest line that is kept."""


class BoundedLines:
    """Splits a stream into lines, cut anywhere. Never raises; empty lines are left out."""

    def __init__(self) -> None:
        self._held = b""
        self._skips = False
        self.dropped_bytes = 0
        """Bytes of lines that are too long."""
        self.bad_lines = 0
        """Lines that were not understood; counted by who reads them."""

    def clear(self) -> None:
        """Forget an incomplete line."""
        self.dropped_bytes += len(self._held)
        self._held, self._skips = b"", False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that ``data`` completes, without their ends."""
        lines = (self._held + data).replace(b"\r", b"\n").split(b"\n")
        self._held = lines.pop()
        if lines and self._skips:
            self.dropped_bytes += len(lines.pop(0))
            self._skips = False
        if len(self._held) > MAX_LINE_BYTES:
            self.dropped_bytes += len(self._held)
            self._held, self._skips = b"", True
        found = []
        for line in lines:
            if len(line) > MAX_LINE_BYTES:
                self.dropped_bytes += len(line)
            elif line:
                found.append(line)
        return found
