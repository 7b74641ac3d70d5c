"""Real costs of the tasks of a lockstep run on this computer, beside those that virtual time
charges them."""

import time

from vehicled.core.attribution import Reading
from vehicled.core.executive import DeclaredStopwatch
from vehicled.core.observers import Observers
from vehicled.core.tasks import PIPELINE
from vehicled.profile.plugins import label
from vehicled.run.plan import Plan

LATE_FRACTION = 0.01
"""Fraction of the steps beyond the deadline from which on a task is reported."""
LEAST_STEPS = 3
"""The first steps of a drive load and compile what they need."""


class _Cost:
    """Real cost of one task."""

    __slots__ = ("computed_late", "longest_ns", "n", "total_ns", "waited_late")

    def __init__(self) -> None:
        self.n = self.total_ns = self.longest_ns = 0
        """Computing time; a step within its deadline counts with what it waited."""
        self.computed_late = 0
        """Steps that used the processor for longer than the deadline."""
        self.waited_late = 0
        """Steps that took longer, which also another program may cause."""


class TaskCosts(DeclaredStopwatch):
    """Virtual time, with the real times of the tasks beside it: in lockstep a slow controller would
    otherwise go unnoticed."""

    def __init__(self, plan: Plan, virtual: DeclaredStopwatch, observers: Observers) -> None:
        super().__init__(virtual.costs_ns)
        self._virtual = virtual
        self._plan = plan
        self._deadlines_ns = [plan.wiring.rates[name].deadline_ns for name in PIPELINE]
        self._costs = [_Cost() for _ in PIPELINE]
        self._since_ns = 0
        self._computed_ns = 0
        """Processor time at the last reading plus the durations of the steps since. What these
        waited, less than their deadlines, is missing from the computing of a late step after
        them."""
        self._note = observers.guard("task costs", self._noted, None)

    def begin(self, now_ns: int) -> Reading:
        self._since_ns, self._computed_ns = time.perf_counter_ns(), time.thread_time_ns()
        return self._virtual.begin(now_ns)

    def end(self, task: int, begin: Reading) -> Reading:
        self._note(task)
        return self._virtual.end(task, begin)

    def wake_ns(self, due_ns: int, free_ns: int) -> int:
        return self._virtual.wake_ns(due_ns, free_ns)

    def _noted(self, task: int) -> None:
        now_ns = time.perf_counter_ns()
        used_ns = now_ns - self._since_ns
        self._since_ns = now_ns
        cost = self._costs[task]
        if used_ns > self._deadlines_ns[task]:
            # Only here, because the processor time costs a system call.
            cpu_ns = time.thread_time_ns()
            used_ns, self._computed_ns = max(cpu_ns - self._computed_ns, 0), cpu_ns
            cost.waited_late += 1
            cost.computed_late += used_ns > self._deadlines_ns[task]
        else:
            self._computed_ns += used_ns
        cost.n += 1
        cost.total_ns += used_ns
        if used_ns > cost.longest_ns:
            cost.longest_ns = used_ns

    def late(self) -> list[str]:
        """Return a line about each task that would be late in real time.

        That is a task that computed for longer than its deadline in a hundredth of its steps, or
        that took longer in half of them, which preemption does not do.
        """
        return [text for task, cost in enumerate(self._costs) if (text := self._line(task, cost))]

    def _line(self, task: int, cost: _Cost) -> str:
        computes = cost.computed_late >= LEAST_STEPS and cost.computed_late > LATE_FRACTION * cost.n
        waits = cost.waited_late >= LEAST_STEPS and cost.waited_late > 0.5 * cost.n
        if not computes and not waits:
            return ""
        # Of a task that does both, say what makes most steps late.
        computes = computes and not (waits and cost.computed_late < 0.5 * cost.waited_late)
        deadline_ms = self._deadlines_ns[task] / 1e6
        steps = cost.computed_late if computes else cost.waited_late
        how = "computed for longer" if computes else "took longer"
        costs = (
            f", {cost.total_ns / cost.n / 1e6:.2f} ms of computing on average, "
            f"{cost.longest_ns / 1e6:.1f} ms at most"
        )
        return (
            f"{PIPELINE[task]}{self._with(task)} {how} than its deadline of {deadline_ms:g} ms "
            f"in {steps / cost.n:.0%} of its {cost.n} steps on this computer{costs}: in real "
            "time it would be late"
        )

    def _with(self, task: int) -> str:
        profile = self._plan.loaded.profile
        parts = {"control": profile.controller, "fusion": profile.estimator}
        part = parts.get(PIPELINE[task])
        return "" if part is None else f" with {label(part.name)}"
