"""Interruptions of a receiver by chance: outages, positions that are held and jump, rounded
positions."""

from math import log

from sim_backend.sensors.attitude import Vector
from sim_backend.sensors.noise import stream
from vehicled.profile.gnss import GnssModel


class Interruptions:
    """Outages and holds with exponential durations. Three numbers are drawn per fix, whatever
    happens."""

    def __init__(self, model: GnssModel, seed: int, entity: str) -> None:
        """Chance comes from the stream ``entity`` + "/interruptions"."""
        form, dt_s = model.recorded, 1.0 / model.rate_hz
        self._chance = stream(seed, f"{entity}/interruptions")
        self._outage_s = form.outage_s
        self._outage_begins = form.outages_per_hour / 3600.0 * dt_s
        self._hold_ends = min(1.0, dt_s / form.hold_s)
        # Of all fixes the share is held: so many begin of those that are free.
        self._hold_begins = self._hold_ends * form.hold_share / (1.0 - form.hold_share)
        self._dt_s, self._step_m = dt_s, form.step_m
        self._left_s = 0.0
        self._held: Vector | None = None
        self._newest: Vector | None = None

    def step(self, place_m: Vector) -> Vector | None:
        """Return the position that this fix reports, None in an outage."""
        begins, length, hold = self._chance.random(3).tolist()
        if self._left_s <= 0.0 and begins < self._outage_begins:
            self._left_s = -self._outage_s * log(1.0 - length)
        if self._left_s > 0.0:
            self._left_s -= self._dt_s
            self._held = None
            return None
        if self._held is not None and hold < self._hold_ends:
            self._held = None
        elif self._held is None and self._newest is not None and hold < self._hold_begins:
            self._held = self._newest
        east, north, up = self._held or place_m
        if self._step_m > 0.0:
            east = round(east / self._step_m) * self._step_m
            north = round(north / self._step_m) * self._step_m
        self._newest = east, north, up
        return self._newest


def interruptions(model: GnssModel, seed: int, entity: str) -> Interruptions | None:
    """Return the interruptions of the model ``recorded``; None if it has none, as all others."""
    form = model.recorded
    has_any = form.step_m or form.hold_share or form.outages_per_hour
    return Interruptions(model, seed, entity) if model.model == "recorded" and has_any else None
