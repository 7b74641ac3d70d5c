"""NatNet against packets of real servers, and against what the maker's client printed of them."""

import re
from pathlib import Path

import pytest

from drivers.mocap import natnet
from drivers.mocap.capture import payloads
from drivers.mocap.natnet_device import NatNetDevice, NatNetParams, decode
from vehicled.core.messages import Fault, MapPose, Message, PortState
from vehicled.core.wire.datagram import pack

FOLDER = Path(__file__).parents[1] / "golden" / "mocap"
FRAMES = {
    "natnet-decode__frame-motive-1.5.0-001.bin": ((2, 3), 92881, 1, (-0.26316, 0.03913, 1.12352)),
    "natnet-decode__frame-motive-1.5.0-002.bin": ((2, 3), 92882, 1, (-0.26316, 0.03913, 1.12354)),
    "natnet-decode__frame-motive-1.7.2-001.bin": ((2, 7), 411213, 1, (0.00602, 0.09581, -1.40760)),
    "natnet-decode__frame-motive-1.7.2-002.bin": ((2, 7), 411214, 1, (0.00602, 0.09581, -1.40759)),
    "python_natnet__mocapframe_packet_v3.bin": ((3, 0), 162734, 2, (0.17445, 1.44713, -0.73430)),
}


def content(name: str) -> natnet.Content:
    return natnet.read((FOLDER / name).read_bytes())


@pytest.mark.parametrize("name", FRAMES)
def test_frames_of_three_versions_are_read_without_a_stated_version(name: str) -> None:
    version, number, body, place = FRAMES[name]
    frame = content(name)
    assert isinstance(frame, natnet.Frame)
    assert (frame.version, frame.number) == (version, number)
    (found,) = frame.bodies
    assert found.number == body
    assert found.position_m == pytest.approx(place, abs=1e-5)
    assert sum(each * each for each in found.attitude) == pytest.approx(1.0, abs=1e-5)
    assert found.tracked is (None if version < (2, 6) else True)
    assert len(frame.markers) == (6 if version == (3, 0) else 3)
    assert {marker.model for marker in frame.markers} <= {0, body}


def test_a_frame_of_motive_1_7_holds_markers_and_time_stamps() -> None:
    frame = content("natnet-decode__frame-motive-1.7.2-001.bin")
    assert isinstance(frame, natnet.Frame)
    assert [name for name, _ in frame.marker_sets] == ["Rigid Body 1", "all"]
    assert frame.timestamp_s == pytest.approx(3426.775)
    assert len(frame.other_markers) == 2


def test_the_server_states_version_clock_and_group() -> None:
    assert content("python_natnet__serverinfo_packet_v3.bin") == natnet.ServerInfo(
        "Motive", (2, 1, 0, 0), (3, 0, 0, 0), 3312787, 1511, True, "239.255.42.99"
    )


def test_descriptions_name_the_body() -> None:
    found = content("python_natnet__modeldef_packet_v3.bin")
    assert isinstance(found, list)
    body, *others = found
    assert isinstance(body, natnet.BodyDescription)
    assert (body.name, body.number, len(body.markers)) == ("RaceQuad", 2, 5)
    kinds = [each for each in others if isinstance(each, natnet.OtherDescription)]
    assert [(each.kind, each.name) for each in kinds] == [
        ("marker set", "RaceQuad"), ("marker set", "all"),
    ]  # fmt: skip


def test_our_connect_request_is_that_of_the_makers_client() -> None:
    recorded = (FOLDER / "python_natnet__connect_packet_v3.bin").read_bytes()
    assert natnet.connect((3, 0, 0, 0)) == recorded
    request = (FOLDER / "python_natnet__requestmodeldef_packet_v3.bin").read_bytes()
    assert natnet.packet(natnet.MessageId.REQUEST_DESCRIPTIONS) == request


@pytest.mark.parametrize("name", sorted(each.name for each in FOLDER.glob("*.bin")))
def test_each_packet_is_a_recording_of_its_own(name: str) -> None:
    assert len(list(decode((FOLDER / name).read_bytes()))) >= 1


@pytest.mark.parametrize("name", FRAMES)
def test_a_truncated_packet_is_refused_wherever_it_is_cut(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    for size in range(len(data)):
        with pytest.raises(natnet.NatNetError):
            natnet.read(data[:size])


@pytest.mark.parametrize("name", [name for name in FRAMES if "motive" not in name])
def test_written_again_a_frame_is_the_same_but_for_the_time_code(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    frame = natnet.read(data)
    assert isinstance(frame, natnet.Frame)
    again = natnet.write_frame(frame, frame.version)
    assert len(again) == len(data)
    assert natnet.read(again) == frame


@pytest.fixture(scope="module")
def session(shared_data: Path) -> tuple[list[bytes], str]:
    folder = shared_data / "captures2" / "mocap"
    if not folder.exists():
        pytest.skip(f"not among the shared captures: {folder.name}")
    found = list(payloads((folder / "python_natnet__traffic.pcapng").read_bytes()))
    return found, (folder / "python_natnet__SampleClient_output.txt").read_text("latin-1")


def test_a_session_is_read_as_the_makers_client_printed_it(
    session: tuple[list[bytes], str],
) -> None:
    datagrams, text = session
    printed = {
        int(number): (float(x), float(y), float(z), float(qw))
        for number, x, y, z, qw in re.findall(
            r"FrameID : (\d+)\n(?:.*\n){1,25}?\tx\ty\tz\tqx\tqy\tqz\tqw\n"
            r"\t([-\d.]+)\t([-\d.]+)\t([-\d.]+)\t[-\d.]+\t[-\d.]+\t[-\d.]+\t([-\d.]+)\n",
            text,
        )
    }
    frames = [each for each in map(natnet.read, datagrams) if isinstance(each, natnet.Frame)]
    compared = 0
    for frame in frames:
        if frame.number in printed:
            (body,) = frame.bodies
            assert (*body.position_m, body.attitude[3]) == pytest.approx(
                printed[frame.number], abs=0.006
            )
            compared += 1
    assert len(frames) == 518
    assert compared > 200, "other lines stand between some of those that it printed"


def test_the_driver_follows_the_session(session: tuple[list[bytes], str]) -> None:
    datagrams, _ = session
    device = NatNetDevice(NatNetParams(body="RaceQuad"), [MapPose], 50_000_000)
    device.on_port(PortState.OPENED, "", 0)
    found: list[Message] = []
    t_ns = 0
    for datagram in datagrams:
        t_ns += 8_000_000
        found += device.on_rx(pack(datagram), t_ns)
    poses = [each for each in found if isinstance(each, MapPose)]
    assert not [each for each in found if isinstance(each, Fault) and each.active]
    assert len(poses) > 500
    # Motive is y up: x stays, north is -z.
    assert (poses[0].x_m, poses[0].y_m) == pytest.approx((0.1744, 0.7343), abs=0.002)
    assert all(each.t_ns < each.t_rx_ns for each in poses)
