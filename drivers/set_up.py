"""Configuration of a device by request and reply.

A device writes its set-up as a generator of :class:`SetUpRequest`, which receives each reply.
:class:`SetUpRunner` handles timeouts, retries, and a new attempt after a failure or after silence
(the device may have restarted with other settings).
"""

from collections.abc import Callable, Generator
from typing import Any, Protocol

from msgspec import Struct

from vehicled.core.ports import NEVER_NS

MAX_REPLIES = 64
"""Replies kept between two reads of the port; more than any set-up expects at once."""


class Refusal(Struct, frozen=True, gc=False):
    """Negative reply of the device. The script may try an alternative."""

    reason: str


class SetUpRequest(Struct, frozen=True, gc=False):
    """One request. ``judge`` returns the answer, a Refusal, or None for an unrelated reply; it
    never raises."""

    what: str
    """Completes "no answer to the request to ..."."""
    request: bytes
    judge: Callable[[Any], Any]
    timeout_s: float | None = None
    """Timeout of a slow request, s, instead of ``Params.answer_timeout_s``."""
    optional: bool = False
    """True if the script goes on without an answer: it is asked once, and then receives None."""


Script = Generator[SetUpRequest, Any, dict[str, object]]
"""Set-up script: yields requests, receives answers, returns the fields of its event log entry."""


class ConfigurationError(Exception):
    """Error of a script: the device answers but rejects the settings. Not retried until it falls
    silent or the port reopens."""


class SetUpTimes(Protocol):
    """Times of a set-up, from the parameters of a device."""

    @property
    def configure(self) -> bool:
        """True if anything may be sent."""
        ...

    @property
    def answer_timeout_s(self) -> float:
        """Time to wait for an answer, s."""
        ...

    @property
    def tries(self) -> int:
        """Attempts per request before the set-up fails."""
        ...

    @property
    def retry_s(self) -> float:
        """Pause between a failed set-up and the next, s."""
        ...

    @property
    def silence_s(self) -> float:
        """Time without data after which a configured device is configured again, s."""
        ...


class SetUpResult(Struct, frozen=True):
    """End of an attempt: the fields of the script, or the reason of its failure."""

    fields: dict[str, object] | None
    reason: str = ""


class SetUpRunner:
    """Runs the set-up script of one device."""

    def __init__(
        self, times: SetUpTimes, script: Callable[[], Script], send: Callable[[bytes, int], None]
    ) -> None:
        """``script`` begins a set-up that works in any state of the device; ``send`` takes the
        bytes of a request, and the time."""
        self._times = times
        self._make, self._send = script, send
        self._script: Script | None = None
        self._ask: SetUpRequest | None = None
        self._tries_left = 0
        self._settled = False
        self._last_rx_ns = 0
        self.due_ns = NEVER_NS
        """Time at which :meth:`on_time` must be called."""
        self.configured = False
        """True after a successful set-up."""
        self.failed = False
        """True after a failed set-up, until the next success."""
        self.attempts = 0

    @property
    def asking(self) -> bool:
        """True while a request waits for its answer."""
        return self._ask is not None

    def reset(self) -> None:
        """Cancel the set-up, because the port was opened or lost."""
        self._end()
        self.due_ns = NEVER_NS
        self._settled = self.configured = False

    def start(self, now_ns: int) -> SetUpResult | None:
        """Begin the set-up, from its first request on."""
        self._end()
        self._settled = self.configured = False
        self.attempts += 1
        self._script = self._make()
        return self._advance(None, now_ns)

    def alive(self, now_ns: int) -> None:
        """Note that data arrived, so the device is not silent."""
        self._last_rx_ns = now_ns

    def offer(self, reply: Any, now_ns: int) -> SetUpResult | None:
        """Take a reply of the device."""
        answer = None if self._ask is None else self._ask.judge(reply)
        return None if answer is None else self._advance(answer, now_ns)

    def on_time(self, now_ns: int) -> SetUpResult | None:
        """Repeat the request, give up, retry, or detect silence."""
        if now_ns < self.due_ns:
            return None
        ask = self._ask
        if ask is not None:
            if self._tries_left:
                self._put(now_ns)
                return None
            if ask.optional:
                return self._advance(None, now_ns)
            self.due_ns = now_ns + round(self._times.retry_s * 1e9)
            return self._fail(f"no answer to the request to {ask.what}")
        if self._settled and now_ns < (silent_ns := self._silent_ns()):
            self.due_ns = silent_ns
            return None
        return self.start(now_ns)

    def silent(self, now_ns: int) -> bool:
        """True for a device that was set up and is silent, so that the next :meth:`on_time` sets it
        up again."""
        return self._settled and self._ask is None and now_ns >= self._silent_ns()

    def _silent_ns(self) -> int:
        return self._last_rx_ns + round(self._times.silence_s * 1e9)

    def _end(self) -> None:
        if self._script is not None:
            self._script.close()
        self._script = self._ask = None

    def _advance(self, answer: Any, now_ns: int) -> SetUpResult | None:
        assert self._script is not None
        try:
            self._ask = self._script.send(answer)
        except StopIteration as stop:
            self._end()
            self.configured, self.failed = True, False
            self._settle(now_ns)
            return SetUpResult(stop.value)
        except ConfigurationError as error:
            self._settle(now_ns)
            return self._fail(str(error))
        self._tries_left = 1 if self._ask.optional else self._times.tries
        self._put(now_ns)
        return None

    def _settle(self, now_ns: int) -> None:
        self._settled = True
        self._last_rx_ns = now_ns
        self.due_ns = self._silent_ns()

    def _put(self, now_ns: int) -> None:
        assert self._ask is not None
        self._tries_left -= 1
        if self._ask.request:
            self._send(self._ask.request, now_ns)
        timeout_s = (
            self._times.answer_timeout_s if self._ask.timeout_s is None else self._ask.timeout_s
        )
        self.due_ns = now_ns + round(timeout_s * 1e9)

    def _fail(self, reason: str) -> SetUpResult:
        self._end()
        self.failed = True
        return SetUpResult(None, reason)
