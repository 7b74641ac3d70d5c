"""Lines of a client's stream, with bounded memory. Pure."""

from vehicled.live.control_socket.protocol import COURSE_BEGINS, MAX_COURSE_LINE, MAX_LINE

PIECE_BYTES = 64 << 10

CoursePieces = list[bytearray]
"""Line of a request with a course, in the pieces in which it was received: joining megabytes would
hold the loop."""


class LineTooLongError(ValueError):
    """A line exceeds its limit."""


class LineReader:
    """Cuts a stream into lines."""

    def __init__(self) -> None:
        self._pieces: CoursePieces = []
        self._size = 0

    @property
    def in_course(self) -> bool:
        """True within a long line."""
        return self._size > MAX_LINE

    def feed(self, data: bytes) -> list[bytes | CoursePieces]:
        """Return the lines that ``data`` completes, without their ends. Raises
        :class:`LineTooLongError`."""
        first, *others = data.split(b"\n")
        self._add(first)
        if not others:
            return []
        *complete, rest = others
        lines: list[bytes | CoursePieces] = [self._line()]
        if complete and max(map(len, complete)) > MAX_LINE:
            for part in complete:
                self._add(part)
                lines.append(self._line())
        else:
            # Of short lines thousands may come at once.
            lines += complete
        self._add(rest)
        return lines

    def _line(self) -> bytes | CoursePieces:
        pieces, size, self._pieces, self._size = self._pieces, self._size, [], 0
        if size > MAX_LINE:
            return pieces
        return bytes(pieces[0]) if pieces else b""

    def _add(self, part: bytes) -> None:
        if not part:
            return
        # Joined as long as they are small, because a line may arrive byte by byte.
        if self._pieces and len(self._pieces[-1]) + len(part) <= PIECE_BYTES:
            self._pieces[-1] += part
        else:
            self._pieces.append(bytearray(part))
        self._size += len(part)
        if self._size > MAX_LINE:
            most = MAX_COURSE_LINE if self._pieces[0].startswith(COURSE_BEGINS) else MAX_LINE
            if self._size > most:
                raise LineTooLongError(f"line too long: at most {most} bytes")
