"""Foreign recordings whose messages are called valid but have no usable content."""

from math import nan, pi
from pathlib import Path

import numpy as np
import pytest

from vehicled.core.messages import (
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    is_place,
    stated_carrier,
)
from vehicled.log.reader import LogReader
from vehicled.offline.recordings import rosbag
from vehicled.offline.recordings.foreign.importing import import_log

MAPPING = """
[time]
column = "s"
unit = "s"

[[message]]
type = "GnssFix"
[message.fields]
latitude_rad = { column = "lat", unit = "deg" }
longitude_rad = { column = "lon", unit = "deg" }
height_m = 100
fix_type = "FIX_3D"
carrier = "FIXED"
"""


@pytest.mark.parametrize("variances", [(16.0, nan), (nan, 16.0), (16.0, 1e-4), (1e-4, 16.0)])
def test_one_axis_of_metres_is_not_fixed(variances: tuple[float, float]) -> None:
    covariance = (variances[0], 0.0, 0.0, 0.0, variances[1], 0.0, 0.0, 0.0, nan)
    assert stated_carrier(CarrierSolution.FIXED, covariance) is CarrierSolution.FLOAT
    assert stated_carrier(CarrierSolution.FIXED, (nan,) * 9) is CarrierSolution.FIXED


def test_what_is_a_place() -> None:
    assert is_place(pi / 2, -pi)
    assert is_place(0.0, 0.1)
    assert not any(
        (
            is_place(0.0, 0.0),
            is_place(nan, 0.1),
            is_place(0.1, nan),
            is_place(1.6, 0.0),
            is_place(0.0, 3.2),
        )
    )


def test_a_table_with_a_fix_at_the_null_of_its_device(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(MAPPING)
    (tmp_path / "drive.csv").write_text("s,lat,lon\n1,0,0\n2,91,14\n3,50,14\n4,50.000001,14\n")
    done = import_log(tmp_path / "drive.csv", tmp_path / "out.mcap", mapping=tmp_path / "map.toml")
    with LogReader(tmp_path / "out.mcap") as log:
        fixes = [record.message for record in log.messages() if isinstance(record.message, GnssFix)]
    assert [fix.fix_type for fix in fixes] == [
        FixType.NONE,
        FixType.NONE,
        FixType.FIX_3D,
        FixType.FIX_3D,
    ]
    assert [fix.carrier for fix in fixes] == [CarrierSolution.NONE] * 2 + [
        CarrierSolution.FIXED
    ] * 2
    assert any(note.startswith("2 fixes are called valid but lie at 0, 0") for note in done.notes)


def test_a_bag_says_what_it_holds_and_nobody_can_use(tmp_path: Path) -> None:
    rosbag1 = pytest.importorskip("rosbags.rosbag1")
    typesys = pytest.importorskip("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.ROS1_NOETIC)
    types = store.types
    quaternion, vector = types["geometry_msgs/msg/Quaternion"], types["geometry_msgs/msg/Vector3"]
    # A zero covariance is an unknown one; with the identity it is what a node sends that sets
    # neither.
    attitudes = [
        (quaternion(0.0, 0.0, 0.0, 0.0), 0.0), (quaternion(0.0, 0.0, 0.0, 1.0), 0.0),
        (quaternion(0.5, 0.0, 0.0, 0.5), 0.01), (quaternion(0.0, 0.0, 0.0, 1.0), 0.01),
        (quaternion(0.0, 0.0, 0.0, 1.0), -1.0),
    ]  # fmt: skip
    places = [(0.0, 0.0, 2), (43.0, -89.0, -1), (43.0, -89.0, 2), (43.0, -89.0, 2)]
    with rosbag1.Writer(tmp_path / "x.bag") as bag:
        fix = bag.add_connection("/fix", "sensor_msgs/msg/NavSatFix", typestore=store)
        imu = bag.add_connection("/imu", "sensor_msgs/msg/Imu", typestore=store)
        for n, (attitude, variance) in enumerate(attitudes):
            t_ns = 1_790_000_000_000_000_000 + n * 200_000_000
            head = types["std_msgs/msg/Header"](
                n, types["builtin_interfaces/msg/Time"](t_ns // 10**9, t_ns % 10**9), "gps"
            )
            zero, known = np.zeros(9), np.full(9, variance)
            message = types["sensor_msgs/msg/Imu"](
                head, attitude, known, vector(0.0, 0.0, 0.1), zero, vector(0.0, 0.0, 9.8), zero
            )
            bag.write(imu, t_ns, store.serialize_ros1(message, "sensor_msgs/msg/Imu"))
            for latitude, longitude, state in places[n : n + 1]:
                status = types["sensor_msgs/msg/NavSatStatus"](state, 1)
                message = types["sensor_msgs/msg/NavSatFix"](
                    head, status, latitude, longitude, 230.0, np.full(9, 4e-4), 1
                )
                bag.write(fix, t_ns, store.serialize_ros1(message, "sensor_msgs/msg/NavSatFix"))
    done = import_log(tmp_path / "x.bag", tmp_path / "out.mcap")
    assert done.counts == {"gnss_fix": 2, "heading": 1, "imu_sample": 5}
    assert "2 fixes without a solution or place: not taken" in done.notes
    assert "3 orientations that are none: not taken" in done.notes
    inputs = rosbag.load(tmp_path / "x.bag").inputs
    assert (
        sum(isinstance(m, GnssFix) for m in inputs),
        sum(isinstance(m, Heading) for m in inputs),
    ) == (2, 1)
