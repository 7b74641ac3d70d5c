"""ROS 1 and ROS 2 bags, by the conversions of :mod:`vehicled.lab.recordings.rosbag`, message by message."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vehicled.lab.recordings import rosbag
from vehicled.lab.recordings.errors import RecordingError
from vehicled.lab.recordings.foreign.source import Foreign, Stamped
from vehicled.messages import WheelSpeed
from vehicled.vehicle import Vehicle


def read(path: Path, vehicle: Vehicle) -> Foreign:
    """A bag, with its own clock, which is UTC. Raises :class:`RecordingError`."""
    try:
        from rosbags.highlevel import AnyReader, AnyReaderError
        from rosbags.typesys import Stores, get_typestore
    except ImportError:
        raise RecordingError(
            f'{path}: ROS bags are read by the library rosbags, which is not installed: pip install "vehicled[ros]"'
        ) from None
    notes: list[str] = []

    def messages() -> Iterator[Stamped]:
        try:
            with AnyReader([path], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as bag:
                chosen = rosbag.choose(bag.connections)
                notes.append(f"taken: {', '.join(sorted(c.topic for c in chosen)) or 'nothing'}")
                twist = any(c.msgtype == rosbag.TWIST for c in chosen)
                if not twist and any(c.msgtype == rosbag.ODOMETRY for c in chosen):
                    notes.append(
                        "no TwistStamped: the speed of the odometry is taken for that of the wheels; its pose is not taken"
                    )
                for connection, t_rx_ns, data in bag.messages(connections=chosen) if chosen else ():
                    message = bag.deserialize(data, connection.msgtype)
                    for found in _convert(connection.msgtype, message, t_rx_ns, vehicle, twist):
                        yield t_rx_ns, found
        except (AnyReaderError, OSError) as error:
            raise RecordingError(f"{path}: cannot be read as a ROS bag: {error}") from error
        except (ValueError, KeyError, AssertionError, AttributeError, TypeError) as error:
            raise RecordingError(f"{path}: cannot be read as a ROS bag: {type(error).__name__}: {error}") from error

    return Foreign(format="ROS bag", messages=messages(), utc_offset_ns=0, notes=notes)


def _convert(kind: str, message: Any, t_rx_ns: int, vehicle: Vehicle, twist: bool) -> Iterator[Any]:
    if kind == rosbag.ODOMETRY:
        if not twist:
            speed = float(message.twist.twist.linear.x)
            yield WheelSpeed(rosbag.stamp_ns(message, t_rx_ns), t_rx_ns, speed, rosbag.WHEEL_SPEED_SIGMA_MPS)
        return
    yield from rosbag.convert(kind, message, t_rx_ns, vehicle)
