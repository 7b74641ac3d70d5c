"""ROS 1 and ROS 2 bags, by the conversions of :mod:`vehicled.offline.recordings.rosbag`, message by
message."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vehicled.core.messages import (
    FIXED_SIGMA_LIMIT_M,
    CarrierSolution,
    GnssFix,
    Heading,
    WheelSpeed,
)
from vehicled.core.vehicle import Vehicle
from vehicled.offline.recordings import rosbag
from vehicled.offline.recordings.foreign.source import ForeignFile, Stamped


def read(path: Path, vehicle: Vehicle) -> ForeignFile:
    """A bag, with its own clock, which is UTC. Raises :class:`RecordingError`."""
    notes: list[str] = []

    def messages() -> Iterator[Stamped]:
        with rosbag.open_bag(path) as bag:
            notes.append(f"taken: {', '.join(sorted(c.topic for c in bag.chosen)) or 'nothing'}")
            if bag.left_out:
                notes.append(f"not taken, beside others of their types: {', '.join(bag.left_out)}")
            twist = rosbag.TWIST in bag.kinds
            if not twist and rosbag.ODOMETRY in bag.kinds:
                notes.append(
                    "no TwistStamped: the speed of the odometry is taken for that of the wheels, "
                    "unless its frame is map, as of an estimator; its pose is not taken"
                )
            doubted = 0
            unusable: Counter[str] = Counter()
            for kind, t_rx_ns, message in bag.messages():
                taken = list(_convert(kind, message, t_rx_ns, vehicle, twist))
                unusable[_unusable(kind, message, taken)] += 1
                for found in taken:
                    if isinstance(found, GnssFix) and message.status.status >= rosbag.GBAS:
                        doubted += found.carrier is not CarrierSolution.FIXED
                    yield t_rx_ns, found
            notes.extend(f"{count} {what}: not taken" for what, count in unusable.items() if what)
            if doubted:
                notes.append(
                    f"{doubted} fixes of status GBAS state an error beyond "
                    f"{FIXED_SIGMA_LIMIT_M} m, or none: not taken as RTK fixed"
                )

    return ForeignFile(format="ROS bag", messages=messages(), utc_offset_ns=0, notes=notes)


def _unusable(kind: str, message: Any, taken: list[Any]) -> str:
    """Return what of a message was not taken; empty if all was."""
    if kind == rosbag.FIX and not taken:
        return "fixes without a solution or place"
    if kind == rosbag.TWIST and not taken:
        return "speeds that point sideways, so not those of wheels"
    orientation = kind == rosbag.IMU and message.orientation_covariance[0] >= 0.0
    return (
        "orientations that are none"
        if orientation and not any(isinstance(each, Heading) for each in taken)
        else ""
    )


def _convert(kind: str, message: Any, t_rx_ns: int, vehicle: Vehicle, twist: bool) -> Iterator[Any]:
    if kind == rosbag.ODOMETRY:
        if not twist and str(message.header.frame_id).strip("/") != "map":
            speed = float(message.twist.twist.linear.x)
            yield WheelSpeed(
                rosbag.stamp_ns(message, t_rx_ns), t_rx_ns, speed, rosbag.WHEEL_SPEED_SIGMA_MPS
            )
        return
    yield from rosbag.convert(kind, message, t_rx_ns, vehicle)
