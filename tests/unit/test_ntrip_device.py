"""The NTRIP client against a caster: what it asks, what it makes of the answers, and when it loses
patience."""

import msgspec
import pytest

from drivers.ntrip.device import NtripDevice
from drivers.ntrip.params import NtripParams
from tests.ntrip_caster import Caster, rtcm
from vehicled.core.messages import (
    CarrierSolution,
    Corrections,
    Event,
    Fault,
    FixType,
    GnssFix,
    Message,
    PortState,
)
from vehicled.core.ports import (
    NEVER_NS,
    Action,
    Device,
    Pause,
    Reopen,
    SecretRef,
    Send,
    TakesSecret,
)

S = 1_000_000_000
FRAMES = [
    rtcm(1077, bytes(range(200))),
    rtcm(1087, b"\xd3\x00\x13" * 20),
    rtcm(1230, b"abcd"),
    rtcm(1005, bytes(16)),
]
FIX = GnssFix(
    5,
    6,
    0.9,
    -0.1,
    100.0,
    fix_type=FixType.FIX_3D,
    carrier=CarrierSolution.FIXED,
    satellites=17,
    hdop=0.8,
    utc_ns=1_700_000_000 * S,
)
SECRET = "s3cret pass:wörd"


class Line:
    """A client and a caster with a wire between them, on a clock of their own."""

    def __init__(self, device: NtripDevice, caster: Caster) -> None:
        self.device = device
        self.caster = caster
        self.now_ns = S
        self.messages: list[Message] = []
        self.sent: list[Send] = []
        self.reopened: list[str] = []

    def open(self, detail: str = "tcp://caster.example.org:2101") -> "Line":
        self.messages += self.device.on_port(PortState.OPENED, detail, self.now_ns)
        return self.pump()

    def close(self) -> "Line":
        self.messages += self.device.on_port(
            PortState.LOST, "closed by the other side", self.now_ns
        )
        return self

    def reconnect(self, caster: Caster) -> "Line":
        self.caster = caster
        return self.close().open()

    def pump(self) -> "Line":
        """Exchange bytes until neither side has output."""
        while actions := self.device.take_tx():
            for action in actions:
                if isinstance(action, Send):
                    self.sent.append(action)
                    self.caster.receive(action.data)
                elif isinstance(action, Reopen):
                    self.reopened.append(action.reason)
            if data := self.caster.take():
                self.messages += self.device.on_rx(data, self.now_ns)
        return self

    def publish(self, *frames: bytes) -> "Line":
        for frame in frames:
            self.caster.publish(frame)
        if data := self.caster.take():
            self.messages += self.device.on_rx(data, self.now_ns)
        return self.pump()

    def run_until(self, end_ns: int) -> "Line":
        """Run the device's timers until then."""
        while self.device.next_due_ns() <= end_ns:
            self.now_ns = max(self.now_ns, self.device.next_due_ns())
            self.messages += self.device.on_time(self.now_ns)
            self.pump()
        self.now_ns = end_ns
        return self

    def corrections(self) -> list[bytes]:
        return [message.data for message in self.messages if isinstance(message, Corrections)]

    def faults(self) -> list[Fault]:
        return [message for message in self.messages if isinstance(message, Fault)]

    def reason(self) -> str:
        """Return code and reason of the only fault."""
        (fault,) = self.faults()
        assert fault.active
        return f"{fault.code}: {fault.reason}"


def line(caster: Caster | None = None, secret: str | None = None, **params: object) -> Line:
    settings = msgspec.convert({"mountpoint": "BASE_NORTH", **params}, NtripParams)
    device = NtripDevice(settings, [Corrections], 50_000_000)
    if secret is not None:
        device.set_secret(secret)
    return Line(device, caster or Caster())


STYLES = {
    "v2 chunked": Caster,
    "v2 plain": lambda: Caster(chunked=False),
    "v2 chunked, gzip members": lambda: Caster(compress="members"),
    "v2 chunked, gzip stream": lambda: Caster(compress="stream"),
    "v2 gzip stream": lambda: Caster(chunked=False, compress="stream"),
    "v2 gzip members": lambda: Caster(chunked=False, compress="members"),
    "v1": lambda: Caster(speaks="1"),
    "v1 without a blank line": lambda: Caster(speaks="1", blank_line=False),
    "v1 with fields": lambda: Caster(speaks="1", server_header=True),
    "v1 with fields, without a blank line": lambda: Caster(
        speaks="1", server_header=True, blank_line=False
    ),
}


@pytest.fixture(params=STYLES)
def caster(request: pytest.FixtureRequest) -> Caster:
    return STYLES[request.param]()


def test_every_style_of_caster_gives_the_same_corrections(caster: Caster):
    wire = line(caster).open().publish(*FRAMES)
    assert wire.corrections() == FRAMES
    assert wire.faults() == []
    connected = wire.messages[0]
    assert isinstance(connected, Event)
    assert msgspec.json.decode(connected.fields)["protocol"] == (
        "NTRIP 1" if caster.speaks == "1" else "NTRIP 2"
    )


def test_frames_cut_by_the_caster_and_dripping_come_out_whole(caster: Caster):
    wire = line(caster).open()
    stream = b"".join(FRAMES) * 2
    for at in range(0, len(stream), 7):
        wire.caster.publish(stream[at : at + 7])
        for byte in wire.caster.take():
            wire.now_ns += S // 2_000
            wire.messages += wire.device.on_rx(bytes([byte]), wire.now_ns)
    assert wire.corrections() == FRAMES * 2
    assert wire.faults() == []


@pytest.mark.parametrize("cut", [1, 2, 3, 100, len(FRAMES[0]) - 1])
def test_a_start_in_the_middle_of_a_frame_costs_that_frame_only(caster: Caster, cut: int):
    caster.start = FRAMES[0][cut:]
    # Bytes 0xd3 inside the cut frame may claim up to a kilobyte: as much must follow before they
    # are seen through.
    wire = line(caster).open().publish(*FRAMES * 4)
    assert wire.corrections() == FRAMES * 4


def test_a_false_start_does_not_hold_frames_back_for_ever():
    wire = line().open().publish(b"\xd3\x03\xff" + FRAMES[2])
    assert wire.corrections() == []
    wire.run_until(wire.now_ns + 3 * S)
    assert wire.corrections() == [FRAMES[2]]


def test_the_request_of_version_2():
    wire = line(
        Caster(users={"rover": SECRET}), SECRET, user="rover", password_file="corrections.txt"
    ).open()
    request = wire.caster.request
    assert request is not None
    assert (request.mountpoint, request.protocol) == ("BASE_NORTH", "HTTP/1.1")
    assert request.headers["ntrip-version"] == "Ntrip/2.0"
    assert request.headers["host"] == "caster.example.org:2101"
    assert wire.publish(FRAMES[0]).corrections() == [FRAMES[0]]


def test_the_request_of_version_1():
    wire = line(
        Caster(users={"rover": SECRET}),
        SECRET,
        user="rover",
        password_file="corrections.txt",
        version="1",
    ).open()
    request = wire.caster.request
    assert request is not None
    assert request.protocol == "HTTP/1.0"
    assert "ntrip-version" not in request.headers
    assert wire.publish(FRAMES[0]).corrections() == [FRAMES[0]]


@pytest.mark.parametrize(
    ("detail", "host"),
    [
        ("tcp:caster.example.org:2101 (198.51.100.7)", "caster.example.org:2101"),
        ("tls:caster.example.org:443 (198.51.100.7), TLSv1.3", "caster.example.org:443"),
        ("tcp:::1:2101 (::1)", "[::1]:2101"),
        ("tcp://user:pw@h:1/x", "h:1"),
        ("tls://[2001:db8::1]:2102", "[2001:db8::1]:2102"),
        ("tcp:h:80\r\nX: y", "h:80"),
        ("simulated", ""),
        ("tcp:nonsense", ""),
    ],
)
def test_the_host_is_taken_from_the_address_of_the_port(detail: str, host: str):
    wire = line().open(detail)
    assert wire.caster.request is not None
    assert wire.caster.request.headers["host"] == host


def test_a_configured_host_goes_before_the_address_of_the_port():
    wire = line(host="virtual.example.org").open("tls://198.51.100.7:2102")
    assert wire.caster.request is not None
    assert wire.caster.request.headers["host"] == "virtual.example.org"


@pytest.mark.parametrize("strict", ["status", "error"])
def test_a_refused_version_2_is_asked_again_in_version_1(strict: str):
    make = lambda: Caster(speaks="1", strict=strict)  # type: ignore[arg-type]  # noqa: E731
    wire = line(make()).open()
    assert len(wire.reopened) == 1
    assert "version 1" in wire.reopened[0]
    wire.reconnect(make()).publish(*FRAMES)
    assert wire.corrections() == FRAMES
    assert wire.faults() == []
    # And it remembers.
    assert wire.reconnect(make()).publish(FRAMES[0]).corrections() == [*FRAMES, FRAMES[0]]
    assert len(wire.reopened) == 1


def test_a_server_that_hangs_up_on_version_2_is_asked_in_version_1_and_then_again_in_2():
    make = lambda: Caster(speaks="1", strict="silence")  # noqa: E731
    wire = line(make()).open().reconnect(make()).publish(*FRAMES)
    assert wire.corrections() == FRAMES
    assert wire.faults() == []
    silent = line()
    silent.device.on_port(PortState.OPENED, "", S)
    silent.close()
    assert silent.faults() == []
    silent.device.on_port(PortState.OPENED, "", 2 * S)
    silent.close()
    assert silent.reason() == "ntrip_refused: the caster closed the connection without a reply"
    silent.open()
    assert silent.sent[-1].data.startswith(b"GET /BASE_NORTH HTTP/1.1\r\n")


def test_the_versions_take_turns_when_neither_is_answered_or_accepted():
    wire = line()
    asked = []
    for _ in range(3):
        wire.messages += wire.device.on_port(PortState.OPENED, "", wire.now_ns)
        (request,) = wire.device.take_tx()
        assert isinstance(request, Send)
        asked.append(request.data[16:24])
        wire.run_until(wire.device.next_due_ns())
    assert asked == [b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.1"]
    assert len(wire.faults()) == 1
    wire = line(Caster(speaks="1", strict="status")).open().close()
    wire.device.on_port(PortState.OPENED, "", wire.now_ns)
    wire.messages += wire.device.on_rx(b"HTTP/1.0 400 Bad Request\r\n\r\n", wire.now_ns)
    assert (
        wire.reason() == "ntrip_refused: the caster refuses mountpoint BASE_NORTH: 400 Bad Request"
    )
    assert wire.reconnect(Caster()).sent[-1].data.startswith(b"GET /BASE_NORTH HTTP/1.1\r\n")


def test_a_lost_connection_leaves_nothing_to_do():
    wire = line()
    wire.device.on_command(FIX, 0)
    wire.device.on_port(PortState.OPENED, "", S)
    wire.device.on_rx(b"ICY 200 OK\r\n\r\n" + FRAMES[0][:50], S)
    assert wire.device.next_due_ns() < NEVER_NS
    wire.close()
    assert wire.device.next_due_ns() == NEVER_NS
    (pause,) = wire.device.take_tx()
    assert isinstance(pause, Pause)


def test_a_fixed_version_is_kept():
    wire = line(Caster(speaks="1", strict="status"), version="2").open()
    assert (
        wire.reason() == "ntrip_refused: the caster refuses mountpoint BASE_NORTH: 400 Bad Request"
    )
    assert wire.reopened == []


@pytest.mark.parametrize(
    "caster", [Caster(), Caster(chunked=False), Caster(speaks="1")], ids=["chunked", "length", "v1"]
)
def test_an_unknown_mountpoint_is_named_with_the_closest_of_the_table(caster: Caster):
    wire = line(caster, mountpoint="base-noth")
    wire.device.on_command(FIX, 0)
    reason = wire.open().reason()
    assert reason.startswith(
        "ntrip_mountpoint: the caster does not know mountpoint base-noth (it lists 4)"
    )
    assert "closest by name: BASE_NORTH, BASE_SOUTH" in reason
    assert "nearest: NETWORK (1048 km), BASE_NORTH (1083 km)" in reason
    # Asked again later, in case the caster does not hang up; reported once.
    assert wire.run_until(wire.now_ns + 59 * S).reopened == []
    assert len(wire.run_until(wire.now_ns + 2 * S).reopened) == 1
    wire.reconnect(Caster())
    assert len(wire.faults()) == 1


def test_a_listed_mountpoint_that_is_not_served_is_distinguished_from_an_unknown_one():
    assert (
        "lists mountpoint ISLAND but does not serve it" in line(mountpoint="ISLAND").open().reason()
    )


def test_a_table_that_never_ends_is_judged_when_the_connection_does():
    wire = line(mountpoint="BASE_NRTH")
    wire.device.on_port(PortState.OPENED, "", S)
    wire.device.on_rx(b"SOURCETABLE 200 OK\r\n\r\nSTR;BASE_NORTH;x;RTCM 3.2\r\nSTR;OTH", 2 * S)
    wire.close()
    assert "it lists 2); closest by name: BASE_NORTH" in wire.reason()
    wire = line(mountpoint="BASE_NRTH")
    wire.device.on_port(PortState.OPENED, "", S)
    wire.device.on_rx(b"SOURCETABLE 200 OK\r\n\r\nSTR;BASE_NORTH;x;RTCM 3.2\r\n", 2 * S)
    assert "it lists 1)" in wire.run_until(20 * S).reason()


def test_no_mountpoint_asks_for_the_table_and_finds_nothing_wrong_with_it():
    wire = line(mountpoint="").open()
    assert wire.faults() == []
    (event,) = wire.messages
    assert isinstance(event, Event)
    assert event.name == "ntrip_sourcetable"
    assert msgspec.json.decode(event.fields)["complete"]
    assert wire.device.next_due_ns() == NEVER_NS


def test_a_404_names_the_mountpoint():
    assert line(Caster(unknown="404"), mountpoint="GONE").open().reason() == (
        "ntrip_mountpoint: the caster does not serve mountpoint GONE: 404 Not Found"
    )


@pytest.mark.parametrize("speaks", ["1", "both"])
def test_refused_credentials_are_named_without_the_secret(speaks: str):
    caster = Caster(users={"rover": "right"}, speaks=speaks)  # type: ignore[arg-type]
    wire = line(caster, SECRET, user="rover", password_file="corrections.txt").open()
    assert wire.reason() == (
        "ntrip_credentials: the caster refuses user rover with the password in file corrections.txt"
    )
    # The right one is used at once.
    wire.device.set_secret("right\n")
    assert len(wire.run_until(wire.now_ns).reopened) == 1
    wire.reconnect(Caster(users={"rover": "right"})).publish(FRAMES[0])
    assert wire.corrections() == [FRAMES[0]]
    assert [fault.active for fault in wire.faults()] == [True, False]


def test_a_demanded_password_and_other_ways_to_lack_one():
    assert (
        "requires a password for BASE_NORTH: set user"
        in line(Caster(users={"a": "b"})).open().reason()
    )
    assert (
        "user a with an empty password" in line(Caster(users={"a": "b"}), user="a").open().reason()
    )
    wire = line(user="a", password_credential="caster").open()
    assert wire.sent == []
    assert (
        wire.reason() == "ntrip_credentials: the password of a has not been read: credential caster"
    )
    digest = line().open()
    digest.device.on_port(PortState.OPENED, "", S)
    digest.messages = list(
        digest.device.on_rx(b'HTTP/1.1 401 No\r\nWWW-Authenticate: Digest realm="x"\r\n\r\n', S)
    )
    assert "digest authentication" in digest.reason()


def test_the_secret_is_in_the_data_of_the_request_and_nowhere_else():
    device: Device = NtripDevice(
        NtripParams(mountpoint="M", user="rover", password_file="f"), [Corrections], 1
    )
    assert isinstance(device, TakesSecret)
    assert device.secret_ref == SecretRef(file="f")
    device.set_secret("hunter2\n")
    device.on_port(PortState.OPENED, "", 0)
    (action,) = device.take_tx()
    assert isinstance(action, Send)
    token = "cm92ZXI6aHVudGVyMg=="
    assert f"Authorization: Basic {token}".encode() in action.data
    # A server that repeats the request in its answer must not get it into the log either.
    echo = f"HTTP/1.1 403 Forbidden hunter2 {token}\r\nLocation: http://{token}\r\n\r\n".encode()
    faults = device.on_rx(echo, 1)
    assert "403 Forbidden ***" in str(faults)
    texts = [
        repr(action),
        str(action.__rich_repr__()),
        str(action.journal),
        str(faults),
        repr(device),
        repr(vars(device)),
    ]
    for text in texts:
        assert "hunter2" not in text
        assert token not in text
    assert action.redacted == action.data.replace(token.encode(), b"***")


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (
            b"HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "ntrip_refused: the caster refuses mountpoint BASE_NORTH: 503 Service Unavailable",
        ),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://else.where/\r\n\r\n",
            "it moved to http://else.where/",
        ),
        (
            b"ERROR - Mount Point Taken or Invalid\r\n",
            "ntrip_mountpoint: the caster does not serve mountpoint BASE_NORTH: ERROR",
        ),
        (
            b"SSH-2.0-OpenSSH_9.2\r\n",
            "ntrip_protocol: the reply begins with b'SSH-2.0-OpenSSH_': this is not a caster",
        ),
        (FRAMES[0], "ntrip_protocol: RTCM arrives without a reply"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>",
            "ntrip_protocol: the reply is a web page",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n",
            "content encoding br, which is not understood",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "ntrip_protocol: a chunk of the body has no size",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
            "longer than its size says",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "ended the stream before its first RTCM 3 message",
        ),
        (
            (
                b"HTTP/1.1 200 OK\r\nContent-Encoding: "
                b"gzip\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff"
            ),
            "compressed body is damaged",
        ),
        (b"HTTP/1.1 abc OK\r\n\r\n", "the reply has no status"),
        (
            b"ICY 200 OK\r\nX: " + b"y" * 3_000,
            "ntrip_protocol: the reply header has a line of more than 2048 bytes",
        ),
        (
            b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 4_000,
            "ntrip_protocol: the reply header is longer than 16384 bytes",
        ),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_other_answers_are_named(answer: bytes, named: str):
    for step in (1, len(answer)):
        wire = line().open()
        wire.device.on_port(PortState.OPENED, "", S)
        wire.messages = []
        for at in range(0, len(answer), step):
            wire.messages += wire.device.on_rx(answer[at : at + step], S)
        assert named in wire.reason()
        assert wire.corrections() == []


def test_the_end_of_a_stream_that_flowed_is_no_fault():
    wire = line().open().publish(*FRAMES)
    wire.messages += wire.device.on_rx(b"0\r\n\r\n", S)
    assert wire.pump().reopened == ["the caster ended the stream"]
    assert wire.faults() == []


def test_positions_go_out_when_the_stream_begins_and_then_at_their_interval():
    wire = line(gga_period_s=10.0).open()
    wire.publish(FRAMES[0])
    assert wire.caster.positions == []
    wire.device.on_command(FIX, wire.now_ns)
    wire.pump()
    assert len(wire.caster.positions) == 1
    for _ in range(10 * 35):
        wire.run_until(wire.now_ns + S // 10)
        wire.device.on_command(FIX, wire.now_ns)
        wire.publish(FRAMES[0])
    assert len(wire.caster.positions) == 4
    assert wire.caster.positions[0].startswith(b"$GPGGA,221320.00,5133.97")
    gga = wire.sent[-1]
    assert gga.droppable
    assert gga.redacted is None
    assert gga.deadline_ns < wire.now_ns + 10 * S


def test_a_known_position_is_in_the_head_of_version_2_and_in_the_body_of_version_1():
    for speaks, sends in (("both", 1), ("1", 2)):
        wire = line(Caster(needs_position=True, speaks=speaks), gga_talker="GN")  # type: ignore[arg-type]
        wire.device.on_command(FIX, 0)
        wire.open().publish(*FRAMES)
        assert wire.corrections() == FRAMES
        assert len(wire.caster.positions) == 1
        assert len(wire.sent) == sends
        assert wire.caster.positions[0].startswith(b"$GNGGA,")


def test_without_a_period_no_position_is_sent():
    wire = line(gga_period_s=0.0)
    wire.device.on_command(FIX, 0)
    wire.open().publish(*FRAMES)
    assert wire.caster.positions == []
    assert wire.run_until(wire.now_ns + 10 * S).caster.positions == []


def test_positions_that_nobody_takes_do_not_pile_up():
    wire = line(gga_period_s=1.0).open().publish(FRAMES[0])
    for second in range(100):
        wire.device.on_command(FIX, wire.now_ns + second * S)
    actions: list[Action] = list(wire.device.take_tx())
    assert len(actions) == 1


@pytest.mark.parametrize(
    "fix",
    [
        GnssFix(1, 1, float("nan"), 0.0, 0.0, fix_type=FixType.FIX_3D),
        GnssFix(1, 1, 0.5, float("inf"), 0.0, fix_type=FixType.FIX_3D),
        GnssFix(1, 1, 0.5, 0.5, 0.0, fix_type=FixType.NONE),
        GnssFix(1, 1, 0.5, 0.5, 0.0, fix_type=FixType.TIME),
    ],
)
def test_a_fix_without_a_place_sends_none(fix: GnssFix):
    wire = line().open().publish(FRAMES[0])
    wire.device.on_command(fix, wire.now_ns)
    assert wire.pump().caster.positions == []


def test_a_stall_is_reported_once_reconnects_and_ends_when_corrections_flow():
    wire = line(stall_s=15.0).open().publish(*FRAMES)
    assert wire.run_until(wire.now_ns + 14 * S).reopened == []
    wire.run_until(wire.now_ns + 2 * S)
    assert wire.reason() == "corrections_stalled: no RTCM 3 message for 15 s"
    assert wire.reopened == ["no RTCM 3 message for 15 s"]
    assert wire.device.next_due_ns() == NEVER_NS
    wire.reconnect(Caster())
    wire.run_until(wire.now_ns + 29 * S)
    assert len(wire.reopened) == 1, "the second attempt gets twice the patience"
    wire.run_until(wire.now_ns + 2 * S)
    assert len(wire.reopened) == 2
    assert len(wire.faults()) == 1
    wire.reconnect(Caster()).publish(*FRAMES)
    assert [fault.active for fault in wire.faults()] == [True, False]
    assert "flow again" in wire.faults()[-1].reason
    wire.run_until(wire.now_ns + 16 * S)
    assert len(wire.reopened) == 3, "patience is short again once something has flowed"


def test_timeout_is_bounded():
    wire = line(stall_s=15.0)
    for _ in range(12):
        wire.caster = Caster()
        start_ns = wire.now_ns
        wire.open()
        due_ns = wire.device.next_due_ns()
        assert 15 * S <= due_ns - start_ns <= 300 * S
        wire.run_until(due_ns)
    assert due_ns - start_ns == 300 * S
    assert len(wire.faults()) == 1


def test_a_drip_of_something_else_is_a_stall_as_well():
    wire = line(Caster(speaks="1")).open()
    for _ in range(20):
        wire.publish(b"\xaa\x55 not rtcm")
        wire.run_until(wire.now_ns + S)
    assert (
        wire.reason()
        == "corrections_stalled: no RTCM 3 message for 15 s; 165 bytes of other data arrived"
    )


def test_a_stall_says_when_a_position_was_missing():
    waiting = line(Caster(needs_position=True)).open().publish(*FRAMES)
    assert "none was sent because the receiver has no fix" in waiting.run_until(20 * S).reason()
    informed = line(Caster(needs_position=True))
    informed.device.on_command(FIX, 0)
    informed.open()
    assert informed.run_until(20 * S).reason() == "corrections_stalled: no data for 15 s"


def test_a_half_open_connection_and_half_an_answer_are_stalls():
    wire = line()
    wire.device.on_port(PortState.OPENED, "", S)
    wire.device.take_tx()
    assert (
        wire.run_until(20 * S).reason() == "corrections_stalled: no reply from the caster for 15 s"
    )
    wire = line()
    wire.device.on_port(PortState.OPENED, "", S)
    wire.device.take_tx()
    for second in range(2, 20):
        wire.device.on_rx(
            b"HTTP/1.1 200 OK\r\nX-Slow: drip\r\n"[second - 2 : second - 1], second * S
        )
    assert "incomplete reply" in wire.run_until(20 * S).reason()


def test_one_fault_gives_way_to_another():
    wire = line(Caster(unknown="404"), mountpoint="GONE").open()
    wire.reconnect(Caster(users={"a": "b"}, mountpoints=("GONE",)))
    assert [(fault.code, fault.active) for fault in wire.faults()] == [
        ("ntrip_mountpoint", True),
        ("ntrip_mountpoint", False),
        ("ntrip_credentials", True),
    ]


def test_what_comes_after_the_end_is_ignored():
    wire = line().open()
    wire.device.on_port(PortState.OPENED, "", S)
    wire.device.on_rx(b"HTTP/1.1 503 Busy\r\n\r\n" + bytes(10), S)
    assert wire.device.on_rx(FRAMES[0], S) == []


def test_a_profile_that_expects_no_corrections_gets_none():
    device = NtripDevice(NtripParams(mountpoint="BASE_NORTH", stall_s=15.0), [], 1)
    wire = Line(device, Caster()).open().publish(*FRAMES)
    assert wire.corrections() == []
    assert device.next_due_ns() == wire.now_ns + 15 * S


@pytest.mark.parametrize(
    "bad",
    [
        {"mountpoint": "A B"},
        {"mountpoint": "A\r\nX: y"},
        {"mountpoint": "A?b"},
        {"host": "a b"},
        {"user": "a:b"},
        {"user": "a\nb"},
        {"agent": "curl"},
        {"agent": "NTRIP x\r\ny"},
        {"user": "a", "password_file": "f", "password_credential": "c"},
        {"password_file": "f"},
        {"password_credential": "../x"},
        {"stall_s": 0.0},
        {"password": "hunter2"},
    ],
)
def test_settings_that_cannot_be_meant_are_refused(bad: dict[str, object]):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, NtripParams)
