"""Configuration by request and reply, shared by Xsens, VectorNav, MicroStrain and SBG:
:mod:`drivers.set_up` for inertial sensors.

Samples pass throughout, so a sensor that streams the right data but cannot be configured still
works.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Protocol

from msgspec import Meta

from drivers.imu.base import Codec, ImuDevice, ImuParams
from drivers.set_up import Script, SetUpResult, SetUpRunner
from vehicled.core.messages import Fault, Message, PortState, Reaction
from vehicled.core.ports import NEVER_NS


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
        self,
        params: ConfigurableParams,
        messages: Sequence[type[Message]],
        command_lifetime_ns: int,
        codec: TalkingCodec,
    ) -> None:
        """Take the arguments of :class:`ImuDevice`."""
        super().__init__(params, messages, command_lifetime_ns, codec)
        self._configures = params.configure
        self._replies = codec.replies
        self._set_up = SetUpRunner(params, lambda: self.script(), self.send)
        self._samples_before = 0

    @property
    def configured(self) -> bool:
        """True after a successful set-up; always false without ``Params.configure``."""
        return self._set_up.configured

    @property
    def configuration_failed(self) -> bool:
        """True while a failed set-up is reported; ends with the next success."""
        return self._set_up.failed

    @property
    def attempts(self) -> int:
        """Set-ups begun."""
        return self._set_up.attempts

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
        self._set_up.reset()
        if state is PortState.OPENED and self._configures:
            self._run(self._set_up.start, now_ns, messages)
        return messages

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        messages = super().on_rx(data, t_rx_ns)
        if self.samples != self._samples_before:
            self._samples_before = self.samples
            self._set_up.alive(t_rx_ns)
        if self._replies:
            messages = list(messages)
            replies = self._replies[:]
            self._replies.clear()
            for reply in replies:
                if self._configures and self._set_up.due_ns != NEVER_NS and self.interrupts(reply):
                    self._run(self._set_up.start, t_rx_ns, messages)
                else:
                    self._run(partial(self._set_up.offer, reply), t_rx_ns, messages)
        return messages

    def next_due_ns(self) -> int:
        return self._set_up.due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Repeat the request, give up, retry, or detect silence."""
        messages: list[Message] = []
        self._run(self._set_up.on_time, now_ns, messages)
        return messages

    def _run(
        self, step: Callable[[int], SetUpResult | None], now_ns: int, messages: list[Message]
    ) -> None:
        before = self._set_up.failed
        result = step(now_ns)
        if result is None:
            return
        if result.fields is None:
            if not before:
                messages.append(self._fault(now_ns, True, result.reason))
            return
        if before:
            messages.append(self._fault(now_ns, False, "set up"))
        messages.append(self.event(now_ns, "info", "imu_configured", **result.fields))

    def _fault(self, now_ns: int, active: bool, reason: str) -> Fault:
        return Fault(now_ns, "imu_configuration", self.name, Reaction.WARN, active, reason)
