"""Maps a drive while it goes on: follows the log that the daemon's writer makes, in a process of
its own."""

import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import hypot
from pathlib import Path

from vehicled.core.child_process import be_expendable
from vehicled.core.messages import LaserScan, Message
from vehicled.log.errors import LogError
from vehicled.log.follow import LogFollower
from vehicled.log.reader import LogReader, run_parts
from vehicled.maps.map_file import write_map
from vehicled.offline.mapping.build import GrowingMap, Mapped
from vehicled.offline.mapping.drive import MappingDrive
from vehicled.offline.mapping.errors import MappingDriveError
from vehicled.offline.mapping.front_end import Keyframe, KeyframeMaker
from vehicled.offline.mapping.reading import READ, DriveMessages, log_facts
from vehicled.run.output import write_failed
from vehicled.run.signals import StopSignals

POLL_S = 0.5
NICENESS = 10
BATCH = 100
"""Scans that are matched together."""
HELD = 400
"""Most scans that wait for the first motion, which shows the bias of the gyro, or for the odometry
of their time."""
SHOWN = 200
"""Scans that are kept to say why they make no map."""
BEGUN_M, BEGUN_RAD = 0.1, 0.1
"""Motion from which the vehicle has begun to move."""
MOST_KEYFRAMES = 6000
MOST_S = 4 * 3600.0
"""Bounds of a map that is made while driving, and so of the memory of this process."""
BUSY_RATIO = 0.25
"""Largest fraction of the time that drawing maps takes."""
BEHIND_MB = 10.0
"""Unread part of the log from which it is said that the map falls behind the drive."""
START_S = 10.0
"""Time for a log that was just begun to get its header, s."""


class LiveMapping:
    """Keyframes and map of a drive that goes on. Pure."""

    def __init__(self, messages: DriveMessages, *, with_gnss: bool = True) -> None:
        self._messages, self._with_gnss = messages, with_gnss
        self._front, self._map = KeyframeMaker(), GrowingMap()
        self._waiting: deque[LaserScan] = deque()
        self._shown: list[LaserScan] = []
        self._first_ns = self._newest_ns = 0
        self.scans = 0

    @property
    def keyframes(self) -> list[Keyframe]:
        """Keyframes so far."""
        return self._front.frames

    @property
    def full(self) -> bool:
        """True if the map has reached its bounds."""
        lasted_s = (self._newest_ns - self._first_ns) * 1e-9
        return len(self.keyframes) >= MOST_KEYFRAMES or lasted_s >= MOST_S

    def add(self, message: Message) -> bool:
        """Add a message. Return True if scans were matched now."""
        self._messages.add(message)
        if not isinstance(message, LaserScan):
            return False
        self._first_ns = self._first_ns or message.t_ns
        self._newest_ns = max(self._newest_ns, message.t_ns)
        if len(self._messages.scans) < BATCH:
            return False
        self.match()
        return True

    def match(self, *, last: bool = False) -> None:
        """Match the scans whose time the odometry has reached; all if they are the last ones."""
        if self.full:
            self._messages.scans.clear()
            return
        drive = self._drive()
        self.scans += len(drive.scans)
        self._waiting.extend(drive.scans)
        self._messages.scans.clear()
        odometry = drive.odometry
        reached_ns = 0
        if odometry is not None:
            far_m = hypot(float(abs(odometry.x_m).max()), float(abs(odometry.y_m).max()))
            if far_m > BEGUN_M or float(abs(odometry.yaw_rad).max()) > BEGUN_RAD:
                reached_ns = int(odometry.t_ns[-1])
        while self._waiting:
            scan = self._waiting[0]
            end_ns = scan.t_ns + round(scan.time_increment_s * 1e9 * len(scan.ranges_m))
            if end_ns > reached_ns and len(self._waiting) <= HELD and not last:
                return
            self._front.add(drive, self._waiting.popleft())
            if self.full:
                self._waiting.clear()

    def _drive(self) -> MappingDrive:
        drive = self._messages.drive()
        self._shown += drive.scans[: SHOWN - len(self._shown)]
        return drive if self._with_gnss else drive.without_gnss()

    @property
    def drive(self) -> MappingDrive:
        """Drive so far, with its first scans only."""
        return replace(self._drive(), scans=self._shown)

    def map(self, resolution_m: float) -> Mapped | None:
        """Return the map so far; None if the vehicle has not moved yet."""
        if len(self.keyframes) < 2:
            return None
        return self._map.grown(self._drive(), self.keyframes, resolution_m)


class MapWriter:
    """Writes the growing map under alternating names of its image, and the final one under its
    own."""

    def __init__(self, path: Path) -> None:
        self._path, self._number = path, 0

    def _image(self, number: int) -> str:
        return f"{self._path.stem}.live{number % 2 + 1}.pgm"

    def write(self, mapped: Mapped) -> None:
        """Write the map so far. Raises :class:`SetupError`."""
        self._number += 1
        try:
            write_map(self._path, mapped.grid, self._image(self._number))
        except OSError as error:
            raise write_failed(self._path, error) from None

    def clean(self) -> None:
        """Remove the images of growing maps; the final one has been written."""
        for number in (1, 2):
            with suppress(OSError):
                self._path.with_name(self._image(number)).unlink(missing_ok=True)


def give_way() -> None:
    """Let this process take no time and no memory from the daemon."""
    os.nice(NICENESS)
    be_expendable()


def follow(
    path: Path,
    out: Path,
    resolution_m: float,
    *,
    with_gnss: bool,
    every_s: float,
    show: Callable[[str], None],
    wait: Callable[[float], None] = time.sleep,
) -> tuple[LiveMapping, str]:
    """Map the drive whose log is being written, until it ends, a signal comes or the map is full;
    write the map about every ``every_s``.

    Returns the mapping and a warning, empty if all of the drive was read. Raises
    :class:`MappingDriveError`, :class:`LogError` and :class:`SetupError`.
    """
    live = LiveMapping(_opened(path), with_gnss=with_gnss)
    writer, signals = MapWriter(out), StopSignals()
    due_s, drawn = time.monotonic() + every_s, 0

    def draw() -> None:
        nonlocal due_s, drawn
        began_s = time.monotonic()
        if began_s < due_s:
            return
        if len(live.keyframes) > drawn and (mapped := live.map(resolution_m)) is not None:
            drawn = len(live.keyframes)
            writer.write(mapped)
        took_s = time.monotonic() - began_s
        due_s = began_s + took_s + max(every_s, took_s / BUSY_RATIO)

    def over() -> bool:
        return log.ended or signals.number != 0 or live.full

    with signals, LogFollower(path, *READ) as log:
        while not over():
            for message in log.read():
                if live.add(message):
                    show(_progress(live, drawn, log))
                    draw()
                if over():
                    break
            live.match()
            draw()
            show(_progress(live, drawn, log))
            if not over():
                wait(POLL_S)
        live.match(last=True)
    return live, _warning(live, log)


def _opened(path: Path) -> DriveMessages:
    """Return the collector for the drive of a log, as soon as that has its header."""
    deadline_s = time.monotonic() + START_S
    while True:
        try:
            with LogReader(path) as log, LogReader(run_parts(path)[-1]) as newest:
                if newest.layout.complete:
                    raise MappingDriveError(
                        f"{path}: this log is complete, nothing is being recorded: build its map "
                        "without --live, or start the drive first"
                    )
                return DriveMessages(str(path), *log_facts(log))
        except LogError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(POLL_S)


def _progress(live: LiveMapping, drawn: int, log: LogFollower) -> str:
    path_m = live.keyframes[-1].path_m if live.keyframes else 0.0
    behind = log.unread_bytes * 1e-6
    late = f"; {behind:.0f} MB of the log are not read yet" if behind > BEHIND_MB else ""
    return f"{path_m:.1f} m, {len(live.keyframes)} keyframes, {drawn} of them on the map{late}"


def _warning(live: LiveMapping, log: LogFollower) -> str:
    if live.full:
        return (
            f"the map ends after {len(live.keyframes)} keyframes, the most of one that is made "
            "while driving: build the rest from the log"
        )
    damaged = f"{log.damaged_chunks} parts of the log are damaged" if log.damaged_chunks else ""
    if log.ended and not log.orderly:
        return f"the log was not ended by its run: the drive was killed{damaged and '; ' + damaged}"
    return damaged
