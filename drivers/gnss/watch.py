"""Monitors of RTK, headings and missed epochs: one message at the start and end of each, never one
per frame."""

from collections import deque
from collections.abc import Sequence
from math import isfinite, nan
from typing import Any

from drivers.gnss.baseline import Baseline
from vehicled.core.messages import CarrierSolution, Event, FixType, GnssFix, Message
from vehicled.core.wire.episodes import StateEpisodes
from vehicled.core.wire.usage import MessageUsage, UsageProblem

QUIET_NS = 10_000_000_000
"""Time without a missing epoch after which the gaps are over."""
PAUSE_MS = 60_000
"""Step between epochs that means a new time fix, not lost epochs."""
RATE_STEPS = 15
"""Steps whose median gives the period of a receiver that was not configured."""
RATE_STEPS_LEAST = 5
RTK_STATES = ("none", "single", "dgps", "float", "fixed")
"""Solution states, worst first."""


def event(t_ns: int, level: str, name: str, **fields: Any) -> Event:
    """Return an event log entry. Unknown numbers are null."""
    return Event.of(t_ns, level, name, **fields)


def rtk_state(fix: GnssFix) -> str:
    """Return the solution state, one of ``RTK_STATES``."""
    if fix.fix_type not in (FixType.FIX_3D, FixType.FIX_2D, FixType.DEAD_RECKONING):
        return "none"
    if fix.carrier is CarrierSolution.FIXED:
        return "fixed"
    if fix.carrier is CarrierSolution.FLOAT:
        return "float"
    return "dgps" if fix.differential else "single"


class RtkWatch:
    """Monitor of the solution state and of the age of corrections."""

    def __init__(self, stale_s: float) -> None:
        self._stale_s = stale_s
        self._corrections = StateEpisodes("fresh")
        self._solution = StateEpisodes(RTK_STATES[0])
        self._age_s = nan

    @property
    def state(self) -> str:
        """Present state, one of ``RTK_STATES``."""
        return self._solution.state

    def on_fix(self, fix: GnssFix) -> Sequence[Message]:
        """Return the events of one fix, usually none."""
        found: list[Message] = []
        self._age_s = age_s = fix.correction_age_s
        if isfinite(age_s):
            change = self._corrections.update(
                "stale" if age_s > self._stale_s else "fresh", fix.t_rx_ns
            )
            if change is not None and change.now != "fresh":
                found.append(
                    event(
                        fix.t_rx_ns,
                        "warning",
                        "corrections_stale",
                        age_s=age_s,
                        limit_s=self._stale_s,
                    )
                )
            elif change is not None and not change.unsteady:
                found.append(event(fix.t_rx_ns, "info", "corrections_fresh", age_s=age_s))
        found += self._to(rtk_state(fix), fix.t_rx_ns, "")
        return found

    def lost(self, now_ns: int, reason: str) -> Sequence[Message]:
        """Report that the fixes have stopped."""
        self._corrections, self._age_s = StateEpisodes("fresh"), nan
        return self._to(RTK_STATES[0], now_ns, reason)

    def _to(self, state: str, t_ns: int, reason: str) -> Sequence[Message]:
        change = self._solution.update(state, t_ns)
        if change is None:
            return ()
        better = RTK_STATES.index(change.now) > RTK_STATES.index(change.before)
        fields: dict[str, Any] = {
            "before": change.before,
            "now": change.now,
            "correction_age_s": self._age_s,
        }
        if change.unsteady:
            return (event(t_ns, "warning", "rtk_unsteady", **fields),)
        if change.changes > 1:
            fields["changes"] = change.changes
        if reason:
            fields["reason"] = reason
        return (event(t_ns, "info" if better else "warning", "rtk_state", **fields),)


class HeadingWatch:
    """Monitor of headings: reports that they are refused, and that another length of the baseline
    was learnt."""

    def __init__(self, baseline: Baseline, usage: MessageUsage) -> None:
        self.baseline = baseline
        """Length of the vector between the antennas."""
        self._usage = usage
        self._state = StateEpisodes("found")

    def update(self, problem: UsageProblem | None, t_ns: int) -> Sequence[Message]:
        """Return the events of one heading, used if ``problem`` is None; usually none."""
        change = self._state.update("found" if problem is None else "lost", t_ns)
        if change is None:
            return ()
        if change.unsteady:
            return (event(t_ns, "warning", "heading_unsteady"),)
        changes = {"changes": change.changes} if change.changes > 1 else {}
        if problem is None:
            return (event(t_ns, "info", "heading_back", **changes),)
        fields = {"field": problem.field, "value": str(problem.value)}
        known = {key: text for key, text in fields.items() if text}
        return (
            event(t_ns, "warning", "heading_lost", reason=problem.reason.value, **known, **changes),
        )

    def relearnt(self, name: str, t_ns: int) -> Sequence[Message]:
        """Return the event of a baseline that was learnt from the vector of message ``name``, and
        replaced another."""
        learnt = self.baseline.take_learnt()
        if learnt is None:
            return ()
        before_m, now_m = (round(length_m, 3) for length_m in learnt)
        self._usage.remark(
            name, f"its baseline of {now_m} m is learnt: measure it and state baseline_m"
        )
        return (
            (event(t_ns, "warning", "baseline_changed", before_m=before_m, now_m=now_m),)
            if before_m
            else ()
        )


class GapWatch:
    """Monitor of skipped epochs, which mean that the receiver or its line is overloaded."""

    def __init__(self, modulus_ms: int) -> None:
        self._modulus_ms = modulus_ms
        self._period_ms = 0
        self._steps_ms: deque[int] = deque(maxlen=RATE_STEPS)
        self._last_ms: int | None = None
        self._missed_at_ns: int | None = None
        self._episode = 0
        self._missed = 0

    def expect(self, period_ms: int) -> None:
        """Set the configured period. Without it, the usual step of the stream is the period."""
        self._period_ms, self._last_ms = period_ms, None

    def take_missed(self) -> int:
        """Return the number of skipped epochs since the last call."""
        missed, self._missed = self._missed, 0
        return missed

    def on_epoch(self, counter_ms: int, t_rx_ns: int) -> Sequence[Message]:
        """Return the events of one epoch, usually none."""
        last = self._last_ms
        step = (counter_ms - last) % self._modulus_ms if last is not None else 0
        if step > self._modulus_ms - PAUSE_MS:
            # This epoch was overtaken by the next one.
            return ()
        self._last_ms = counter_ms
        if not 0 < step <= PAUSE_MS:
            return ()
        period_ms = self._period_ms or self._learned_ms(step)
        if not period_ms:
            return ()
        missed = round(step / period_ms) - 1
        if missed > 0:
            self._missed += missed
            self._episode += missed
            begins, self._missed_at_ns = self._missed_at_ns is None, t_rx_ns
            if begins:
                return (
                    event(
                        t_rx_ns,
                        "warning",
                        "epochs_missing",
                        missed=missed,
                        gap_ms=step,
                        period_ms=period_ms,
                    ),
                )
        elif self._missed_at_ns is not None and t_rx_ns - self._missed_at_ns > QUIET_NS:
            episode, self._episode, self._missed_at_ns = self._episode, 0, None
            return (event(t_rx_ns, "info", "epochs_regular", missed=episode, period_ms=period_ms),)
        return ()

    def _learned_ms(self, step_ms: int) -> int:
        """Return the median step, which single outliers do not move; 0 with too few steps."""
        steps = self._steps_ms
        steps.append(step_ms)
        return sorted(steps)[len(steps) // 2] if len(steps) >= RATE_STEPS_LEAST else 0
