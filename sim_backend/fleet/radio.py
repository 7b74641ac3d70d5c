"""Radio channel between the vehicles of a fleet: delay, jitter, loss and range."""

from collections.abc import Callable
from math import hypot
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from sim_backend.sensors.noise import stream
from vehicled.core.messages import NeighbourState

BLOCK = 256
"""Random numbers drawn at a time. It affects cost only, never values."""


class RadioModel(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Quality of the radio channel between any two vehicles."""

    delay_ms: Annotated[float, Meta(ge=0.0, le=1000.0)] = 20.0
    """Time from the sender's port to the receiver's."""
    jitter_ms: Annotated[float, Meta(ge=0.0, le=1000.0)] = 0.0
    """Largest further delay, drawn evenly for each message and receiver."""
    loss: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    """Fraction of the messages that a receiver does not get."""
    range_m: Annotated[float, Meta(gt=0.0, le=1e6)] | None = None
    """Distance up to which a message arrives; left out: any."""


class Delivery(Struct, frozen=True):
    """Message on its way to one receiver."""

    receiver: str
    arrival_ns: int
    state: NeighbourState


class RadioChannel:
    """Carries broadcasts. Each link from sender to receiver has random numbers of its own."""

    def __init__(self, model: RadioModel, seed: int) -> None:
        self._model, self._seed = model, seed
        self._draws: dict[tuple[str, str], Callable[[], float]] = {}

    def broadcast(
        self,
        sender: str,
        t_ns: int,
        state: NeighbourState,
        places_m: dict[str, tuple[float, float]],
    ) -> list[Delivery]:
        """Return what arrives, and where, of a message sent at ``t_ns``, in the order of the names
        in ``places_m``: where all vehicles are."""
        model, (x_m, y_m) = self._model, places_m[sender]
        sent = replace(state, sender=sender)
        found = []
        for receiver, (to_x_m, to_y_m) in places_m.items():
            if receiver == sender:
                continue
            draw = self._draw(sender, receiver)
            # Both numbers for every message: what is lost must not shift those that follow.
            lost, late = draw() < model.loss, draw() * model.jitter_ms
            away_m = hypot(to_x_m - x_m, to_y_m - y_m)
            if lost or (model.range_m is not None and away_m > model.range_m):
                continue
            arrival_ns = t_ns + round((model.delay_ms + late) * 1e6)
            found.append(Delivery(receiver, arrival_ns, sent))
        return found

    def _draw(self, sender: str, receiver: str) -> Callable[[], float]:
        link = sender, receiver
        if link not in self._draws:
            self._draws[link] = _uniform(self._seed, f"radio/{sender}/{receiver}")
        return self._draws[link]


def _uniform(seed: int, entity: str) -> Callable[[], float]:
    generator = stream(seed, entity)
    waiting: list[float] = []

    def draw() -> float:
        if not waiting:
            waiting.extend(generator.random(BLOCK)[::-1].tolist())
        return waiting.pop()

    return draw
