"""Checklist before the first drive: findings of the profile, and questions that only the owner can
answer."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from vehicled.live.setup.steps import STEPS, missing
from vehicled.profile import Note, Profile

FIRST_MPS = 1.0
"""Speed of a first lap."""


class CheckItem(Struct, frozen=True):
    """One line of the checklist."""

    text: str
    state: str
    """``ok``, ``look`` for what should be changed first, ``ask`` for what the owner confirms."""


def checklist(profile: Profile, findings: Sequence[Note], done: Collection[str]) -> list[CheckItem]:
    """Return the checklist of a vehicle. ``done``: steps that were measured now or in an earlier
    set-up."""
    left = [step.name for step in STEPS if step.name not in done and not missing(step, profile)]
    items = [
        CheckItem(
            f"steps not done yet: {', '.join(left)}"
            if left
            else "every step of the set-up is done",
            "look" if left else "ok",
        )
    ]
    wrong = [note for note in findings if note.level != "note"]
    items += [CheckItem(str(note), "look") for note in wrong] or [
        CheckItem("vehicled check finds nothing", "ok")
    ]
    stop = profile.safety.independent_stop
    if stop.kind == "none":
        items.append(
            CheckItem(
                (
                    "no independent stop: nothing stops a drive that no longer obeys. Keep within "
                    "reach of its switch"
                ),
                "look",
            )
        )
    elif not stop.last_tested:
        items.append(
            CheckItem(
                (
                    f"the {stop.kind.replace('_', ' ')} was never tested: test it now, and write "
                    "the date"
                ),
                "look",
            )
        )
    if not profile.vehicle.drive.brake_deceleration_mps2:
        items.append(
            CheckItem("it has no brake and coasts to a stop: leave it three times the room", "look")
        )
    if profile.rc is not None and not profile.rc.failsafe_tested:
        items.append(
            CheckItem(
                "the fail-safe of the RC handset was never tested: docs/rc.md says how", "look"
            )
        )
    if profile.limits.max_speed_mps > FIRST_MPS:
        items.append(
            CheckItem(
                (
                    f"the first lap is driven at no more than {FIRST_MPS:g} m/s: vehicled speed "
                    f"{FIRST_MPS:g}"
                ),
                "ok",
            )
        )
    asks = (
        "the battery is charged and strapped down",
        "every plug is fixed, and no cable reaches a wheel",
        "nobody and nothing stands within 5 m of the course, and somebody watches it",
        (
            "you know how it is stopped: x in vehicled teleop, vehicled stop in another terminal, "
            "and the switch on the vehicle"
        ),
    )
    return [*items, *(CheckItem(text, "ask") for text in asks)]
