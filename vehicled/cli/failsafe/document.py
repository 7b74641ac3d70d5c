"""The matrix as a table for people: on the terminal, and as ``docs/failsafe.md``, which is made of nothing else."""

import textwrap
from math import isfinite

from vehicled.messages import Mode, Reaction
from vehicled.safety.arming import CHECKS
from vehicled.safety.matrix import CAPABILITIES, MATRIX
from vehicled.safety.rule import Clear, Row, Rule

GRADES = {
    Reaction.WARN: "S0",
    Reaction.CAP_SPEED: "S1",
    Reaction.CONTROLLED_STOP: "S2",
    Reaction.BRAKE: "S3",
    Reaction.DISABLE: "S4",
}
MAX_WIDTH = 120
"""Longer lines are hard to read, however wide the terminal is."""

_HEAD = """\
# The failsafe matrix

Made by `vehicled failsafe list --markdown` from the table that the daemon runs by (`vehicled/safety/matrix.py`); a test compares
the two. `vehicled failsafe test` injects every row into a drive, closed loop, and measures detection, reaction time, stop distance.

Reactions: **S0** told · **S1** speed capped · **S2** controlled stop on the path · **S3** brake now · **S4** drive disabled and
latched, the strongest braking stays applied. The most severe one in force wins. Nothing resumes by itself: a stop ends in STANDBY
or FAULT, and whoever wants to go on arms anew, through every check. What clears *by itself* only lifts a warning or a cap.

Times are the longest from the fault to the changed frame to the actuator, with the limits as shipped. *Detects* is what the
detector needs, *persists* how long it must last; 0 only where one sample leaves no doubt.

## Rows
"""

_RULES = """
## Rules

| row | code | reaction | detects | persists | within | clears | modes |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""

_ARMING = """
## Arming

A request waits ten seconds for all of these; then it is refused, with the cause and the cure of each that is missing.

| check | what must be right |
| --- | --- |
"""

_RESUMING = """
A drive asks for all of them once more when it begins: what fails between arming and driving keeps the vehicle where it is. A stick
must be held and neutral besides. A request that has waited for ten seconds is refused, whatever kept it waiting: a check, a vehicle
that does not come to rest, a daemon that stood still, a machine that slept. One that leads nowhere in the present mode is answered
with the reason at once. A stop is never refused, and during a gentle stop it is the brake.

A drive that was stopped in mid-course goes on where the vehicle stands: the place is followed from the stop on, also while a hand
drives along the course, so that neither a crossing nor the end of a lap catches it. There it must stand within the corridor and
look along the course. Else a drive begins at the start, if the vehicle stands there, as it does when the course was driven to its
end. In any other place arming is refused: drive it back by hand, or take it to the start. The log and `vehicled status` say where
a drive was resumed.
"""

_ALIGNMENT = """
## Alignment by driving

`vehicled mode align` arms a vehicle that does not know its heading and drives it straight ahead, see [heading.md](heading.md). It
waits for the checks above without `estimator`, `heading` and `place`, and for these: `alignment.allowed`, a GNSS position, a
measured speed, and a circle of `alignment.distance_m`, the stop distance and the vehicle's own size inside the fence. In mode ALIGN
every rule of the table that names it is in force. Until the estimator has started, the speed is that of wheels and GNSS. The fence
is judged for the worst direction, and obstacles are looked for straight ahead. The corridor does not count.

The drive also ends in a controlled stop, with the reason, when GNSS is silent, when the wheels turn against the command, when the
vehicle turns by 29 degrees although it is steered straight, when the estimated heading is 29 degrees off the line that was driven,
and when `alignment.distance_m` or `alignment.time_s` are used up. The vehicle is disarmed afterwards in any case.
"""

_CHOICES = """
## Why it is as it is

- **A measurement that is not finite** (row 11) is refused at the door and counted; the vehicle is not braked for it. The estimate
  never sees it, and a source that goes on like that is silent: rows 8 and 12 answer. An *estimate* that is not finite, in pose,
  speed or the variance of its position, brakes in the same tick.
- **Every task of the pipeline is critical** (row 3): one that raises brakes. What may fail without that, the writer of the log, the
  live view and the corrections, is a process or a port of its own; its end is told, and the drive goes on.
- **Processor and memory** (row 25) are told and cap nothing by themselves. What they do to a drive is that deadlines are missed,
  and that caps the speed (row 2); execution that grows within its deadlines does no harm.
- **A slow disk** (row 24) is seen by the writer's queue: the loop itself never waits for one. A log that is not written any more
  refuses arming, and does not stop a drive.
- **A speed cap** (S1) is told to the controller, which slows down to it with the deceleration of its profile: it may come in
  mid-turn. Whatever is faster gets less drive from the gate than holds the cap, and a quarter above it none; nobody is braked.
- **RTK that comes back** (row 9) lifts the cap when it has been fixed for three seconds; jumps are the gate's business (row 10),
  and a vehicle that stopped is armed anew by somebody.
- **Commands over the limits** (row 21) are no fault of a hand: the end of the stick is the limit of the vehicle.
- **The wall clock** (row 26) drives nothing, so that a step does not stop a drive. It dates the log: before arming it must have
  been set and have settled. Whether it is synchronised right now is not asked, since many a field has no network.
- **A neutral command** is asked of a stick when it takes the vehicle, not before arming: until then the command is the brake.
- **No current** (row 14) ends when the vehicle rolls: then the brake is applied after all.
"""

_OUTSIDE = """
## What answers outside the supervisor

| row | fault | by | within |
| --- | --- | --- | --- |
"""

_INDEPENDENT = """
## What only an independent stop covers

Every reaction above is a command to the actuator. A drive that no longer obeys (stuck, running away, cut off from its commands)
is stopped by a relay or a radio kill switch that cuts its supply, and by nothing else, whatever second fault comes beside it.
Declare it in `[safety.independent_stop]` (profiles/README.md): `vehicled check` then states the stopping distance at top speed.
Arming without one says so; with `required = true` it is refused.

| row | fault | what is left |
| --- | --- | --- |
"""

_DEVICES = """
## What devices tell by themselves

Their faults carry a reaction of their own, which is in force as long as the episode lasts.

| row | fault | codes |
| --- | --- | --- |
"""

_SUBSTITUTES = """
## Actuators that lack something

`[devices.x.capabilities]` says what an actuator can do. Where one of these is missing, something else stands in for it. It is told
when the vehicle is armed (event `substitutes`) and shown by `vehicled status`.

| row | fault | without | stands in |
| --- | --- | --- | --- |
"""


def plain(width: int) -> str:
    """Return every row as a block of labelled lines, wrapped to a terminal of this width."""
    return "\n".join(_block(row, min(width, MAX_WIDTH)) for row in MATRIX)


def _block(row: Row, width: int) -> str:
    codes = ", ".join(dict.fromkeys((*(rule.code for rule in row.rules), *row.devices)))
    limits = [f"{rule.code} {_time(rule.react_ms)}" for rule in row.rules]
    if isfinite(row.outside_ms):
        limits.append(f"{row.outside}: {_time(row.outside_ms)}")
    cells = (("detected by", row.detector), ("reaction", row.reaction), ("codes", codes or "none"), ("within", ", ".join(limits)))
    lines = [f"{row.number:>2}  {row.fault}"]
    for label, text in cells:
        lines += textwrap.wrap(text, width, initial_indent=f"    {label:<13}", subsequent_indent=" " * 17, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def markdown() -> str:
    """The document, whole."""
    text = _HEAD + "\n| row | fault | detected by | reaction |\n| --- | --- | --- | --- |\n"
    text += "".join(f"| {row.number} | {row.fault} | {row.detector} | {row.reaction} |\n" for row in MATRIX)
    text += _RULES + "".join(_rule(row, rule) for row in MATRIX for rule in row.rules)
    text += _ARMING + "".join(f"| {check.code} | {check.wants} |\n" for check in CHECKS) + _RESUMING + _ALIGNMENT
    text += (
        _CHOICES
        + _OUTSIDE
        + "".join(f"| {row.number} | {row.fault} | {row.outside} | {_time(row.outside_ms)} |\n" for row in MATRIX if row.outside)
    )
    text += _INDEPENDENT + "".join(f"| {row.number} | {row.fault} | {row.unobeyed} |\n" for row in MATRIX if row.unobeyed)
    text += _DEVICES + "".join(f"| {row.number} | {row.fault} | {_codes(row.devices)} |\n" for row in MATRIX if row.devices)
    text += _SUBSTITUTES + "".join(
        f"| {row.number} | {row.fault} | {name.replace('_', ' ')} | {row.substitute[name]} |\n"
        for row in MATRIX
        for name in CAPABILITIES
        if name in row.substitute
    )
    return text


def _rule(row: Row, rule: Rule) -> str:
    clears = "by arming anew" if rule.clear is Clear.REARM else f"by itself, {_time(rule.clear_ms)} after it is gone"
    modes = "all" if rule.modes == frozenset(Mode) else ", ".join(mode.name for mode in sorted(rule.modes))
    grade = GRADES[rule.reaction] + (", no current" if rule.releases_brake else "")
    return (
        f"| {row.number} | `{rule.code}` | {grade} | {_time(rule.detect_ms)} | {_time(rule.persist_ms)} | {_time(rule.react_ms)} "
        f"| {clears} | {modes} |\n"
    )


def _codes(codes: tuple[str, ...]) -> str:
    return ", ".join(f"`{code}`" for code in codes)


def _time(value_ms: float) -> str:
    return f"{value_ms:g} ms" if value_ms < 1000.0 else f"{value_ms / 1000.0:g} s"
