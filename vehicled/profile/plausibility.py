"""Physical plausibility of a profile: relations between its numbers, and numbers far from what is
usual.

Each relation is a quantity made of one key and others, with the range that is usual and the range
that is possible. Outside the usual range is a warning, outside the possible one an error. The
ranges hold from a 1:18 model car to a truck of 40 tonnes: they find slips of unit and scale, and
are no advice on tuning.
"""

from collections.abc import Iterator, Mapping, Set
from functools import partial
from math import inf
from typing import Any

from vehicled.profile.actuators import judge_actuators
from vehicled.profile.collect import TableView
from vehicled.profile.problems import KeyPath, Level, dotted
from vehicled.profile.relation import Range, Relation
from vehicled.profile.relations import RELATIONS
from vehicled.profile.units import CONVERSIONS, did_you_mean

Verdict = tuple[KeyPath, Level, str]
"""Key path, level, message."""

_ORDERED = sorted(RELATIONS, key=lambda relation: len(relation.others))
_BY_KEY: dict[str, list[Relation]] = {}
for _relation in RELATIONS:
    _BY_KEY.setdefault(_relation.key, []).append(_relation)
_ABOUT = {
    key: [relation for relation in RELATIONS if key in (relation.key, *relation.others)]
    for key in _BY_KEY
}

USUAL_FACTOR = 100.0
"""Largest ratio of a number to its default, if no relation judges it."""
_FACTORS = {
    "rad": (1 / 45.0, 30.0),
    "radps": (1 / 45.0, 30.0),
    "s": (1 / 50.0, 50.0),
    "ms": (1 / 50.0, 50.0),
}
"""The same by unit: angles are confused by 57, and times by 1000."""
_OWN_SCALE = (
    "weight", "step_size", "erpm", "quota", "rotate", "controller_id", "host_id", "iterations",
    "schema", "port",
    "user_range_error",  # centimetres with a carrier solution, metres without one
)  # fmt: skip
"""Keys without a usual size."""


def judge(profile: TableView, wrong: Set[KeyPath] = frozenset()) -> list[Verdict]:
    """Return the implausible numbers of a profile, one verdict for each key, errors first.

    ``wrong`` are keys known to be mistakes: like a key with a verdict, they make no other key
    suspicious.
    """
    found: dict[KeyPath, Verdict] = {}
    if (lengths := _lengths(profile, wrong)) is not None:
        # One slip, and what it makes of all relations with a length is no other.
        verdict, slipped = lengths
        found[verdict[0]] = verdict
        wrong = {*wrong, *slipped}
    others = [*_lever_arms(profile), *_rates(profile), *_far_from_default(profile)]
    for level in ("error", "warning"):
        verdicts = _relations(profile, level, {*wrong}, found)
        for verdict in (*verdicts, *(verdict for verdict in others if verdict[1] == level)):
            found.setdefault(verdict[0], verdict)
    for verdict in judge_actuators(profile, {*wrong, *found}):
        found.setdefault(verdict[0], verdict)
    return list(found.values())


_LENGTHS: tuple[tuple[KeyPath, KeyPath, Range], ...] = (
    (("vehicle", "width_m"), ("vehicle", "length_m"), (0.04, 5.0)),
    (("vehicle", "wheelbase_m"), ("vehicle", "length_m"), (0.1, 1.0)),
    (("vehicle", "track_m"), ("vehicle", "width_m"), (0.2, 1.0)),
    (("vehicle", "drive", "wheel_radius_m"), ("vehicle", "wheelbase_m"), (0.01, 1.2)),
)
"""Lengths of a vehicle: key, another that it goes with, and the possible ratio of the two."""


def _lengths(profile: TableView, wrong: Set[KeyPath]) -> tuple[Verdict, list[KeyPath]] | None:
    """Return the verdict on a vehicle with all lengths in another unit, and their keys; None if
    they are in metres."""
    length_m, width_m, mass_kg = (
        profile.get("vehicle", key) for key in ("length_m", "width_m", "mass_kg")
    )
    if not length_m or not width_m or not mass_kg or ("vehicle", "mass_kg") in wrong:
        return None
    density = next(relation for relation in RELATIONS if relation.key == "vehicle.mass_kg")
    possible, usual = density.possible, density.usual
    if possible[0] <= density.quantity(mass_kg, length_m, width_m) <= possible[1]:
        return None
    for unit, factor, _ in CONVERSIONS["m"]:
        if (
            not usual[0]
            <= density.quantity(mass_kg, factor * length_m, factor * width_m)
            <= usual[1]
        ):
            continue
        slipped: dict[KeyPath, float] = {("vehicle", "length_m"): length_m}
        for path, beside, (low, high) in _LENGTHS:
            value, other = profile.get(*map(str, path)), slipped.get(beside)
            if value and other and low <= value / other <= high:
                slipped[path] = value
        if ("vehicle", "width_m") not in slipped:
            return None
        values = ", ".join(
            f"{dotted(path[1:])} = {factor * value:.4g}" for path, value in slipped.items()
        )
        text = (
            f"{length_m:g} m long, {width_m:g} m wide and {mass_kg:g} kg cannot be: these are "
            f"{unit}; did you mean {values}?"
        )
        return (("vehicle", "length_m"), "error", text), list(slipped)
    return None


def _relations(
    profile: TableView, level: Level, wrong: set[KeyPath], found: Mapping[KeyPath, Verdict]
) -> Iterator[Verdict]:
    """Iterate over the verdicts of one level; a number that is wrong by itself is found before what
    it makes of others."""
    wrong |= found.keys()
    for relation in _ORDERED:
        path = tuple(relation.key.split("."))
        paths = [tuple(name.split(".")) for name in relation.others]
        value, others = profile.get(*path), [profile.get(*other) for other in paths]
        if value is None or None in others or not wrong.isdisjoint([path, *paths]):
            continue
        if (message := _message(profile, relation, value, others, level, wrong)) is not None:
            wrong.add(path)
            # The twin may be as broken as its owner wants to see it.
            yield path, "warning" if path[0] == "sim" else level, message


def _message(
    profile: TableView,
    relation: Relation,
    value: float,
    others: list[float],
    level: Level,
    wrong: Set[KeyPath],
) -> str | None:
    """Return what is wrong with a value at this level, or None."""
    found = _quantity(relation, value, others)
    low, high = relation.usual
    possible = relation.possible[0] <= found <= relation.possible[1]
    if low <= found <= high or possible is (level == "error"):
        return None

    def fits(number: float) -> bool:
        for each in _ABOUT[relation.key]:
            keys = (each.key, *each.others)
            values = [
                number if key == relation.key else profile.get(*key.split(".")) for key in keys
            ]
            if None not in values and wrong.isdisjoint(tuple(key.split(".")) for key in keys):
                low, high = each.usual if each.key == relation.key else each.possible
                if not low <= _quantity(each, values[0], values[1:]) <= high:
                    return False
        return True

    noun, _, unit = relation.what.partition(", ")
    unit = f" {unit}" if unit else ""
    meant = did_you_mean(relation.key, value, fits)
    bounds = f"at least {low:.3g}" if high == inf else f"{low:.3g} to {high:.3g}"
    table = relation.key.rpartition(".")[0] + "."
    beside = ", ".join(
        f"{name.removeprefix(table)} = {other:g}"
        for name, other in zip(relation.others, others, strict=True)
    )
    says = (
        f"with {beside} this makes a {noun} of {found:.3g}{unit}"
        if beside
        else f"as {noun} {value:g}{unit}"
    )
    verdict = "is unusual" if possible else "cannot be"
    cure = f"; {relation.cure}" if relation.cure and not meant else ""
    return f"{value:g} {verdict}: {says}, usual is {bounds}{meant}{cure}"


def _quantity(relation: Relation, value: float, others: list[float]) -> float:
    try:
        return float(relation.quantity(value, *others))
    except (ZeroDivisionError, OverflowError, ValueError):
        return inf


def _lever_arms(profile: TableView) -> Iterator[Verdict]:
    """Check that sensors are on the vehicle or its mast."""
    length, width = profile.get("vehicle", "length_m"), profile.get("vehicle", "width_m")
    if length is None or width is None:
        return
    paths: list[KeyPath] = [("devices", name, "lever_arm_m") for name in profile.names("devices")]
    paths.append(("estimator", "ins", "imu_lever_arm_m"))
    limits = (("forward", 1.2 * length), ("left", width), ("up", max(2.0 * length, 1.0)))
    for path in paths:
        arm = profile.get(*(str(part) for part in path))
        if arm is None:
            continue
        for (side, limit), value in zip(limits, arm, strict=True):
            size = abs(value)
            if size > limit or 0.0 < size < 0.002:
                level: Level = "error" if size > 5.0 * limit else "warning"
                where = (
                    f"{value:g} m {side} is off the vehicle"
                    if size > limit
                    else f"{value:g} m {side} is less than 2 mm"
                )
                meant = did_you_mean("lever_arm_m", value, partial(_within, 0.01, limit))
                body = (
                    f"length_m = {length:g}, width_m = {width:g}; the arm counts from the "
                    "middle of the rear axle"
                )
                yield path, level, f"{where} ({body}){meant}"
                break
    own: Any = profile.written.get("estimator")
    ins = own.get("ins") if isinstance(own, dict) else None
    believed = (
        profile.get("estimator", "ins", "imu_lever_arm_m")
        if isinstance(ins, dict) and "imu_lever_arm_m" in ins
        else None
    )
    for name in profile.names("devices"):
        arm = profile.get("devices", name, "lever_arm_m")
        if (
            believed is None
            or arm is None
            or "ImuSample" not in (profile.get("devices", name, "messages") or ())
        ):
            continue
        if max(abs(a - b) for a, b in zip(believed, arm, strict=True)) > 0.01:
            text = (
                f"{believed} differs from devices.{name}.lever_arm_m = {arm}: it is the same "
                "sensor, write the same numbers"
            )
            yield ("estimator", "ins", "imu_lever_arm_m"), "warning", text


USUAL_RATES_HZ: dict[str, Range] = {
    "GnssFix": (0.5, 120.0), "Heading": (0.5, 500.0), "ImuSample": (10.0, 4000.0),
    "MotorStatus": (2.0, 1000.0), "WheelSpeed": (2.0, 1000.0), "SteeringFeedback": (2.0, 1000.0),
    "LaserScan": (1.0, 100.0), "ObstacleRange": (1.0, 500.0), "ActuatorCommand": (2.0, 1000.0),
    "ReferenceState": (1.0, 500.0), "MapPose": (1.0, 500.0),
}  # fmt: skip
"""Rates of devices by the message they give."""


def _rates(profile: TableView) -> Iterator[Verdict]:
    """Check that the rate of a device equals the rate that the profile expects."""
    for name in profile.names("devices"):
        rate_hz = profile.get("devices", name, "rate_hz")
        for message in profile.get("devices", name, "messages") or ():
            low, high = USUAL_RATES_HZ.get(message, (0.0, inf))
            if rate_hz is not None and not low <= rate_hz <= high:
                yield (
                    ("devices", name, "rate_hz"),
                    "warning",
                    f"{rate_hz:g} Hz of {message}; usual is {low:g} to {high:g} Hz",
                )
        written: Any = profile.written.get("devices")
        table = written[name].get("driver") if isinstance(written[name], dict) else None
        driver = table.get("name") if isinstance(table, dict) else table
        own_hz = profile.get("devices", name, "driver", str(driver), "rate_hz")
        acts = "ActuatorCommand" in (profile.get("devices", name, "messages") or ())
        if (
            rate_hz is not None
            and own_hz is not None
            and not acts
            and not 0.9 <= rate_hz / own_hz <= 1.1
        ):
            sets = f"the driver sets the device to {own_hz:g} Hz (driver.{driver}.rate_hz)"
            yield (
                ("devices", name, "rate_hz"),
                "warning",
                f"{rate_hz:g} Hz is expected, but {sets}; write the same number",
            )


def _within(least: float, most: float, value: float) -> bool:
    return least <= abs(value) <= most


def _far_from_default(profile: TableView) -> Iterator[Verdict]:
    """Find tuning parameters and sensor models far from their defaults, such as by a wrong unit."""
    for path, value, default in profile.numbers():
        key = str(path[-1])
        if (
            not default
            or not value
            or dotted(path) in _BY_KEY
            or key.startswith(_OWN_SCALE)
            or path[0] == "log"
        ):
            continue
        ratio = value / default
        low, high = _FACTORS.get(key.rpartition("_")[2], (1.0 / USUAL_FACTOR, USUAL_FACTOR))
        if low <= ratio <= high:
            continue
        meant = did_you_mean(key, value, partial(_within, 0.2 * abs(default), 5.0 * abs(default)))
        if ratio < 0.0:
            yield path, "warning", f"{value:g} has the other sign than usual ({default:g}){meant}"
        else:
            times = f"{ratio:.3g} times" if ratio > 1.0 else f"1/{1.0 / ratio:.3g} of"
            yield (
                path,
                "warning",
                f"{value:g} is {times} what is usual ({default:g}){meant}; look at its unit",
            )
