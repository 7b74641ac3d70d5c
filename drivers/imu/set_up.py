"""Configuration by request and reply, shared by Xsens, VectorNav and MicroStrain.

A device writes its set-up as a generator of :class:`SetUpRequest`, which receives each reply. This module handles timeouts,
retries, and a new attempt after a failure or after silence (the sensor may have restarted with other settings). Samples pass
throughout, so a sensor that streams the right data but cannot be configured still works.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct

from drivers.imu.base import Codec, ImuDevice, ImuParams
from vehicled.core.messages import Fault, Message, PortState, Reaction
from vehicled.core.ports import NEVER_NS

MAX_REPLIES = 64
"""Replies kept between two reads of the port; more than any set-up expects at once."""


class Refusal(Struct, frozen=True, gc=False):
    """Negative reply of the device. The script may try an alternative."""

    reason: str


class SetUpRequest(Struct, frozen=True, gc=False):
    """One request. ``judge`` returns the answer, a Refusal, or None for an unrelated reply; it never raises."""

    what: str
    """Completes "no answer to the request to ..."."""
    request: bytes
    judge: Callable[[Any], Any]
    timeout_s: float | None = None
    """Timeout of a slow request, s, instead of ``Params.answer_timeout_s``."""


Script = Generator[SetUpRequest, Any, dict[str, object]]
"""Set-up script: yields requests, receives answers, returns the fields of its event log entry."""


class ConfigurationError(Exception):
    """Error of a script: the device answers but rejects the settings. Not retried until it falls silent or the port reopens."""


class TalkingCodec(Codec, Protocol):
    """Codec that collects replies apart from data."""

    replies: list[Any]


class ConfigurableParams(ImuParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of an inertial sensor that can be configured over its port."""

    configure: bool = True
    """Set rate and outputs when the port opens; false only listens and never sends."""
    answer_timeout_s: Annotated[float, Meta(ge=0.01, le=10)] = 0.5
    """Longest wait for an answer of the device, s."""
    tries: Annotated[int, Meta(ge=1, le=20)] = 3
    """Attempts per request before the set-up fails."""
    retry_s: Annotated[float, Meta(ge=0.1, le=600)] = 5.0
    """Pause between a failed set-up and the next, s."""
    silence_s: Annotated[float, Meta(ge=0.1, le=60)] = 2.0
    """Time without samples after which a configured sensor is configured again, s."""


class ConfigurableImuDevice(ImuDevice):
    """Driver of an inertial sensor that needs configuration. A subclass adds :meth:`script`."""

    def __init__(
        self, params: ConfigurableParams, messages: Sequence[type[Message]], command_lifetime_ns: int, codec: TalkingCodec
    ) -> None:
        """Take the arguments of :class:`ImuDevice`."""
        super().__init__(params, messages, command_lifetime_ns, codec)
        self._talk = params
        self._replies = codec.replies
        self._script: Script | None = None
        self._ask: SetUpRequest | None = None
        self._tries_left = 0
        self._due_ns = NEVER_NS
        self._settled = False
        self._last_rx_ns = 0
        self._samples_before = 0
        self.configured = False
        """True after a successful set-up; always false without ``Params.configure``."""
        self.configuration_failed = False
        """True while a failed set-up is reported; ends with the next success."""
        self.attempts = 0

    @abstractmethod
    def script(self) -> Script:
        """Return the set-up script, which works in any state of the device."""

    def interrupts(self, reply: Any) -> bool:
        """True if ``reply`` shows a restart of the device, so that the set-up must begin again."""
        return False

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Start the set-up when the port opens; cancel it when the port is lost."""
        messages = list(super().on_port(state, detail, now_ns))
        self._replies.clear()
        self._end()
        self._due_ns = NEVER_NS
        self._settled = self.configured = False
        if state is PortState.OPENED and self._talk.configure:
            self._start(now_ns, messages)
        return messages

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        messages = super().on_rx(data, t_rx_ns)
        if self.samples != self._samples_before:
            self._samples_before = self.samples
            self._last_rx_ns = t_rx_ns
        if self._replies:
            messages = list(messages)
            replies = self._replies[:]
            self._replies.clear()
            for reply in replies:
                self._offer(reply, t_rx_ns, messages)
        return messages

    def next_due_ns(self) -> int:
        return self._due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Repeat the request, give up, retry, or detect silence."""
        messages: list[Message] = []
        if now_ns < self._due_ns:
            return messages
        if self._ask is not None:
            if self._tries_left:
                self._put(now_ns)
            else:
                self._fail(f"no answer to the request to {self._ask.what}", now_ns, messages)
                self._due_ns = now_ns + round(self._talk.retry_s * 1e9)
        elif self._settled and now_ns < (silent_ns := self._silent_ns()):
            self._due_ns = silent_ns
        else:
            self._start(now_ns, messages)
        return messages

    def _silent_ns(self) -> int:
        return self._last_rx_ns + round(self._talk.silence_s * 1e9)

    def _start(self, now_ns: int, messages: list[Message]) -> None:
        self._end()
        self._settled = self.configured = False
        self.attempts += 1
        self._script = self.script()
        self._advance(None, now_ns, messages)

    def _end(self) -> None:
        if self._script is not None:
            self._script.close()
        self._script = self._ask = None

    def _offer(self, reply: Any, now_ns: int, messages: list[Message]) -> None:
        if self._talk.configure and self._due_ns != NEVER_NS and self.interrupts(reply):
            self._start(now_ns, messages)
        elif self._ask is not None:
            answer = self._ask.judge(reply)
            if answer is not None:
                self._advance(answer, now_ns, messages)

    def _advance(self, answer: Any, now_ns: int, messages: list[Message]) -> None:
        assert self._script is not None
        try:
            self._ask = self._script.send(answer)
        except StopIteration as stop:
            self._end()
            self.configured = True
            self._settle(now_ns)
            if self.configuration_failed:
                self.configuration_failed = False
                messages.append(self._fault(now_ns, False, "set up"))
            messages.append(self.event(now_ns, "info", "imu_configured", **stop.value))
        except ConfigurationError as error:
            self._fail(str(error), now_ns, messages)
            self._settle(now_ns)
        else:
            self._tries_left = self._talk.tries
            self._put(now_ns)

    def _settle(self, now_ns: int) -> None:
        self._settled = True
        self._last_rx_ns = now_ns
        self._due_ns = self._silent_ns()

    def _put(self, now_ns: int) -> None:
        assert self._ask is not None
        self._tries_left -= 1
        self.send(self._ask.request, now_ns)
        timeout_s = self._talk.answer_timeout_s if self._ask.timeout_s is None else self._ask.timeout_s
        self._due_ns = now_ns + round(timeout_s * 1e9)

    def _fail(self, reason: str, now_ns: int, messages: list[Message]) -> None:
        self._end()
        if not self.configuration_failed:
            self.configuration_failed = True
            messages.append(self._fault(now_ns, True, reason))

    def _fault(self, now_ns: int, active: bool, reason: str) -> Fault:
        return Fault(now_ns, "imu_configuration", self.name, Reaction.WARN, active, reason)
