"""Addresses of ports: what is accepted, what is refused, and whether the refusal helps."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.core.wire.slcan import BITRATES, opening
from vehicled.runtime.ports import AddressError, make_port
from vehicled.runtime.ports.address import (
    Address,
    I2cAddress,
    SerialAddress,
    SlcanAddress,
    SocketCanAddress,
    TcpAddress,
    TlsAddress,
    UdpCanAddress,
    note,
    parse,
)

BY_ID = "/dev/serial/by-id/usb-u-blox_AG_-_www.u-blox.com_u-blox_GNSS_receiver-if00"

GOOD: list[tuple[str, Address]] = [
    (f"serial:{BY_ID}?baud=460800", SerialAddress(path=BY_ID, baud=460_800)),
    ("serial:/dev/ttyAMA0", SerialAddress(path="/dev/ttyAMA0")),
    ("pty:/tmp/vehicled/gnss", SerialAddress(path="/tmp/vehicled/gnss")),
    ("tcp:caster.example:2101", TcpAddress(host="caster.example", port=2101)),
    ("tcp://192.0.2.7:2101?timeout_s=2.5", TcpAddress(host="192.0.2.7", port=2101, timeout_s=2.5)),
    ("tcp:[2001:db8::7]:2101", TcpAddress(host="2001:db8::7", port=2101)),
    ("tls:caster.example:443", TlsAddress(host="caster.example", port=443)),
    (
        "tcp+tls://caster.example:443?verify=/etc/ca.pem",
        TlsAddress(host="caster.example", port=443, verify="/etc/ca.pem"),
    ),
    ("i2c:/dev/i2c-7?device=0x41", I2cAddress(path="/dev/i2c-7", device=0x41)),
    ("i2c:/dev/i2c-1", I2cAddress(path="/dev/i2c-1", device=0x40)),
    ("i2c:/dev/pwm?retry_max_s=1", I2cAddress(path="/dev/pwm", retry_max_s=1.0)),
    ("can:can0", SocketCanAddress(interface="can0")),
    (
        "can:slcan:/dev/ttyACM0?bitrate=1000000",
        SlcanAddress(path="/dev/ttyACM0", bitrate=1_000_000),
    ),
    ("can:udp:239.74.163.2:43113", UdpCanAddress(group="239.74.163.2", port=43_113)),
    (
        "can:udp:[ff15::1]:43113?hop_limit=1",
        UdpCanAddress(group="ff15::1", port=43_113, hop_limit=1),
    ),
    (
        "tls:c.example:2102?retry_min_s=5&retry_max_s=300",
        TlsAddress(host="c.example", port=2102, retry_min_s=5.0, retry_max_s=300.0),
    ),
]


@pytest.mark.parametrize(("url", "address"), GOOD)
def test_accepted(url, address):
    assert parse(url) == address
    assert type(parse(url)) is type(address)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "use serial:PATH"),
        ("/dev/ttyUSB0", "write serial:/dev/ttyUSB0"),
        ("seriel:/dev/ttyUSB0", "use serial:PATH"),
        ("serial:ttyUSB0", "begins with a slash"),
        ("serial:/dev/ttyUSB0?bauds=9600", "did you mean 'baud'"),
        ("serial:/dev/ttyUSB0?parity=odd", "choose from retry_min_s, retry_max_s, baud"),
        ("serial:/dev/ttyUSB0?baud=fast", "baud: expected int"),
        ("serial:/dev/ttyUSB0?baud=", "baud: expected int"),
        ("serial:/dev/ttyUSB0?baud=3", "baud: expected int >= 50"),
        ("serial:/dev/ttyUSB0?path=/dev/other", "unknown option 'path'"),
        ("serial:/dev/ttyUSB0?retry_min_s=9", "longer than retry_max_s"),
        ("tcp:caster.example", "host and a port"),
        ("tcp::2101", "host and a port"),
        ("tcp:host:0", "from 1 to 65535"),
        ("tcp:host:65536", "from 1 to 65535"),
        ("tcp:host:٣", "from 1 to 65535"),
        ("tcp:host:21?verify=no", "unknown option 'verify'"),
        ("i2c:1:0x41", "write i2c:/dev/i2c-1?device=0x41"),
        ("i2c:1", "write i2c:/dev/i2c-1?device=0x40"),
        ("i2c:/dev/i2c-1:41", "write i2c:/dev/i2c-1?device=0x41"),
        ("i2c:/dev/i2c-1?device=40", "hexadecimal as i2cdetect shows it, such as 0x40"),
        ("i2c:/dev/i2c-1?device=0x78", "device: expected int <= 119"),
        ("i2c:/dev/i2c-1?devic=0x40", "unknown option 'devic'"),
        ("i2c:servo", "begins with a slash"),
        ("can:", "use serial:PATH"),
        ("can:a name", "use serial:PATH"),
        ("can:slcan:/dev/ttyACM0?bitrate=490000", "use one of 10000, 20000"),
        ("can:slcan:ttyACM0", "begins with a slash"),
        ("can:udp:239.74.163.2", "host and a port"),
        ("can:udp:192.0.2.1:43113", "not a multicast address"),
        ("can:udp:group.example:43113", "not a multicast address"),
    ],
)
def test_refused_with_place_and_cure(url, words):
    with pytest.raises(AddressError) as caught:
        parse(url)
    assert words in str(caught.value)
    assert repr(url) in str(caught.value)
    with pytest.raises(AddressError):
        make_port("gnss", url)


@pytest.mark.parametrize(
    ("url", "transport", "meant"),
    [
        ("can0", "frames", "write can:can0"),
        ("socketcan:vcan1", "frames", "write can:vcan1"),
        ("/dev/ttyUSB0", "stream", "write serial:/dev/ttyUSB0"),
        ("/dev/ttyACM0", "frames", "write can:slcan:/dev/ttyACM0?bitrate=500000"),
        ("ttyUSB0", "stream", "write serial:/dev/ttyUSB0"),
        ("serial:ttyUSB0", "stream", "write serial:/dev/ttyUSB0"),
        (
            "/dev/serial/by-id/usb-u-blox-if00",
            "stream",
            "write serial:/dev/serial/by-id/usb-u-blox-if00",
        ),
        ("usb:/dev/ttyACM0,115200", "stream", "write serial:/dev/ttyACM0?baud=115200"),
        ("serial:/dev/ttyUSB0:460800", "stream", "write serial:/dev/ttyUSB0?baud=460800"),
        ("COM3", "stream", "a COM port is one of Windows"),
        ("can:/dev/ttyACM0", "frames", "write can:slcan:/dev/ttyACM0"),
        ("slcan:/dev/ttyACM0", "frames", "write can:slcan:/dev/ttyACM0"),
        ("caster.example.org:2101", "stream", "write tcp:caster.example.org:2101"),
        (
            "ntrip://me:secret@caster.example.org:2101/NEAR",
            "stream",
            'write tcp:caster.example.org:2101, and mountpoint = "NEAR"',
        ),
        ("https://caster.example.org/NEAR", "stream", "write tls:caster.example.org:443"),
    ],
)
def test_the_address_that_was_meant_is_written_and_is_one(url, transport, meant):
    with pytest.raises(AddressError) as caught:
        parse(url, transport)
    text = str(caught.value)
    assert meant in text
    assert "secret" not in text
    written = meant.removeprefix("write ").partition(",")[0]
    if written != meant:
        parse(written, transport)


@pytest.mark.parametrize("bitrate", BITRATES)
def test_adapters_have_the_bitrates_that_they_have_a_command_for(bitrate):
    assert parse(f"can:slcan:/dev/ttyACM0?bitrate={bitrate}") == SlcanAddress(
        path="/dev/ttyACM0", bitrate=bitrate
    )
    assert BITRATES[bitrate] in opening(bitrate)


def test_the_seventh_bitrate_is_800_kbit_and_not_750():
    assert opening(800_000) == b"\rC\rS7\rO\r"
    with pytest.raises(AddressError, match="800000"):
        parse("can:slcan:/dev/ttyACM0?bitrate=750000")


@given(
    url=st.one_of(
        st.text(),
        st.from_regex(
            r"(serial|pty|tcp|tls|can|can:slcan|can:udp):[^\n]{0,30}(\?[^\n]{0,30})?",
            fullmatch=True,
        ),
    )
)
def test_any_text_is_an_address_or_an_address_error(url):
    try:
        address = parse(url)
    except AddressError:
        return
    assert msgspec.convert(msgspec.to_builtins(address), type(address)) == address


@pytest.mark.parametrize("path", ["/dev/ttyUSB0", "/dev/ttyACM12"])
@pytest.mark.parametrize("scheme", ["serial:", "can:slcan:"])
def test_names_by_order_of_plugging_get_a_note(scheme, path):
    assert path in note(parse(scheme + path))


@pytest.mark.parametrize(
    "url",
    [f"serial:{BY_ID}", "serial:/dev/ttyAMA0", "serial:/dev/ttyS1", "pty:/dev/pts/3", "can:can0"],
)
def test_stable_names_get_none(url):
    assert note(parse(url)) == ""


@pytest.mark.parametrize("url", [url for url, _ in GOOD])
def test_every_form_makes_a_port(url):
    port = make_port("some device", url)
    assert port.name == "some device"
    assert not port.send(b"x", 2**62, 0)
    assert port.counts.refused == 1
