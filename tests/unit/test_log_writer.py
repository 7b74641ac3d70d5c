"""The real writer process: killed daemons, stopped writers, full disks, rotation and quota."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.busy_computer import DEADLINE_S, fill_up
from vehicled.core.messages import (
    Cause,
    Direction,
    Event,
    ImuSample,
    StateEstimate,
    TaskTick,
    WireChunk,
)
from vehicled.log.errors import LogError
from vehicled.log.info import info
from vehicled.log.pipe import WriterProcess
from vehicled.log.quota import enforce, is_being_written
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.recover import recover
from vehicled.log.schema import Attachment, RunHeader, TaskRow, part_name
from vehicled.offline.analysis.timing import timing


def header(**changes):
    values: dict[str, Any] = {
        "run_id": "0123456789abcdef", "start_wall_ns": 1_790_000_000_000_000_000,
        "start_monotonic_ns": 0, "profile": "art", "course": "lot17",
        "tasks": [TaskRow(name="control", rate_hz=100.0, deadline_ns=10_000_000)], "clock": "wall",
    }  # fmt: skip
    return RunHeader(**(values | changes))


def tick(n):
    return TaskTick(n, n + 1, n + 2, 1, 10, 0, 0, False, Cause.NONE, 255)


def fill(writer, count, *, step_ns=10_000_000, data=b"", begin_ns=0):
    t_ns = 0
    for n in range(count):
        t_ns = begin_ns + n * step_ns
        writer.sink.record(tick(t_ns), t_ns)
        writer.sink.record(WireChunk(t_ns, "gnss", Direction.RX, data), t_ns)
        writer.pump(t_ns)
    return t_ns


def test_file_is_complete_when_the_run_ends(tmp_path):
    profile = b'name = "art"\npassword = "hunter2"\n'
    attachments = [Attachment("profile.toml", "application/toml", profile)]
    writer = WriterProcess.start(
        header(), folder=str(tmp_path / "deep" / "er"), blocking=True, attachments=attachments
    )
    end_ns = fill(writer, 500)
    assert is_being_written(writer.path)
    result = writer.close({"reason": "course driven", "digest": "ab"}, end_ns)
    assert (result.finished, result.failure, result.messages) == (True, "", 1000)
    assert result.path == str(tmp_path / "deep" / "er" / "art_lot17_20260921T141320Z_012345.mcap")
    assert result.bytes == os.path.getsize(result.path)
    assert writer.close({}, end_ns) == result
    assert not is_being_written(result.path)
    with LogReader(result.path) as log:
        assert log.layout.complete
        assert log.end["digest"] == "ab"
        assert log.header == header()
        assert log.attachment("profile.toml").startswith(b'name = "art"')
        assert b"hunter2" not in log.attachment("profile.toml")
        with pytest.raises(LogError, match=r"no attachment x; there are: profile\.toml"):
            log.attachment("x")


DAEMON = """
import sys, time
from vehicled.log.pipe import WriterProcess
from vehicled.log.schema import RunHeader, TaskRow
from vehicled.core.messages import Cause, TaskTick
now = time.monotonic_ns()
tasks = [TaskRow(name="control", rate_hz=100.0, deadline_ns=10_000_000)]
header = RunHeader(
    run_id="aaaaaa", start_wall_ns=time.time_ns(), start_monotonic_ns=now, profile="a", course="b",
    tasks=tasks,
)
writer = WriterProcess.start(header, folder=sys.argv[1])
print(writer.path, writer.pid, flush=True)
while True:
    now = time.monotonic_ns()
    writer.sink.record(TaskTick(now, now, now, 0, 1, 0, 0, False, Cause.NONE, 255), now)
    writer.pump(now)
    print(now, flush=True)
    time.sleep(0.005)
"""


def test_a_killed_daemon_loses_at_most_the_last_half_second(tmp_path):
    daemon = subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout is not None
    path, pid = daemon.stdout.readline().split()
    turns_ns = [int(daemon.stdout.readline())]
    while turns_ns[-1] < turns_ns[0] + 1_300_000_000:
        turns_ns.append(int(daemon.stdout.readline()))
    # Ctrl-C in the terminal and systemd's stop reach the writer as well; it must not care.
    os.kill(int(pid), signal.SIGINT)
    os.kill(int(pid), signal.SIGTERM)
    while turns_ns[-1] < turns_ns[0] + 1_400_000_000:
        turns_ns.append(int(daemon.stdout.readline()))
    daemon.kill()
    turns_ns += [int(line) for line in daemon.communicate()[0].split("\n")[:-1]]
    deadline = time.monotonic() + DEADLINE_S
    while is_being_written(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    with LogReader(path) as log:
        assert log.layout.complete
        assert log.end == {}
        last = max(record.message.end_ns for record in log.messages(TaskTick))
    assert last >= turns_ns[0]
    lost_ns = [turn_ns for turn_ns in turns_ns if turn_ns > last]
    assert not lost_ns or lost_ns[-1] - lost_ns[0] < 600_000_000
    assert "killed" in info(path).ended


def test_stopped_writer_never_blocks_the_loop_and_the_gaps_are_marked(tmp_path):
    writer = WriterProcess.start(
        header(), folder=str(tmp_path), journal_limit_bytes=1 << 20, derived_limit_bytes=1 << 18
    )
    os.kill(writer.pid, signal.SIGSTOP)
    estimate = StateEstimate(1, 1, 0.0, 0.0, 0.0, 0.0, 0.0, (0.0,) * 16)
    count, data = 20_000, os.urandom(300)
    try:
        for n in range(1, count + 1):
            t_ns = n * 1_000_000
            writer.sink.record(estimate, t_ns)
            writer.sink.record(WireChunk(t_ns, "imu", Direction.RX, data), t_ns)
            writer.pump(t_ns)
            # Limits plus one chunk of each stream, and the markers.
            assert writer.sink.outbox.waiting_bytes < (1 << 20) + (1 << 18) + 3 * 70_000
    finally:
        os.kill(writer.pid, signal.SIGCONT)
    while writer.sink.outbox.waiting_bytes:
        writer.pump(count * 1_000_000)
        time.sleep(0.002)
    result = writer.close({"reason": "test"}, (count + 1) * 1_000_000)
    assert result.finished
    assert result.dropped_derived > 0
    assert result.dropped_journal > 0
    with LogReader(result.path) as log:
        records = list(log.messages(StateEstimate, WireChunk, Event))
        assert log.end["not_replayable_after_ns"] == str(result.not_replayable_after_ns)
    kinds = [type(record.message) for record in records]
    assert kinds.count(StateEstimate) == count - result.dropped_derived
    assert kinds.count(WireChunk) == count - result.dropped_journal
    events = {
        record.message.name: json.loads(record.message.fields)
        for record in records
        if isinstance(record.message, Event)
    }
    assert {"log_dropping", "log_dropped", "not_replayable_after", "journal_dropped"} <= set(events)
    gap = events["not_replayable_after"]["complete_to_ns"]
    assert gap == result.not_replayable_after_ns
    chunks = [record.t_ns for record in records if isinstance(record.message, WireChunk)]
    assert [t for t in chunks if t <= gap] == [
        n * 1_000_000 for n in range(1, gap // 1_000_000 + 1)
    ]


def test_killed_writer_is_noticed_and_the_run_goes_on(tmp_path):
    writer = WriterProcess.start(header(), folder=str(tmp_path))
    fill(writer, 200)
    os.kill(writer.pid, signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while writer.alive and time.monotonic() < deadline:
        fill(writer, 200)
    assert "gone" in writer.failure
    fill(writer, 5000)
    assert writer.sink.outbox.waiting_bytes == 0
    result = writer.close({}, 0)
    assert not result.finished
    assert "gone" in result.failure


def test_full_disk_is_reported_and_what_was_written_is_kept(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        writer = WriterProcess.start(
            header(), folder=str(tmp_path), blocking=True, compression="none"
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    count = 0
    while writer.alive and count < 100_000:
        writer.sink.record(tick(count), count)
        writer.pump(count)
        count += 1
    assert "may not grow" in writer.failure
    result = writer.close({"reason": "test"}, count)
    assert not result.finished
    assert "may not grow" in result.failure
    assert "incomplete" in info(result.path).state
    report = recover(result.path)
    assert report.lost_bytes == 0
    with LogReader(report.path) as log:
        found = [record.message.release_ns for record in log.messages(TaskTick)]
    assert found == list(range(len(found)))
    assert len(found) > 1000


def pump_until(writer, condition, t_ns):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        t_ns += 100_000_000
        writer.sink.record(tick(t_ns), t_ns)
        writer.pump(t_ns)
        time.sleep(0.005)
    return t_ns


@pytest.mark.parametrize("rotate_mb", [4000, 0.03])
def test_a_log_goes_on_when_a_full_disk_has_space_again(small_disk, rotate_mb):
    writer = WriterProcess.start(
        header(),
        folder=str(small_disk),
        compression="none",
        sync_period_s=0.05,
        rotate_mb=rotate_mb,
    )
    t_ns = fill(writer, 300)
    while writer.sink.outbox.waiting_bytes:
        writer.pump(t_ns)
    ballast = fill_up(small_disk)
    t_ns = pump_until(writer, lambda: writer.waits, t_ns)
    assert "the disk is full; it goes on when there is space" in writer.failure
    assert writer.alive
    ballast.unlink()
    t_ns = pump_until(writer, lambda: not writer.failure, t_ns)
    t_ns = fill(writer, 300, begin_ns=t_ns + 10_000_000)
    result = writer.close({"reason": "done"}, t_ns)
    assert (result.finished, result.failure, result.not_replayable_after_ns) == (True, "", None)
    assert (len(result.files) > 1) == (rotate_mb < 1)
    events, releases = [], []
    for file in result.files:
        with LogReader(file) as log:
            assert log.layout.complete
            events += [record.message for record in log.messages(Event)]
            releases += [record.message.release_ns for record in log.messages(TaskTick)]
    assert len(releases) == result.messages - 600 - len(events)
    assert releases == sorted(set(releases))
    (waited,) = (event for event in events if event.name == "log_waited")
    assert "the disk is full" in json.loads(waited.fields)["reason"]


def test_what_a_disk_that_stays_full_has_cost_is_marked_in_the_log(small_disk):
    writer = WriterProcess.start(
        header(),
        folder=str(small_disk),
        compression="none",
        journal_limit_bytes=1 << 16,
        derived_limit_bytes=1 << 16,
    )
    t_ns = fill(writer, 300)
    ballast = fill_up(small_disk)
    t_ns = pump_until(writer, lambda: writer.waits, t_ns)
    # More than pipe and queues hold.
    t_ns = fill(writer, 3000, data=bytes(2000), begin_ns=t_ns)
    assert writer.sink.outbox.waiting_bytes < 1 << 18
    ballast.unlink()
    t_ns = pump_until(
        writer, lambda: not writer.failure and not writer.sink.outbox.waiting_bytes, t_ns
    )
    result = writer.close({}, fill(writer, 10, begin_ns=t_ns))
    assert result.finished
    assert result.dropped_journal > 0
    with LogReader(result.path) as log:
        names = {record.message.name for record in log.messages(Event)}
    assert {"log_waited", "not_replayable_after", "journal_dropped"} <= names


def test_the_end_of_a_run_does_not_wait_for_a_full_disk(small_disk):
    writer = WriterProcess.start(header(), folder=str(small_disk), compression="none")
    t_ns = fill(writer, 300)
    fill_up(small_disk)
    t_ns = pump_until(writer, lambda: writer.waits, t_ns)
    # The pipe takes no more, either.
    t_ns = fill(writer, 3000, data=bytes(2000), begin_ns=t_ns)
    result = writer.close({"reason": "done"}, t_ns, timeout_s=1e6)
    assert not result.finished
    assert "the disk is full" in result.failure


def test_a_disk_that_is_full_at_the_start_is_a_passing_fault_that_leaves_no_file(small_disk):
    fill_up(small_disk)
    with pytest.raises(LogError, match="the disk is full") as refused:
        WriterProcess.start(header(), folder=str(small_disk))
    assert refused.value.passing
    assert not list(small_disk.glob("*.mcap"))


def test_a_writer_that_is_too_slow_to_open_its_file_is_a_passing_fault_that_leaves_no_empty_file(
    tmp_path, monkeypatch
):
    path = tmp_path / part_name("art_lot17_20260921T141320Z_012345", 1)
    stuck = f"open({str(path)!r}, 'x'); import time; time.sleep(1e6)"
    start = subprocess.Popen

    def popen(command, **options):
        process = start([command[0], "-c", stuck], **options)
        while not path.exists():
            time.sleep(0.01)
        return process

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(LogError, match="does not start: no answer") as refused:
        WriterProcess.start(header(), folder=str(tmp_path), timeout_s=0.1)
    assert refused.value.passing
    assert not path.exists()


def test_folder_that_cannot_be_written_is_an_error_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="cannot be written") as refused:
        WriterProcess.start(header(), folder=str(tmp_path / "file" / "logs"))
    assert not refused.value.passing
    with pytest.raises(LogError, match='unknown compression "zip"'):
        WriterProcess.start(header(), folder=str(tmp_path), compression="zip")
    assert not list(tmp_path.glob("*.mcap"))
    # /proc takes no files, not even from root: a read-only folder wherever the tests run.
    with pytest.raises(LogError, match="/proc"):
        WriterProcess.start(header(), folder="/proc/logs")


def test_same_run_twice_does_not_overwrite(tmp_path):
    first = WriterProcess.start(header(), folder=str(tmp_path))
    with pytest.raises(LogError, match="already"):
        WriterProcess.start(header(), folder=str(tmp_path))
    assert first.close({}, 0).finished


@pytest.mark.parametrize("compression", ["lz4", "none"])
def test_other_compressions_read_back(tmp_path, compression):
    if compression == "lz4":
        pytest.importorskip("lz4.frame", reason="lz4 is optional")
    writer = WriterProcess.start(
        header(), folder=str(tmp_path), blocking=True, compression=compression
    )
    end_ns = fill(writer, 300, data=b"abc" * 20)
    result = writer.close({}, end_ns)
    with LogReader(result.path) as log:
        assert [record.message.data for record in log.messages(WireChunk)] == [b"abc" * 20] * 300


def test_rotation_makes_parts_that_stand_alone_and_timing_reads_them_all(tmp_path):
    attachments = [Attachment("course.json", "application/json", b"{}")]
    writer = WriterProcess.start(
        header(),
        folder=str(tmp_path),
        blocking=True,
        compression="none",
        rotate_mb=0.2,
        attachments=attachments,
    )
    end_ns = fill(writer, 2000, data=bytes(200))
    result = writer.close({"reason": "done"}, end_ns)
    assert len(result.files) > 2
    assert result.files == run_parts(result.path)
    releases = []
    for number, file in enumerate(result.files, start=1):
        with LogReader(file) as log:
            assert log.layout.complete
            assert log.header.part == number
            assert log.attachment("course.json") == b"{}"
            assert bool(log.end) == (file == result.files[-1])
            releases += [record.message.release_ns for record in log.messages(TaskTick)]
    assert releases == [n * 10_000_000 for n in range(2000)]
    assert timing(result.path).tasks[0].n == 2000
    assert timing(result.files[1]).tasks[0].n < 2000


def test_quota_removes_the_oldest_of_ours_only(tmp_path):
    names = [part_name(f"art_lot17_2026010{day}T000000Z_aaaaaa", 1) for day in range(1, 6)]
    for name in [*names, "holiday.mcap", names[0].replace(".mcap", "_recovered.mcap")]:
        (tmp_path / name).write_bytes(bytes(1000))
    (tmp_path / part_name("art_lot17_20250101T000000Z_aaaaaa", 1)).symlink_to(
        tmp_path / "holiday.mcap"
    )
    with open(tmp_path / names[1], "rb") as held:
        import fcntl

        fcntl.flock(held, fcntl.LOCK_EX)
        assert enforce(str(tmp_path), 3000, keep=names[0]) == [names[2], names[3]]
    left = {path.name for path in tmp_path.iterdir()}
    assert {
        names[0],
        names[1],
        names[4],
        "holiday.mcap",
        names[0].replace(".mcap", "_recovered.mcap"),
    } <= left
    assert enforce(str(tmp_path / "missing"), 0, keep="") == []


def test_quota_holds_while_a_run_goes_on(tmp_path):
    old = [tmp_path / part_name(f"art_lot17_2020010{day}T000000Z_aaaaaa", 1) for day in range(1, 4)]
    for path in old:
        path.write_bytes(bytes(1_500_000))
    writer = WriterProcess.start(
        header(), folder=str(tmp_path), blocking=True, compression="none", quota_mb=4
    )
    assert not old[0].exists()
    end_ns = fill(writer, 2500, data=bytes(2000))
    result = writer.close({}, end_ns)
    assert result.finished
    assert not any(path.exists() for path in old)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5_500_000


def test_writer_starts_without_numpy():
    code = "import sys, vehicled.log.writer; print('numpy' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )


def test_garbled_pipe_ends_the_writer_with_a_word(tmp_path):
    child = subprocess.run(
        [sys.executable, "-m", "vehicled.log.writer"],
        input=b"\xff" * 100,
        capture_output=True,
        check=False,
    )
    assert child.returncode == 5
    assert json.loads(child.stdout)["state"] == "failed"
    assert child.stderr == b""


def test_imu_samples_are_projected_beside_themselves(tmp_path):
    writer = WriterProcess.start(header(), folder=str(tmp_path), blocking=True)
    for n in range(100):
        writer.sink.record(ImuSample(n, n, (0.0, 0.0, 9.8), (0.0, 0.0, 0.0)), n)
    result = writer.close({}, 1_000)
    topics = {topic.topic: topic.messages for topic in info(result.path).topics}
    assert topics == {"/vehicled/imu_sample": 100, "/imu/data": 100}


@pytest.mark.parametrize("act", ["delete", "move", "replace", "remove the folder"])
def test_a_log_that_is_taken_away_is_noticed_and_goes_on_in_another_file(tmp_path, act):
    folder = tmp_path / "logs"
    writer = WriterProcess.start(header(), folder=str(folder), sync_period_s=0.05)
    end_ns = fill(writer, 300)
    path = Path(writer.path)
    if act in ("move", "replace"):
        path.rename(tmp_path / "moved.mcap")
        if act == "replace":
            path.write_bytes(b"other")
    else:
        path.unlink()
        if act == "remove the folder":
            folder.rmdir()
    deadline = time.monotonic() + DEADLINE_S
    while not writer.loss:
        assert time.monotonic() < deadline
        time.sleep(0.02)
        end_ns += 100_000_000
        writer.pump(end_ns)
    assert writer.alive
    end_ns = fill(writer, 300, begin_ns=end_ns)
    result = writer.close({"reason": "done"}, end_ns)
    assert result.finished
    assert {"move": "moved away", "replace": "replaced by another"}.get(
        act, "deleted"
    ) in result.failure
    (rest,) = result.files
    assert result.path == rest != str(path)
    with LogReader(rest) as log:
        assert log.layout.complete
        assert log.end["reason"] == "done"
        assert sum(1 for _ in log.messages(TaskTick)) >= 300
    if act in ("move", "replace"):
        with LogReader(str(tmp_path / "moved.mcap")) as log:
            assert log.layout.complete
