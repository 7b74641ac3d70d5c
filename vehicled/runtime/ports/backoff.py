"""Back-off before a port is reopened."""

import random

from msgspec import Struct

_STABLE_S = 3.0


class Retry(Struct, frozen=True, kw_only=True):
    """Bounds of the pause between two attempts, s."""

    min_s: float = 0.1
    max_s: float = 3.0

    @property
    def stable_s(self) -> float:
        """Open time after which a port counts as recovered, s; a port lost sooner continues its
        back-off."""
        return max(_STABLE_S, 10 * self.min_s)


POLITE = Retry(min_s=10.0, max_s=300.0)
"""Pauses before returning to a server that closed the connection soon: many ban clients that do not
wait."""
STEADY_S = 60.0
"""Duration of a connection after which its end is no refusal, s."""


class Backoff:
    """Doubling pauses with jitter within their bounds, so that ports lost together do not reopen in
    step."""

    def __init__(self, retry: Retry, rng: random.Random, first_s: float | None = None) -> None:
        """``first_s`` is the first pause; None: a random one."""
        self._retry = retry
        self._rng = rng
        self._upper_s = retry.min_s
        self._first_s = first_s

    def pause_s(self) -> float:
        """Return the pause before the next attempt, s."""
        self._upper_s = min(2 * self._upper_s, self._retry.max_s)
        first_s, self._first_s = self._first_s, None
        if first_s is not None:
            return first_s
        return max(self._retry.min_s, self._rng.uniform(self._upper_s / 2, self._upper_s))

    def reset(self) -> None:
        """Start again with the shortest pause."""
        self._upper_s = self._retry.min_s
