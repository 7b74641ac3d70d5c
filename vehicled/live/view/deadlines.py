"""Deadline statistics of the tasks over the last ten seconds, from their ticks. Pure."""

from collections import deque
from typing import Any

from vehicled.core.attribution import HOLDERS, holder_name
from vehicled.core.messages import Cause, TaskTick
from vehicled.live.view.wire import TaskFacts

WINDOW_NS = 10 * 10**9
MOST_TICKS = 20_000
"""Largest number of ticks kept per task: 10 s at 2 kHz."""


class _TaskDeadlines:
    def __init__(self, facts: TaskFacts) -> None:
        self.facts = facts
        self.ticks: deque[tuple[int, float]] = deque(maxlen=MOST_TICKS)
        self.cause = ""
        self.worst_ms = 0.0
        """Longest response since the last call, ms."""


class DeadlineWindow:
    """Response times of every task of the rate table."""

    def __init__(self, tasks: list[TaskFacts]) -> None:
        self._tasks = [_TaskDeadlines(facts) for facts in tasks]
        self._now_ns = 0

    def add(self, tick: TaskTick) -> None:
        """Add a release."""
        if tick.task >= len(self._tasks):
            return
        task = self._tasks[tick.task]
        response_ms = (tick.end_ns - tick.release_ns) * 1e-6
        self._now_ns = max(self._now_ns, tick.end_ns)
        task.ticks.append((tick.end_ns, response_ms))
        task.worst_ms = max(task.worst_ms, response_ms)
        if tick.missed:
            task.cause = self._cause(tick)

    def _cause(self, tick: TaskTick) -> str:
        cause = tick.cause.name.lower().replace("_", " ")
        holder = holder_name(
            tick.cause, tick.holder, [task.facts.name for task in self._tasks], HOLDERS
        )
        if not holder:
            return cause
        return f"{cause} behind {holder}" if tick.cause is Cause.QUEUED else f"{cause} ({holder})"

    def take_worst_ms(self) -> list[float | None]:
        """Return the longest response of each task since the last call; None without a release."""
        worst = [round(task.worst_ms, 3) if task.worst_ms else None for task in self._tasks]
        for task in self._tasks:
            task.worst_ms = 0.0
        return worst

    def rows(self) -> list[dict[str, Any]]:
        """Return for each task the response quantiles over the window and the cause of the last
        miss since the start of the view.
        """
        return [self._row(task) for task in self._tasks]

    def _row(self, task: _TaskDeadlines) -> dict[str, Any]:
        ticks = task.ticks
        while ticks and self._now_ns - ticks[0][0] > WINDOW_NS:
            ticks.popleft()
        responses = sorted(response_ms for _, response_ms in ticks)
        row: dict[str, Any] = {"task": task.facts.name, "cause": task.cause}
        for name, quantile in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0)):
            row[name] = (
                round(responses[min(int(quantile * len(responses)), len(responses) - 1)], 3)
                if responses
                else None
            )
        return row
