"""Verdict of a run: did it finish, why did it stop, what led to that, were the timing budgets
met."""

from math import degrees, isfinite, isnan, nan, sqrt
from typing import NamedTuple

from msgspec import Struct

from vehicled.core.events import INJECTED, OVER, WAIT_ENDED, CourseWait, InjectedFailure
from vehicled.core.messages import (
    Event,
    Fault,
    Mode,
    ModeChange,
    ObstacleContact,
    Reaction,
    contact_text,
)
from vehicled.daemon.reference import too_coarse
from vehicled.offline.analysis.course import COURSE_CHANGED
from vehicled.offline.analysis.report.chart import moment
from vehicled.offline.analysis.report.scan import Findings
from vehicled.safety.reason import ReasonCode

_STOPS = (Mode.STOPPING, Mode.FAULT)
_DRIVES = (Mode.ARMED, Mode.AUTO, Mode.TELEOP)
_LASTING_NS = 10 * 10**9
"""Time for which a failure that is over may still be the reason of a stop, ns."""
_MOST_LINES = 12
"""Largest number of stops and chain links listed in full."""


class DriveStop(Struct, frozen=True):
    """One stop, with the faults that led to it."""

    change: ModeChange
    chain: list[Fault]
    harder: list[ModeChange]
    """Changes of mode by which the same stop became harder."""

    @property
    def aligned(self) -> bool:
        """True if an alignment drive ended here because it had succeeded."""
        return self.change.first_code == ReasonCode.HEADING_KNOWN


class Verdict(Struct, frozen=True):
    """Summary at the top of the page."""

    good: bool | None
    """True if the drive succeeded; None if the log does not say."""
    headline: str
    sentences: list[tuple[bool | None, str]]
    stops: list[DriveStop]


def stops(f: Findings) -> list[DriveStop]:
    """Return every stop, with the faults since its drive began, in order."""
    found: list[DriveStop] = []
    chain: list[Fault] = []
    # The trip that stops the vehicle has the time of the stop and is recorded behind it.
    records: list[Fault | ModeChange] = f.rare[Fault] + f.rare[ModeChange]
    for record in sorted(records, key=lambda record: (record.t_ns, isinstance(record, ModeChange))):
        if isinstance(record, Fault):
            if record.active and record.reaction > Reaction.NONE:
                chain.append(record)
        elif record.after in _STOPS:
            if record.before is Mode.STOPPING and found:
                # Those since the stop began are what followed it.
                found[-1].chain[:] = chain
                found[-1].harder.append(record)
            else:
                found.append(DriveStop(record, list(chain), []))
        elif record.after in _DRIVES and found and found[-1].change.t_ns < record.t_ns:
            chain = []
    return found


def verdict(f: Findings) -> Verdict:
    """Judge a run by its log."""
    sentences: list[tuple[bool | None, str]] = []
    sentences += _deadlines(f)
    sentences += _figures(f)
    sentences += [(None, f"Driven slower than the course asks: {note}.") for note in f.course_notes]
    if f.counts.get(COURSE_CHANGED):
        sentences.append(
            (
                None,
                (
                    "The course was changed on the way: errors to it are those that the daemon "
                    "believed."
                ),
            )
        )
    ended = [CourseWait.read(event) for event in f.rare[Event] if event.name == WAIT_ENDED]
    if waits := [wait.duration_s for wait in ended if wait is not None]:
        times = f"{len(waits)} place(s)" if len(waits) > 1 else "one place"
        sentences.append((None, f"Waited {sum(waits):g} s at {times}, as the course asks."))
    if lanes := f.end.get("lanes", ""):
        passed = {"yes": True, "no": False}.get(f.end.get("lanes_passed", ""))
        sentences.append((passed, f"Lanes and boxes of the course: {lanes}."))
    events: list[Event] = f.rare[Event]
    if injected := list(
        dict.fromkeys(
            facts.failure for facts in map(InjectedFailure.read, events) if facts is not None
        )
    ):
        sentences.append((None, f"Injected with --fail: {', '.join(injected)}."))
    faults: list[Fault] = f.rare[Fault]
    trips = [fault for fault in faults if fault.active and fault.reaction >= Reaction.CAP_SPEED]
    if trips:
        codes = ", ".join(dict.fromkeys(fault.code for fault in trips))
        sentences.append((False, f"{len(trips)} faults with a reaction: {codes}."))
    elif f.header is not None and not f.empty:
        sentences.append((True, "No fault asked for a reaction."))
    if contacts := f.rare[ObstacleContact]:
        hardest = max(contacts, key=lambda each: each.speed_mps)
        place = f" at {f.seconds(hardest.t_ns):.1f} s"
        sentences.append(
            (
                False,
                (
                    f"{f.rare_counts[ObstacleContact]} contact(s), the hardest{place}: "
                    f"{contact_text(hardest)}."
                ),
            )
        )
    if stalls := f.end.get("stalls", ""):
        sentences.append((None, f"Stalls: {stalls}."))
    if late := f.end.get("late_tasks", ""):
        sentences.append((False, f"Really late: {late}."))
    if failed := f.end.get("observers_failed", ""):
        sentences.append((False, f"Failed beside the drive: {failed}."))
    lost = [
        event.name
        for event in f.rare[Event]
        if event.name in ("log_dropped", "journal_dropped", "not_replayable_after")
    ]
    if lost:
        sentences.append(
            (
                False,
                "The log has gaps, the disk was too slow: " + ", ".join(sorted(set(lost))) + ".",
            )
        )
    good, headline = _ending(f)
    return Verdict(good, headline, sentences, stops(f))


def _ending(f: Findings) -> tuple[bool | None, str]:
    if f.header is None:
        return None, "Not written by vehicled: only its topics are known"
    if f.empty:
        return None, "The log has no messages"
    end = f.end
    if not end:
        return None, "The log does not say how the run ended: it was killed, or the file is cut off"
    outcome, why = end.get("outcome", ""), end.get("why", "") or end.get("reason", "")
    if outcome == "finished":
        return True, f"Finished: {why}"
    if outcome:
        return (
            False,
            f"{outcome.replace('_', ' ').capitalize()}: {why}"
            if why
            else outcome.replace("_", " ").capitalize(),
        )
    return None, f"Ended: {why}" if why else "Ended in order"


def _deadlines(f: Findings) -> list[tuple[bool | None, str]]:
    if f.timing is None:
        return []
    timing = f.timing
    misses = sum(task.misses for task in timing.tasks)
    skips = sum(task.skips for task in timing.tasks)
    if timing.exceeded:
        return [(False, "Budget exceeded: " + line + ".") for line in timing.exceeded]
    if timing.uncharged and not misses and not skips:
        names = ", ".join(timing.uncharged)
        return [
            (
                None,
                (
                    f"No deadline was missed, but lockstep charged nothing for {names}: declare "
                    "what they take (declared_us)."
                ),
            )
        ]
    if not misses and not skips:
        return [(True, f"Every deadline was met: {timing.ticks} releases, no miss, no skip.")]
    counts = {f.cause_name(cause): int(found.sum()) for cause, found in f.misses.items()}
    causes = ", ".join(
        f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1])
    )
    return [
        (
            True,
            (
                f"Budgets kept: {misses} missed and {skips} skipped of {timing.ticks + skips} "
                f"releases ({causes or 'no cause'})."
            ),
        )
    ]


def _figures(f: Findings) -> list[tuple[bool | None, str]]:
    sentences: list[tuple[bool | None, str]] = []
    true = f.has("error.cross_track_m")
    if true or f.has("control_command.cross_track_m"):
        series = f.series["error.cross_track_m" if true else "control_command.cross_track_m"]
        whose = "True" if true else "Believed"
        corridor = f.limits.get("corridor_m", float("nan"))
        inside = series.largest_magnitude <= corridor if isfinite(corridor) else None
        text = (
            f"{whose} cross-track error: mean {series.mean_magnitude:.3f} m, largest "
            f"{series.largest_magnitude:.3f} m"
        )
        sentences.append(
            (inside, text + (f"; the corridor is ±{corridor:g} m." if isfinite(corridor) else "."))
        )
    if f.has("error.position_m"):
        series = f.series["error.position_m"]
        text = (
            f"Estimated position off by {series.mean_magnitude:.3f} m in the mean, "
            f"{series.max:.3f} m at most."
        )
        sentences.append((None, text))
    sentences += _reference(f)
    if f.timing is not None and f.timing.wire_to_actuator is not None:
        age = f.timing.wire_to_actuator
        text = (
            f"Newest measurement to actuator: median {age.p50_us / 1e3:.2f} ms, 99 % within "
            f"{age.p99_us / 1e3:.2f} ms."
        )
        sentences.append((None, text))
    return sentences


def _reference(f: Findings) -> list[tuple[bool | None, str]]:
    """Say how accurate the truth is, where a reference system gives it, and what it cannot
    judge."""
    sigmas = [
        f.series[f"ground_truth.{name}"].mean_magnitude if f.has(f"ground_truth.{name}") else nan
        for name in ("position_sigma_m", "yaw_sigma_rad", "speed_sigma_mps")
    ]
    position, yaw, speed = sigmas
    if not any(sigma > 0.0 for sigma in sigmas):
        return []
    sentences: list[tuple[bool | None, str]] = [
        (
            None,
            (
                f"Truth by a reference system, one sigma: {position:.3f} m, {degrees(yaw):.2f} "
                f"degrees, {speed:.3f} m/s."
            ),
        )
    ]
    # A distance in the plane has the errors of two axes.
    judged = (
        ("position_m", sqrt(2.0) * position, "m"),
        ("yaw_rad", yaw, "rad"),
        ("speed_mps", speed, "m/s"),
    )
    for name, sigma, unit in judged:
        if f.has(f"error.{name}") and too_coarse(
            sigma, error := f.series[f"error.{name}"].mean_magnitude
        ):
            what = name.rpartition("_")[0].replace("yaw", "heading")
            sizes = f"{sigma:.3g} {unit} against a mean error of {error:.3g} {unit}"
            sentences.append(
                (False, f"The truth is too coarse to judge the estimated {what}: {sizes}.")
            )
    return sentences


class StopStory(NamedTuple):
    """Parts of a stop's description: its cause, failures that were injected, other contributing
    faults, its consequences."""

    cause: str
    injected: list[str]
    chain: list[str]
    consequences: list[str]


def stop_story(f: Findings, stop: DriveStop) -> StopStory:
    """Return the cause of a stop, the failures injected before it, the faults that tripped before
    it, and its consequences.

    The cause is the fault that the stop names, else the first active fault that asked for a
    reaction as strong as the stop's, else the stop's own reason.
    """
    over_ns = {id(fault): _over_ns(f, fault, stop) for fault in stop.chain}
    lasting = [fault for fault in stop.chain if over_ns[id(fault)] is None]
    change = stop.change
    strong = [
        fault
        for fault in lasting
        if fault.reaction >= Reaction.CONTROLLED_STOP and fault.reaction >= change.reaction
    ]
    named = [
        fault
        for code in (change.first_code, change.code)
        for fault in lasting
        if fault.code == code
    ]
    cause = next(iter(named or strong), None)
    moved, *harder = (describe_change(f, each) for each in (change, *stop.harder))

    def described(fault: Fault) -> str:
        end_ns = over_ns[id(fault)]
        over = "" if end_ns is None else f", over at {moment(f.seconds(end_ns))}"
        numbers = (
            ""
            if isnan(fault.value)
            else f": {fault.value:.4g}, limit {fault.limit:.4g} {fault.unit}".rstrip()
        )
        return f"{moment(f.seconds(fault.t_ns))}: {fault.reason} ({fault.code}{numbers}){over}"

    if cause is None:
        chain, consequences = [described(fault) for fault in stop.chain], harder
    else:
        chain = [
            described(fault)
            for fault in stop.chain
            if fault is not cause and fault.t_ns <= cause.t_ns
        ]
        consequences = [
            described(fault)
            for fault in stop.chain
            if fault is not cause and fault.t_ns > cause.t_ns
        ]
        consequences += [moved, *harder]
    if len(chain) > _MOST_LINES:
        chain = [*chain[:_MOST_LINES], f"and {len(chain) - _MOST_LINES} more"]
    if len(consequences) > _MOST_LINES:
        consequences = [
            *consequences[: _MOST_LINES - 1],
            f"and {len(consequences) - _MOST_LINES} more",
            consequences[-1],
        ]
    since_ns = change.t_ns if cause is None else cause.t_ns
    return StopStory(
        moved if cause is None else described(cause), _injected(f, since_ns), chain, consequences
    )


def describe_change(f: Findings, change: ModeChange) -> str:
    """Return a change of mode in words."""
    return (
        f"{moment(f.seconds(change.t_ns))}: {change.before.name} -> {change.after.name}: "
        f"{change.reason}"
    )


def _injected(f: Findings, until_ns: int) -> list[str]:
    """Return the failures that were injected before a time and had not ended long before it."""
    events: list[Event] = f.rare[Event]
    begun: dict[str, tuple[int, str]] = {}
    for event in events:
        facts = InjectedFailure.read(event)
        if facts is None or event.t_ns > until_ns:
            continue
        failure = facts.failure
        began_ns, _ = begun.get(failure, (event.t_ns, ""))
        begun[failure] = (
            (event.t_ns, "")
            if event.name == INJECTED
            else (began_ns, f", over at {moment(f.seconds(event.t_ns))}")
        )
        if event.name == OVER and until_ns - event.t_ns > _LASTING_NS:
            del begun[failure]
    return [
        f"{moment(f.seconds(t_ns))}: {failure} (--fail){over}"
        for failure, (t_ns, over) in begun.items()
    ]


def _over_ns(f: Findings, fault: Fault, stop: DriveStop) -> int | None:
    """Return the time at which a fault ended, if before the stop."""
    faults: list[Fault] = f.rare[Fault]
    for later in faults:
        if (
            (later.code, later.origin) == (fault.code, fault.origin)
            and not later.active
            and fault.t_ns < later.t_ns < stop.change.t_ns
        ):
            return later.t_ns
    return None
