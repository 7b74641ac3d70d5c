"""Real-time set-up reports truthfully, cures every shortfall, raises nothing. Run in children, for
it changes the process."""

import gc
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.busy_computer import DEADLINE_S
from vehicled.runtime import realtime
from vehicled.runtime.realtime import (
    AS_IT_IS,
    RealtimeReport,
    RealtimeRequest,
    RealtimeSetting,
    setup,
)

LEAVE_ALONE = RealtimeRequest(
    lock_memory=False,
    fifo_priority=None,
    timer_slack_ns=None,
    freeze_gc=False,
    switch_interval_s=None,
    cpus=None,
)
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs the calls of Linux")


def in_child(code: str, *, environ: dict[str, str] | None = None, unprivileged: bool = False):
    """Run ``code`` in a fresh interpreter and return what it assigns to ``result``."""
    drop = "import os, resource\n"
    if unprivileged:
        drop += (
            "resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536)); "
            "resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))\n"
        )
        drop += "os.getuid() or os.setuid(65534)\n"
    program = "import sys, json\n" + drop + code + "\nprint(json.dumps(result))"
    # Every module is imported before the privileges go, so that it need not be readable after.
    program = "import vehicled.runtime.realtime as rt\n" + program
    env = {k: v for k, v in os.environ.items() if k not in realtime.BLAS_VARIABLES} | {
        "PYTHONPATH": os.pathsep.join(sys.path)
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env=env | (environ or {}),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


ROWS = "result = {row.what: (row.wanted, row.got, row.cure) for row in report.rows}"


def row_of(report: RealtimeReport, what: str) -> RealtimeSetting:
    return next(row for row in report.rows if row.what == what)


def test_asking_for_nothing_changes_nothing():
    before = sys.getswitchinterval(), gc.get_freeze_count(), gc.get_threshold()
    report = setup(LEAVE_ALONE)
    assert (sys.getswitchinterval(), gc.get_freeze_count(), gc.get_threshold()) == before
    for what in ("memory", "scheduling", "timer slack", "garbage collector", "switch interval"):
        assert row_of(report, what).wanted == AS_IT_IS
        assert row_of(report, what).ok


def test_text_shows_every_point_and_every_cure():
    report = RealtimeReport(
        (
            RealtimeSetting("memory", "locked", "locked"),
            RealtimeSetting("scheduling", "fifo 50", "other", "ask systemd"),
        )
    )
    assert not report.ok
    assert report.to_text().splitlines() == [
        "ok memory      locked   locked",
        "NO scheduling  fifo 50  other",
        "               -> ask systemd",
    ]
    assert report.as_dict() == {"memory": "locked", "scheduling": "other (wanted: fifo 50)"}
    assert RealtimeReport(()).to_text() == ""


def test_a_point_that_fails_is_a_row_not_an_exception(monkeypatch):
    def fail():
        raise RuntimeError("no such thing")

    monkeypatch.setattr(realtime, "_clock_source", fail)
    report = setup(LEAVE_ALONE)
    row = row_of(report, "clock source")
    assert "no such thing" in row.got
    assert not row.ok
    assert not report.ok


@linux
def test_everything_at_once_reports_what_is_so():
    rows = in_child(
        "report = rt.setup()\nimport gc\n"
        + ROWS
        + "\nresult['frozen'] = gc.get_freeze_count()\nresult['interval'] = sys.getswitchinterval()"
    )
    assert rows.pop("frozen") > 1000
    assert rows.pop("interval") == pytest.approx(5e-4)
    for what, (wanted, got, cure) in rows.items():
        assert wanted, what
        assert got, what
        assert not cure or what in (
            "memory",
            "scheduling",
            "CPU governor",
            "preemption",
            "clock source",
            "BLAS threads",
            "run delay",
        )


@linux
def test_memory_is_locked_without_being_made_resident():
    locked, before_kb, after_kb, cure = in_child(
        # A mapping that mlockall without ONFAULT would make resident in full.
        "import mmap\nbig = mmap.mmap(-1, 300 << 20)\n"
        "before = rt._status_kb('VmRSS')\nrow = rt._memory(rt.RealtimeRequest())\nmore = "
        "mmap.mmap(-1, 300 << 20)\n"
        "result = [rt._status_kb('VmLck') > 0, before, rt._status_kb('VmRSS'), row.cure]"
    )
    if cure:
        pytest.skip(f"not allowed here: {cure}")
    assert locked
    assert after_kb - before_kb < 50_000


@linux
def test_without_privileges_each_shortfall_has_its_cure():
    rows = in_child(
        "report = rt.setup(rt.RealtimeRequest(fifo_priority=10))\n"
        + ROWS
        + "\nresult['lock'] = rt._status_kb('VmLck')",
        unprivileged=True,
    )
    assert rows.pop("lock") == 0, "locking under a limit would make a later allocation fail"
    assert "LimitMEMLOCK" in rows["memory"][2]
    assert "64 kB" in rows["memory"][1]
    assert "rtprio 10" in rows["scheduling"][2]
    assert rows["scheduling"][1].startswith("other")
    assert rows["timer slack"] == ["1 ns", "1 ns", ""]


@linux
def test_a_real_time_parent_has_ordinary_children():
    got, cure, child = in_child(
        "row = rt._scheduling(rt.RealtimeRequest(fifo_priority=3))\nimport subprocess\n"
        "child = subprocess.check_output([sys.executable, '-c', 'import os; "
        "print(os.sched_getscheduler(0))'])\n"
        "result = [row.got, row.cure, int(child)]"
    )
    if cure:
        pytest.skip(f"not allowed here: {cure}")
    assert got.startswith("fifo 3")
    assert child == os.SCHED_OTHER


@linux
def test_only_the_loop_has_the_real_time_priority():
    cure, before, at_set_up, in_loop, in_child_of_loop, after = in_child(
        "before = os.sched_getscheduler(0)\npriority = rt.LoopPriority()\n"
        "row = "
        "rt._scheduling(rt.RealtimeRequest(fifo_priority=3))\npriority.set_aside()\nat_set_up "
        "= os.sched_getscheduler(0)\n"
        "import subprocess\nask = [sys.executable, '-c', 'import os; "
        "print(os.sched_getscheduler(0))']\n"
        "with priority:\n    in_loop = os.sched_getscheduler(0)\n    child = "
        "int(subprocess.check_output(ask))\n"
        "result = [row.cure, before, at_set_up & 3, in_loop & 3, child & 3, "
        "os.sched_getscheduler(0) & 3]"
    )
    if cure:
        pytest.skip(f"not allowed here: {cure}")
    assert before == at_set_up == in_child_of_loop == after == os.SCHED_OTHER
    assert in_loop == os.SCHED_FIFO


@linux
@pytest.mark.parametrize("cpus", [(100_000,), (-1,), ()])
def test_processors_that_do_not_exist_leave_the_affinity_alone(cpus):
    got, cure, same = in_child(
        f"before = os.sched_getaffinity(0)\nrow = rt._affinity(rt.RealtimeRequest(cpus={cpus}))\n"
        "result = [row.got, row.cure, os.sched_getaffinity(0) == before]"
    )
    assert same
    assert cure
    assert got


@linux
def test_a_part_of_the_processors_is_not_what_was_asked_for():
    got, cure, same = in_child(
        "before = os.sched_getaffinity(0)\nrow = "
        "rt._affinity(rt.RealtimeRequest(cpus=(min(before), 1000)))\n"
        "result = [row.got, row.cure, os.sched_getaffinity(0) == before]"
    )
    assert same, "half-applied"
    assert cure
    assert "only" in got or "rgument" in got


@linux
def test_one_processor_can_be_had():
    got, cure, affinity, one = in_child(
        "one = max(os.sched_getaffinity(0))\nrow = rt._affinity(rt.RealtimeRequest(cpus=(one,)))\n"
        "result = [row.got, row.cure, list(os.sched_getaffinity(0)), one]"
    )
    assert (got, cure, affinity) == (str(one), "", [one])


@linux
def test_blas_threads_are_counted_after_the_import_and_asked_for_before():
    before, early, late = in_child(
        "before = rt._blas()\nos.environ.update(dict.fromkeys(rt.BLAS_VARIABLES, '1'))\nearly "
        "= rt._blas()\n"
        "import numpy\nlate = rt._blas()\n"
        "result = [[r.got, r.cure] for r in (before, early, late)]"
    )
    assert "not loaded yet" in before[0]
    assert before[1]
    assert early[1] == ""
    assert late == ["1", ""]


@linux
@pytest.mark.skipif(
    (os.cpu_count() or 1) < 2, reason="one processor gets one BLAS thread whatever is asked"
)
def test_a_pool_that_exists_cannot_be_talked_away():
    got, cure = in_child(
        "import numpy\nrow = rt._blas()\nresult = [row.got, row.cure]",
        environ={"OPENBLAS_NUM_THREADS": "2"},
    )
    assert "1 that Python did not start" in got
    assert "OPENBLAS_NUM_THREADS=1" in cure


@pytest.mark.parametrize(
    ("files", "version", "got", "ok"),
    [
        ({}, "#1 SMP PREEMPT_RT Tue", "PREEMPT_RT", True),
        ({"/sys/kernel/realtime": "1"}, "#1 SMP", "PREEMPT_RT", True),
        ({}, "#1 SMP PREEMPT_DYNAMIC Tue", "dynamic, mode not readable", True),
        (
            {"/sys/kernel/debug/sched/preempt": "none voluntary (full)"},
            "#1 SMP PREEMPT_DYNAMIC",
            "dynamic, full",
            True,
        ),
        (
            {"/sys/kernel/debug/sched/preempt": "none (voluntary) full"},
            "#1 SMP PREEMPT_DYNAMIC",
            "dynamic, voluntary",
            False,
        ),
        ({}, "#1 SMP PREEMPT Tue", "full", True),
        ({}, "#1 SMP PREEMPT_VOLUNTARY", "voluntary or none", False),
        ({}, "#1 SMP Debian", "voluntary or none", False),
    ],
)
def test_preemption_model(monkeypatch, files, version, got, ok):
    monkeypatch.setattr(realtime, "_read", lambda path: files.get(path, ""))
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(version=version))
    monkeypatch.setattr(sys, "platform", "linux")
    row = realtime._preemption()
    assert (row.got, row.ok) == (got, ok)


@linux
@pytest.mark.parametrize(
    ("governors", "ok"),
    [(("performance",), True), (("performance", "powersave"), False), (("",), True)],
)
def test_governor_of_every_processor_counts(monkeypatch, governors, ok):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(len(governors)))
    monkeypatch.setattr(
        realtime,
        "_read",
        lambda path: governors[
            int(path.removeprefix("/sys/devices/system/cpu/cpu").partition("/")[0])
        ],
    )
    row = realtime._governor()
    assert row.ok is ok
    if not ok:
        assert row.got == "performance, powersave"


@pytest.mark.parametrize(
    ("source", "ok"), [("tsc", True), ("arch_sys_counter", True), ("hpet", False), ("", True)]
)
def test_slow_clocks_are_named(monkeypatch, source, ok):
    monkeypatch.setattr(realtime, "_read", lambda path: source)
    assert realtime._clock_source().ok is ok
