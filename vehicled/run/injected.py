"""Announces the failures of ``--fail`` when they begin and end, even if the daemon does not notice
them."""

from collections.abc import Iterator, Sequence
from typing import TextIO

from vehicled.core.events import INJECTED, OVER, InjectedFailure
from vehicled.core.messages import Event, Message


class InjectedFailures:
    """Start and end events of injected failures, in order of time."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Take the checked values of ``--fail``."""
        from sim_backend.emulators.failures import SECOND_NS, parse_failure

        edges = []
        for text in texts:
            failure = parse_failure(text)
            edges.append((round(failure.start_s * SECOND_NS), INJECTED, str(failure)))
            if failure.duration_s < 1e6:
                edges.append(
                    (round((failure.start_s + failure.duration_s) * SECOND_NS), OVER, str(failure))
                )
        self._edges = sorted(edges, reverse=True)

    def due(self, since_start_ns: int, now_ns: int) -> Iterator[Event]:
        """Iterate over the events up to this time of the run."""
        while self._edges and self._edges[-1][0] <= since_start_ns:
            at_ns, name, failure = self._edges.pop()
            yield InjectedFailure(failure, at_ns * 1e-9).event(now_ns, name)


def announce(stream: TextIO, message: Message) -> None:
    """Print the start or the end of an injected failure; ignore other messages."""
    if isinstance(message, Event) and (facts := InjectedFailure.read(message)) is not None:
        verb = "begins" if message.name == INJECTED else "ends"
        print(f"t = {facts.at_s:.1f} s: failure {facts.failure} {verb}", file=stream)
