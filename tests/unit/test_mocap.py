"""Motion capture: the codecs in both directions, frames of reference, and what becomes of poses
that contradict themselves."""

from collections.abc import Callable
from math import cos, pi, sin
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.mocap import natnet, vicon, vrpn
from drivers.mocap.base import MocapDevice
from drivers.mocap.capture import payloads
from drivers.mocap.natnet_device import NatNetDevice, NatNetParams, decode
from drivers.mocap.vicon import ViconDevice, ViconParams
from drivers.mocap.vrpn import VrpnDevice, VrpnParams
from vehicled.core.messages import (
    Event,
    Fault,
    GnssFix,
    Heading,
    MapPose,
    Message,
    PortState,
    Reaction,
    ReferenceState,
)
from vehicled.core.ports import Reopen, Send
from vehicled.core.wire.datagram import pack, unpack
from vehicled.paths.datum import LOT_17
from vehicled.profile import load_profile
from vehicled.profile.problems import ProfileError

LIFETIME_NS = 50_000_000
STEP_NS = 10_000_000
START_NS = 1_000_000_000
NAN = float("nan")

small = st.floats(-50.0, 50.0, width=32)
unit = st.floats(-pi, pi)


def spun(yaw_rad: float, up: str = "y") -> natnet.Quaternion:
    """Attitude of a body that is turned about the vertical axis."""
    c, s = cos(0.5 * yaw_rad), sin(0.5 * yaw_rad)
    return (0.0, s, 0.0, c) if up == "y" else (0.0, 0.0, s, c)


# -------------------------------------------------------------------- NatNet


@st.composite
def frames(draw: st.DrawFn) -> natnet.Frame:
    vectors = st.tuples(small, small, small)
    ids = st.integers(1, 30_000)
    bodies = st.builds(
        natnet.TrackedBody,
        number=ids,
        position_m=vectors,
        attitude=unit.map(spun),
        marker_error_m=st.floats(0.0, 0.125, width=32),
        tracked=st.booleans(),
    )
    channels = st.builds(
        natnet.ChannelSamples,
        ids,
        st.lists(st.lists(small, max_size=3).map(tuple), max_size=3).map(tuple),
    )
    marker = st.builds(
        natnet.Marker, ids, ids, vectors, st.floats(0.0, 0.125, width=32), st.integers(0, 31),
        st.floats(0.0, 0.125, width=32),
    )  # fmt: skip

    def some(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(items, max_size=3).map(tuple)

    name = st.text("abc Ü", max_size=8)
    return natnet.Frame(
        draw(st.integers(0, 2**31 - 1)),
        draw(some(bodies)),
        draw(st.floats(0.0, 1e6)),
        draw(st.tuples(*[st.integers(0, 2**63)] * 3)),
        draw(st.floats(0.0, 1e3, width=32)),
        draw(st.integers(0, 3)),
        draw(some(st.tuples(name, some(vectors)))),
        draw(some(vectors)),
        draw(some(marker)),
        draw(some(st.builds(natnet.Bones, ids, some(bodies)))),
        draw(some(st.builds(natnet.Bones, ids, some(bodies)))),
        draw(some(channels)),
        draw(some(channels)),
    )


@pytest.mark.parametrize("version", natnet.LAYOUTS)
@given(frame=frames())
def test_a_frame_of_each_version_comes_back(version: natnet.Version, frame: natnet.Frame) -> None:
    data = natnet.write_frame(frame, version)
    found = natnet.read(data, version)
    assert isinstance(found, natnet.Frame)
    assert found.number == frame.number
    assert [each[:3] for each in found.bodies] == [
        (each.number, each.position_m, pytest.approx(each.attitude, abs=1e-6))
        for each in frame.bodies
    ]
    if version >= (2, 6):
        assert [each.tracked for each in found.bodies] == [each.tracked for each in frame.bodies]
    if version >= (3, 0):
        assert found.markers == frame.markers
        assert (found.ticks, found.params) == (frame.ticks, frame.params)
        assert (found.force_plates, found.devices) == (frame.force_plates, frame.devices)
    assert len(found.skeletons) == (len(frame.skeletons) if version > (2, 0) else 0)
    assert len(found.assets) == (len(frame.assets) if version >= (4, 1) else 0)
    for cut in {len(data) // 2, len(data) - 1, 3}:
        with pytest.raises(natnet.NatNetError):
            natnet.read(data[:cut], version)


@given(frame=frames(), version=st.sampled_from(natnet.LAYOUTS))
def test_one_frame_of_an_unknown_version_is_read_as_by_its_version(
    frame: natnet.Frame, version: natnet.Version
) -> None:
    """A frame without the end mark of another layout used to take that mark for a time."""
    data = natnet.write_frame(frame, version)
    assert natnet.read(data) == natnet.read(data, version)


@given(data=st.binary(max_size=300), head=st.sampled_from([1, 5, 7]))
def test_no_payload_raises_anything_else(data: bytes, head: int) -> None:
    for version in (None, *natnet.LAYOUTS):
        try:
            natnet.read(natnet.packet(head, data), version)
        except natnet.NatNetError:
            continue


def test_a_section_that_a_newer_version_has_made_longer_is_skipped() -> None:
    """Sections state their bytes from 4.1 on, so what is appended to items can be left out."""
    frame = natnet.Frame(5, (natnet.TrackedBody(3, (1.0, 2.0, 3.0), spun(0.5), 1e-4, True),))
    data = bytearray(natnet.write_frame(frame, (4, 1)))
    at = 4 + 4 + 8 + 8  # head, number, two empty sections
    assert int.from_bytes(data[at : at + 4], "little") == 1
    size = int.from_bytes(data[at + 4 : at + 8], "little")
    data[at + 4 : at + 8] = (size + 6).to_bytes(4, "little")
    data[at + 8 + size : at + 8 + size] = b"\x01" * 6
    data[2:4] = (len(data) - 4).to_bytes(2, "little")
    found = natnet.read(bytes(data), (4, 1))
    assert isinstance(found, natnet.Frame)
    assert found.bodies[0].number == 3
    assert found.bodies[0].tracked


def test_a_section_that_a_newer_version_writes_differently_costs_itself_alone() -> None:
    """Other clients lost the whole frame with it (IMRCLab/libmotioncapture#20)."""
    body = natnet.TrackedBody(3, (1.0, 2.0, 3.0), spun(0.5), 1e-4, True)
    ticks = (10**10, 10**10 + 1, 10**10 + 2)
    alone = bytearray(natnet.write_frame(natnet.Frame(5, (body,), 1.0, ticks), (4, 1)))
    at = 4 + 4 + 8 + 8 + 8 + 38  # head, number, two empty sections, bodies
    assert alone[at : at + 8] == bytes(8), "skeletons"
    # One skeleton of one bone that has a name of its own.
    own = (7).to_bytes(4, "little") + (1).to_bytes(4, "little") + b"Hip\0" + bytes(24)
    alone[at : at + 8] = (1).to_bytes(4, "little") + len(own).to_bytes(4, "little") + own
    alone[2:4] = (len(alone) - 4).to_bytes(2, "little")
    found = natnet.read(bytes(alone), (4, 1))
    assert isinstance(found, natnet.Frame)
    assert (found.bodies[0].number, found.skeletons, found.ticks) == (3, (), ticks)


def _description(kind: int, own: bytes, version: natnet.Version) -> bytes:
    size = len(own).to_bytes(4, "little") if version >= (4, 1) else b""
    return kind.to_bytes(4, "little") + size + own


@pytest.mark.parametrize("version", [(2, 11), (3, 0), (4, 0), (4, 1)])
@given(order=st.permutations(range(7)))
def test_descriptions_come_in_any_order(version: natnet.Version, order: list[int]) -> None:
    i4 = (7).to_bytes(4, "little")
    body = natnet.write_descriptions([natnet.BodyDescription("car", 7)], version)
    body = body[4 + (8 if version >= (4, 1) else 4) :]
    two = (2).to_bytes(4, "little")
    marker = b"m\0" + i4 + bytes(18)
    parts = [
        b"all\0" + two + b"a\0b\0",
        body,
        b"man\0" + i4 + two + body + body,
        i4 + b"plate\0" + bytes(8 + 12 + 576 + 48 + 8) + two + b"x\0y\0",
        i4 + b"adc\0serial\0" + bytes(8) + two + b"x\0y\0",
        b"camera\0" + bytes(28),
        b"asset\0" + bytes(4) + i4 + two + body + body + two + marker + marker,
    ]
    kinds = [k for k in order if version >= (4, 1) or k != 6]
    payload = len(kinds).to_bytes(4, "little") + b"".join(
        _description(k, parts[k], version) for k in kinds
    )
    for found in (
        natnet.read_descriptions(payload, version), natnet.guess_descriptions(payload),
    ):  # fmt: skip
        assert len(found) == len(kinds)
        assert found[kinds.index(1)][:2] == ("car", 7)


def test_a_description_of_a_kind_that_nobody_knows_is_skipped_since_4_1() -> None:
    own = natnet.write_descriptions([natnet.BodyDescription("car", 7)], (4, 1))[4:]
    payload = (2).to_bytes(4, "little") + _description(99, b"later", (4, 1)) + own
    (found,) = natnet.read_descriptions(payload, (4, 1))
    assert found[:2] == ("car", 7)


def test_a_description_that_a_newer_version_writes_differently_costs_itself_alone() -> None:
    own = natnet.write_descriptions([natnet.BodyDescription("car", 7)], (4, 1))[4:]
    skeleton = b"man\0" + (7).to_bytes(4, "little") + (9).to_bytes(4, "little") + b"Hip\0"
    payload = (2).to_bytes(4, "little") + _description(2, skeleton, (4, 1)) + own
    (found,) = natnet.read_descriptions(payload, (4, 1))
    assert found[:2] == ("car", 7)
    # What the drive needs is not passed over.
    with pytest.raises(natnet.NatNetError):
        natnet.read_descriptions(
            (1).to_bytes(4, "little") + _description(1, b"car\0", (4, 1)), (4, 1)
        )


def test_a_recording_is_searched_in_linear_time() -> None:
    """Heads of the longest frame one behind the other: what is tried is bounded."""
    assert list(decode(b"\x07\x00\xe0\xff" * 250_000)) == []


def test_a_capture_that_is_cut_anywhere_is_read_up_to_there(shared_data: Path) -> None:
    path = shared_data / "captures2" / "mocap" / "python_natnet__traffic.pcapng"
    if not path.exists():
        pytest.skip(f"no {path}")
    data = path.read_bytes()
    whole = len(list(payloads(data)))
    for size in (0, 3, 8, 20, 300, len(data) // 2, len(data) - 1):
        assert len(list(payloads(data[:size]))) <= whole


# -------------------------------------------------------------------- Vicon and VRPN


@given(place=st.tuples(small, small, small), yaw=unit, number=st.integers(0, 2**32 - 1))
def test_a_block_of_vicon_comes_back(place: natnet.Vector, yaw: float, number: int) -> None:
    objects = (
        vicon.ViconObject("car", place, (0.0, 0.0, yaw)),
        vicon.ViconObject("x" * 24, (1.0, 2.0, 3.0), (0.1, 0.2, 0.3)),
    )
    data = vicon.write(vicon.ObjectBlock(number, objects))
    assert len(data) == 256
    found = vicon.read(data)
    assert found.number == number
    assert [each.name for each in found.objects] == ["car", "x" * 24]
    assert found.objects[0].position_m == pytest.approx(place, abs=1e-9)
    for size in range(155):
        with pytest.raises(vicon.ViconError):
            vicon.read(data[:size])


@given(a=unit, b=unit, c=unit)
def test_angles_about_turned_axes_are_the_product_of_three_turns(
    a: float, b: float, c: float
) -> None:
    def product(p: natnet.Quaternion, q: natnet.Quaternion) -> natnet.Quaternion:
        x, y, z, w = p
        i, j, k, m = q
        return (
            w * i + x * m + y * k - z * j,
            w * j - x * k + y * m + z * i,
            w * k + x * j - y * i + z * m,
            w * m - x * i - y * j - z * k,
        )

    x = (sin(0.5 * a), 0.0, 0.0, cos(0.5 * a))
    y = (0.0, sin(0.5 * b), 0.0, cos(0.5 * b))
    z = (0.0, 0.0, sin(0.5 * c), cos(0.5 * c))
    assert vicon.quaternion((a, b, c)) == pytest.approx(product(product(x, y), z), abs=1e-12)


def vrpn_stream(poses: int = 3) -> bytes:
    parts = [
        vrpn.cookie(),
        vrpn.described(vrpn.SENDER, 4, "car"),
        vrpn.described(vrpn.SENDER, 5, "other"),
        vrpn.encode(0, 1234, vrpn.UDP, b"192.0.2.1\0"),
        vrpn.described(vrpn.TYPE, 2, "vrpn_Base pong_message"),
        vrpn.described(vrpn.TYPE, 9, vrpn.POSE_TYPE),
        vrpn.encode(1_000_000, 4, 2, b""),
    ]
    for i in range(poses):
        place = (1.0 + 0.01 * i, 2.0, 0.1)
        pose = vrpn.encode_pose(vrpn.TrackerPose(0, place, spun(0.3 + 1e-4 * i, "z")))
        elsewhere = vrpn.encode_pose(vrpn.TrackerPose(0, (9.0, 9.0, 9.0), spun(0.0, "z")))
        parts.append(vrpn.encode(2_000_000 + 10_000 * i, 5, 9, elsewhere))
        parts.append(vrpn.encode(2_000_000 + 10_000 * i, 4, 9, pose))
    return b"".join(parts)


def test_the_driver_of_vrpn_greets_and_follows_its_tracker_alone() -> None:
    device = VrpnDevice(VrpnParams(body="car"), [MapPose], LIFETIME_NS)
    device.on_port(PortState.OPENED, "", START_NS)
    (greeting,) = device.take_tx()
    assert isinstance(greeting, Send)
    assert greeting.data == b"vrpn: ver. 07.35  0\0\0\0\0\0"
    found = device.on_rx(vrpn_stream(), START_NS + STEP_NS)
    poses = [each for each in found if isinstance(each, MapPose)]
    assert [(each.x_m, each.y_m) for each in poses] == [
        pytest.approx((1.0 + 0.01 * i, 2.0), abs=1e-9) for i in range(3)
    ]


@pytest.mark.parametrize(
    ("stamp_us", "stands"),
    [
        (lambda t_ns: 0, True),
        (lambda t_ns: t_ns // 16_000_000 * 16_000, False),
        (lambda t_ns: t_ns // 1000 + (3_600_000_000 if t_ns > 2 * START_NS else 0), False),
        (lambda t_ns: t_ns // 1000 - (500_000 if t_ns > 2 * START_NS else 0), False),
    ],
    ids=["zero", "Windows", "set forward", "set back"],
)
def test_poses_of_vrpn_are_dated_whatever_the_clock_of_its_server_does(
    stamp_us: Callable[[int], int], stands: bool
) -> None:
    """A server without stamps made poses older and older."""
    device = VrpnDevice(VrpnParams(body="car"), [MapPose], 0)
    device.mount((0.0, 0.0, 0.0))
    device.on_port(PortState.OPENED, "", START_NS)
    names = ((vrpn.SENDER, "car"), (vrpn.TYPE, vrpn.POSE_TYPE))
    device.on_rx(
        vrpn.cookie() + b"".join(vrpn.described(k, 0, name) for k, name in names), START_NS
    )
    found: list[Message] = []
    for k in range(200):
        t_ns = START_NS + k * STEP_NS
        pose = vrpn.TrackerPose(0, (0.01 * k, 0.0, 0.1), (0.0, 0.0, 0.0, 1.0))
        data = vrpn.encode(stamp_us(t_ns), 0, 0, vrpn.encode_pose(pose))
        found += device.on_rx(data, t_ns + STEP_NS // 10)
    ages_s = [(each.t_rx_ns - each.t_ns) * 1e-9 for each in found if isinstance(each, MapPose)]
    assert len(ages_s) == 200
    assert max(ages_s) < 0.07
    assert bool(device.usage.of(vrpn.POSE_TYPE).lost) is stands


def test_another_server_than_vrpn_is_closed_and_named() -> None:
    device = VrpnDevice(VrpnParams(body="car"), [MapPose], LIFETIME_NS)
    device.on_port(PortState.OPENED, "", START_NS)
    device.take_tx()
    device.on_rx(b"SSH-2.0-OpenSSH_9.6\r\n" * 2, START_NS + STEP_NS)
    (action,) = device.take_tx()
    assert isinstance(action, Reopen)


# -------------------------------------------------------------------- poses


class Room:
    """A driver of NatNet, fed with frames."""

    def __init__(self, *messages: type[Message], version=(4, 1), **params: Any) -> None:
        self.version = version
        values = {"body": "7", "configure": False, **params}
        self.device: MocapDevice = NatNetDevice(
            NatNetParams(**values), messages or (MapPose,), LIFETIME_NS
        )
        self.t_ns = START_NS
        self.number = 0
        self.found: list[Message] = []
        self.device.on_port(PortState.OPENED, "", self.t_ns)

    def frame(
        self, x: float, y: float, yaw: float, *, up: str = "y", tracked: bool = True,
        body: int = 7, error_m: float = 3e-4, step_ns: int = STEP_NS, number: int | None = None,
    ) -> list[Message]:  # fmt: skip
        """One frame, and what came of it. The last digits differ, as by noise."""
        self.t_ns += step_ns
        self.number = self.number + 1 if number is None else number
        noise = 1e-5 * (self.number % 7)
        z_up = (x + noise, y, 0.2)
        place = (z_up[0], z_up[2], -z_up[1]) if up == "y" else z_up
        bodies = (natnet.TrackedBody(body, place, spun(yaw, up), error_m, tracked),)
        frame = natnet.Frame(self.number, bodies, timestamp_s=self.t_ns * 1e-9)
        return self.feed(natnet.write_frame(frame, self.version))

    def feed(self, datagram: bytes) -> list[Message]:
        found = list(self.device.on_rx(pack(datagram), self.t_ns))
        while self.device.next_due_ns() <= self.t_ns:
            found += self.device.on_time(self.t_ns)
        self.found += found
        return found

    def drive(self, seconds: float, v_mps: float = 1.0, x: float = 0.0) -> float:
        """Drive along x; return the place at the end."""
        for _ in range(round(seconds * 1e9 / STEP_NS)):
            x += v_mps * STEP_NS * 1e-9
            self.frame(x, 1.0, 0.0)
        return x

    def faults(self) -> list[tuple[str, Reaction]]:
        return [(m.code, m.reaction) for m in self.found if isinstance(m, Fault)]

    def wait(self, seconds: float) -> None:
        end_ns = self.t_ns + round(seconds * 1e9)
        while self.device.next_due_ns() <= end_ns:
            self.t_ns = self.device.next_due_ns()
            self.found += self.device.on_time(self.t_ns)
        self.t_ns = end_ns


def poses(found: list[Message]) -> list[MapPose]:
    return [each for each in found if isinstance(each, MapPose)]


@pytest.mark.parametrize("up", ["y", "z"])
@given(x=st.floats(-5, 5), y=st.floats(-5, 5), yaw=unit, frame_yaw=unit, mounting=unit)
def test_the_pose_is_that_of_the_rear_axle_in_the_map(
    up: str, x: float, y: float, yaw: float, frame_yaw: float, mounting: float
) -> None:
    room = Room(
        up_axis=up, x_m=2.0, y_m=-1.0, yaw_rad=frame_yaw, mounting_yaw_rad=mounting,
        every=1,
    )  # fmt: skip
    room.device.mount((0.3, 0.1, 0.2))
    (pose,) = poses(room.frame(x, y, yaw, up=up))
    c, s = cos(frame_yaw), sin(frame_yaw)
    true_yaw = yaw + frame_yaw - mounting
    pivot = 2.0 + c * (x + 1e-5) - s * y, -1.0 + s * (x + 1e-5) + c * y
    axle = (
        pivot[0] - 0.3 * cos(true_yaw) + 0.1 * sin(true_yaw),
        pivot[1] - 0.3 * sin(true_yaw) - 0.1 * cos(true_yaw),
    )
    assert (pose.x_m, pose.y_m) == pytest.approx(axle, abs=1e-5)
    assert cos(pose.yaw_rad - true_yaw) == pytest.approx(1.0, abs=1e-9)
    assert pose.covariance[8] == pytest.approx(1e-4)
    assert pose.covariance[0] >= 0.003**2 * 0.999


@pytest.mark.parametrize("up", ["y", "z"])
def test_the_wrong_vertical_axis_is_named(up: str) -> None:
    room = Room(up_axis="z" if up == "y" else "y")
    found: list[Message] = []
    for i in range(200):
        found += room.frame(0.01 * i, 1.0, 1.5, up=up)
    assert not poses(found)
    assert room.faults()[0][0] == "mocap_tilted"
    assert "up_axis" in next(m.reason for m in room.found if isinstance(m, Fault))


def test_a_flip_is_withheld_and_stops_the_vehicle_unless_it_goes() -> None:
    room = Room()
    x = room.drive(1.0)
    for i in range(120):
        assert not poses(room.frame(x + 0.01 * i, 1.0, pi))
    assert room.faults() == [
        ("mocap_flipped", Reaction.WARN), ("mocap_flipped", Reaction.CAP_SPEED),
        ("mocap_flipped", Reaction.CONTROLLED_STOP),
    ]  # fmt: skip
    for i in range(600):
        assert not poses(room.frame(x + 1.2, 1.0, pi + 1e-4 * i))
    assert not [m for m in room.found if isinstance(m, Event) and m.name == "mocap_reacquired"]


def test_a_quarter_turn_between_two_frames_is_a_flip_too() -> None:
    room = Room()
    x = room.drive(0.5)
    assert not poses(room.frame(x, 1.0, 0.5 * pi))
    assert poses(room.frame(x + 0.02, 1.0, 0.01))
    assert room.faults() == [("mocap_flipped", Reaction.WARN), ("mocap_flipped", Reaction.NONE)]


def test_an_exchanged_body_is_withheld_however_long_the_gate_has_grown() -> None:
    room = Room()
    x = room.drive(1.0)
    for i in range(250):
        assert not poses(room.frame(x + 0.01 * i, 1.9, 0.0))
    assert ("mocap_jumped", Reaction.CONTROLLED_STOP) in room.faults()


def test_a_body_that_stays_where_it_has_jumped_to_is_believed_after_a_while_with_an_event() -> None:
    room = Room(reacquire_s=1.0)
    x = room.drive(1.0)
    found = []
    for i in range(120):
        found += room.frame(x + 2.0 + 1e-4 * i, 1.0, 0.1)
    assert poses(found)
    assert [m.name for m in found if isinstance(m, Event)][-1] == "mocap_reacquired"


def test_one_wrong_frame_costs_itself_alone() -> None:
    room = Room()
    x = room.drive(0.5)
    assert not poses(room.frame(x + 0.4, 1.0, 0.0))
    assert poses(room.frame(x + 0.02, 1.0, 0.0))


@pytest.mark.parametrize("version", [(4, 1), (3, 0), (2, 7), (2, 3)])
def test_a_repeated_pose_is_no_pose(version: natnet.Version) -> None:
    """Before 2.6 nothing says that the body is lost; later a bit does."""
    room = Room(version=version)
    x = room.drive(0.5)
    found: list[Message] = []
    for _ in range(50):
        found += room.frame(x, 1.0, 0.0, number=room.number + 7)
    assert 0 < len(poses(found)) < 5
    assert room.faults()[0][0] == "mocap_frozen"


def test_a_body_that_is_not_tracked_is_lost_after_a_while() -> None:
    room = Room()
    x = room.drive(0.5)
    for _ in range(15):
        assert not poses(room.frame(x, 1.0, 0.0, tracked=False))
    assert room.faults() == []
    for _ in range(200):
        room.frame(x, 1.0, 0.0, tracked=False)
    assert room.faults() == [
        ("mocap_lost", Reaction.CAP_SPEED), ("mocap_lost", Reaction.CONTROLLED_STOP),
    ]  # fmt: skip


def test_after_a_long_absence_any_pose_is_believed() -> None:
    room = Room(forget_s=2.0)
    x = room.drive(0.5)
    for _ in range(250):
        room.frame(x, 1.0, 0.0, tracked=False)
    assert poses(room.frame(x + 3.0, -1.0, pi))


def test_silence_is_named_with_its_cures() -> None:
    room = Room()
    room.drive(0.5)
    room.wait(2.0)
    code, reaction = room.faults()[-1]
    assert (code, reaction) == ("mocap_lost", Reaction.CONTROLLED_STOP)
    reason = next(m.reason for m in room.found if isinstance(m, Fault))
    assert "multicast" in reason
    assert "interface" in reason


def test_a_port_that_closes_while_driving_stops_the_vehicle() -> None:
    room = Room()
    room.drive(0.5)
    room.found += room.device.on_port(PortState.LOST, "the connection is gone", room.t_ns)
    room.wait(1.5)
    assert room.faults() == [
        ("mocap_lost", Reaction.CAP_SPEED), ("mocap_lost", Reaction.CONTROLLED_STOP),
    ]  # fmt: skip
    assert "the connection is gone" in next(m.reason for m in room.found if isinstance(m, Fault))
    assert room.device.take_tx() == []
    room.device.on_port(PortState.OPENED, "", room.t_ns)
    assert poses(room.frame(3.0, 1.0, 0.5))
    assert room.faults()[-1] == ("mocap_lost", Reaction.NONE)


def test_a_reference_that_is_lost_stops_nothing() -> None:
    room = Room(ReferenceState)
    room.drive(0.5)
    room.wait(3.0)
    assert room.faults() == [("mocap_lost", Reaction.WARN)]


def test_markers_that_have_moved_are_named() -> None:
    room = Room()
    room.drive(0.5)
    for i in range(60):
        assert not poses(room.frame(0.51 + 0.01 * i, 1.0, 0.0, error_m=0.05))
    assert "mocap_lost" in room.faults()[0]
    assert "50.0 mm" in next(m.reason for m in room.found if isinstance(m, Fault))


def test_a_body_that_is_not_there_is_named_with_those_that_are() -> None:
    room = Room(body="truck", configure=True)
    room.feed(
        natnet.write_server_info(natnet.ServerInfo("Motive", (3, 1, 0, 0), (4, 1, 0, 0), 10**7))
    )
    descriptions = natnet.write_descriptions([natnet.BodyDescription("car", 7)], (4, 1))
    room.feed(natnet.packet(natnet.MessageId.DESCRIPTIONS, descriptions))
    for i in range(230):
        room.frame(0.01 * i, 1.0, 0.0)
    assert 'no rigid body "truck"; the system streams "car" (7)' in next(
        m.reason for m in room.found if isinstance(m, Fault)
    )


def test_frames_that_are_lost_or_come_twice_are_counted() -> None:
    room = Room()
    x = 0.0
    for i in range(300):
        x += 0.01
        room.frame(x, 1.0, 0.0, number=2 * i + 1)
    assert room.device.lost_frames == 299
    assert ("mocap_frames_lost", Reaction.WARN) in room.faults()
    before = len(poses(room.found))
    room.frame(x + 0.01, 1.0, 0.0, number=599)
    room.frame(x + 0.01, 1.0, 0.0, number=590)
    assert len(poses(room.found)) == before


def test_a_server_that_starts_anew_is_followed() -> None:
    room = Room()
    room.number = 100_000
    x = room.drive(0.5)
    room.number = 0
    assert poses(room.frame(x + 0.01, 1.0, 0.0))


def test_a_unicast_client_connects_asks_and_stays_alive() -> None:
    room = Room(body="car", configure=True)
    sent: list[int] = []

    def take() -> None:
        for action in room.device.take_tx():
            assert isinstance(action, Send)
            (datagram,), size = unpack(action.data)
            assert size == len(action.data)
            sent.append(natnet.split(datagram).message)

    room.wait(1.05)
    take()
    assert sent == [natnet.MessageId.CONNECT] * 2
    info = natnet.ServerInfo("Motive", (3, 1, 0, 0), (4, 1, 0, 0), 10**7, 1511, False)
    room.feed(natnet.write_server_info(info))
    room.wait(1.0)
    take()
    assert {natnet.MessageId.REQUEST_DESCRIPTIONS, natnet.MessageId.KEEP_ALIVE} <= set(sent)
    room.wait(3.0)
    sent.clear()
    room.wait(1.1)
    take()
    assert natnet.MessageId.CONNECT in sent, "it is silent: Motive may have been restarted"


def test_the_time_of_exposure_leaves_out_what_the_server_takes() -> None:
    """The ticks say how long before the transmission the shutter was open."""
    device = NatNetDevice(NatNetParams(body="7"), [MapPose], LIFETIME_NS)
    device.on_port(PortState.OPENED, "", 0)
    info = natnet.ServerInfo("Motive", (3, 1, 0, 0), (4, 1, 0, 0), 10_000_000, 1511, False)
    device.on_rx(pack(natnet.write_server_info(info)), START_NS)
    off = []
    for i in range(400):
        exposed_ns = START_NS + i * STEP_NS
        sent_ns = exposed_ns + 5_000_000
        ticks = tuple((t + 10**15) // 100 for t in (exposed_ns, sent_ns, sent_ns))
        body = natnet.TrackedBody(7, (0.001 * i, 0.2, 1.0), spun(0.0), 1e-4, True)
        frame = natnet.Frame(i + 1, (body,), 1.0, ticks)  # type: ignore[arg-type]
        late_ns = 100_000 + (i % 5) * 400_000
        found = device.on_rx(pack(natnet.write_frame(frame, (4, 1))), sent_ns + late_ns)
        off += [each.t_ns - exposed_ns for each in poses(list(found))]
    assert len(off) == 400
    assert max(off[200:]) < 400_000
    assert min(off[200:]) >= -100_000


def test_as_a_receiver_it_gives_fix_speed_and_heading() -> None:
    room = Room(GnssFix, Heading, every=10)
    room.drive(1.0, v_mps=2.0)
    fixes = [each for each in room.found if isinstance(each, GnssFix)]
    headings = [each for each in room.found if isinstance(each, Heading)]
    assert len(fixes) == len(headings) == 10
    last = fixes[-1]
    east, north, _ = LOT_17.to_enu(last.latitude_rad, last.longitude_rad, last.height_m)
    assert (east, north) == pytest.approx((2.0, 1.0), abs=1e-4)
    assert last.velocity_enu_mps[0] == pytest.approx(2.0, abs=0.01)
    assert last.position_covariance_m2[0] == pytest.approx(0.003**2)


def test_as_a_reference_it_gives_the_state_of_its_pivot() -> None:
    room = Room(ReferenceState)
    room.device.mount((0.3, 0.0, 0.2))
    room.drive(1.0, v_mps=2.0)
    last = [each for each in room.found if isinstance(each, ReferenceState)][-1]
    east, _, _ = LOT_17.to_enu(last.latitude_rad, last.longitude_rad, last.height_m)
    assert east == pytest.approx(2.0, abs=1e-4)
    assert (last.roll_rad, last.pitch_rad, last.yaw_rad) == pytest.approx((0, 0, 0), abs=1e-6)


def test_vicon_follows_its_object_and_says_what_there_is() -> None:
    device = ViconDevice(ViconParams(body="car"), [MapPose], LIFETIME_NS)
    device.on_port(PortState.OPENED, "", START_NS)
    found: list[Message] = []
    for i in range(150):
        name = "car" if i < 20 else "truck"
        each = vicon.ViconObject(name, (1.0 + 0.01 * i, 2.0, 0.1), (0.0, 0.0, 0.5 + 1e-5 * i))
        block = vicon.ObjectBlock(i + 1, (each,))
        found += device.on_rx(pack(vicon.write(block)), START_NS + i * STEP_NS)
    assert len(poses(found)) == 20
    assert poses(found)[-1].yaw_rad == pytest.approx(0.5, abs=1e-3)
    assert 'no object "car"; the system sends "truck"' in next(
        m.reason for m in found if isinstance(m, Fault)
    )


@given(
    numbers=st.lists(st.tuples(*[st.floats(width=32)] * 8), min_size=1, max_size=20),
    version=st.sampled_from(natnet.LAYOUTS),
)
def test_no_number_makes_it_raise_or_give_a_pose_that_is_none(
    numbers: list[tuple[float, ...]], version: natnet.Version
) -> None:
    device = NatNetDevice(
        NatNetParams(body="7", version=list(version)),
        [MapPose, GnssFix, ReferenceState],
        LIFETIME_NS,
    )
    for i, values in enumerate(numbers):
        body = natnet.TrackedBody(7, values[:3], values[3:7], abs(values[7]), True)  # type: ignore[arg-type]
        frame = natnet.Frame(i + 1, (body,), timestamp_s=values[0])
        for each in device.on_rx(pack(natnet.write_frame(frame, version)), START_NS + i * STEP_NS):
            if isinstance(each, MapPose):
                assert abs(each.x_m) + abs(each.y_m) + abs(each.yaw_rad) < 1e5


# -------------------------------------------------------------------- profile


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["estimator.name=ekf4"], "takes no poses"),
        (['devices.mocap.driver.natnet.up_axis="x"'], "up_axis"),
    ],
)
def test_what_contradicts_itself_is_named(overrides: list[str], said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        load_profile("f1tenth_mocap", overrides)


def test_the_origin_of_the_map_is_that_of_courses_without_a_place() -> None:
    from math import degrees

    p = NatNetParams()
    assert (p.latitude_deg, p.longitude_deg) == pytest.approx(
        (degrees(LOT_17.latitude_rad), degrees(LOT_17.longitude_rad)), abs=1e-12
    )
    assert p.height_m == LOT_17.height_m


def test_parameters_are_checked() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"body": "x", "every": 0}, NatNetParams)
