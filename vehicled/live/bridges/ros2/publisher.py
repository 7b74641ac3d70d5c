"""Publishes the records of a run as ROS 2 topics."""

import time
from collections.abc import Iterator
from itertools import chain

from vehicled.core.messages import ControlCommand
from vehicled.live.bridges.ros2.autoware import LATCHED_REPORTS, AutowareVehicle
from vehicled.live.bridges.ros2.config import Ros2Config
from vehicled.live.bridges.ros2.courses import NewCourses
from vehicled.live.bridges.ros2.dds import DdsParticipant
from vehicled.live.bridges.ros2.topics import LATCHED, RENAMED
from vehicled.log.mcapfile import MESSAGE_HEAD, message_heads
from vehicled.log.projecting import Projector
from vehicled.log.schema import CHANNELS
from vehicled.ros.cdr import unpacker
from vehicled.ros.projections import (
    PROJECTIONS,
    clock,
    static_transforms,
    twist_wanted,
    warning,
)


class Publisher:
    """Writers of all topics."""

    def __init__(
        self,
        config: Ros2Config,
        participant: DdsParticipant,
        autoware: AutowareVehicle | None = None,
    ) -> None:
        lossless = config.simulated_time
        more = () if autoware is None else autoware.projections()
        courses = NewCourses().projections()
        self._projector = Projector(config.offset_ns, (*PROJECTIONS, *courses, *more))
        self._writers = {}
        for number, channel in self._projector.channels.items():
            topic = RENAMED.get(channel.topic, channel.topic)
            self._writers[number] = participant.writer(
                topic,
                channel.schema_name.replace("/msg/", "/"),
                latched=topic in LATCHED | LATCHED_REPORTS,
                lossless=lossless,
            )
        self._clock = (
            participant.writer("/clock", "rosgraph_msgs/Clock", lossless=lossless)
            if config.simulated_time
            else None
        )
        self._diagnostics = next(
            self._writers[n]
            for n, each in self._projector.channels.items()
            if each.topic == "/diagnostics"
        )
        self._static = participant.writer("/tf_static", "tf2_msgs/TFMessage", latched=True)
        self._twist = participant.writer(
            "/cmd_vel_wanted", "geometry_msgs/TwistStamped", lossless=lossless
        )
        self._unpack = unpacker(ControlCommand)
        self._offset_ns, self._wheelbase_m = config.offset_ns, config.wheelbase_m
        self._sensors = config.sensors
        self._static_written = False
        self._quiet_until_s: dict[str, float] = {}
        self.published = 0
        self.lost = 0
        """Samples that a slow reader did not make room for."""

    def refused(self, topic: str, why: str) -> None:
        """Publish why a command of a ROS node was refused, once a second at most. Safe in any
        thread."""
        now_s = time.monotonic()
        if now_s < self._quiet_until_s.get(topic, 0.0):
            return
        self._quiet_until_s[topic] = now_s + 1.0
        self._diagnostics.write(warning(time.time_ns(), topic, f"refused: {why}"))

    def records(self, data: bytes) -> None:
        """Publish the projections of a frame. In simulated time the clock goes first, so that no
        stamp is in the future."""
        newest_ns = max((head[4] for head in message_heads(data)), default=0)
        if not self._static_written and newest_ns:
            self._static_written = self._static.write(static_transforms(self._sensors, newest_ns))
        first = () if self._clock is None or not newest_ns else ((self._clock, clock(newest_ns)),)
        # The pieces of a frame are streams: together they are in order of time again.
        found = sorted(self._projector.projected(data), key=lambda projected: projected[2])
        records = ((self._writers[channel], payload) for channel, _, _, payload in found)
        for writer, record in chain(
            first, records, ((self._twist, record) for record in self._twists(data))
        ):
            if writer.write(record):
                self.published += 1
            else:
                self.lost += 1

    def finish(self, within_s: float) -> None:
        """Wait until the readers have the last samples of the run, but at most this time, s: a
        process that ends sends nothing again.
        """
        end_s = time.monotonic() + within_s
        for writer in (
            *self._writers.values(),
            self._twist,
            self._static,
            *((self._clock,) if self._clock is not None else ()),
        ):
            writer.wait_for_readers(end_s - time.monotonic())

    def _twists(self, data: bytes) -> Iterator[bytes]:
        """Yield the commands of the controller as twists, which need the wheelbase that no log
        record has."""
        for offset, length, channel, _, _ in message_heads(data):
            if channel == CHANNELS[ControlCommand].id:
                start = offset + MESSAGE_HEAD.size
                command = self._unpack(data[start : start + length])
                if (
                    record := twist_wanted(command, self._offset_ns, self._wheelbase_m)
                ) is not None:
                    yield record
