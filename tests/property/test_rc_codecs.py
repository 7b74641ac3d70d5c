"""Codecs of RC receivers: what is encoded is decoded, through any damage, and damage costs the
damaged frames alone."""

from hypothesis import given
from hypothesis import strategies as st

from drivers.rc import crsf, ibus, sbus
from tests.examples import examples

TICKS = st.lists(st.integers(0, 2047).map(float), min_size=16, max_size=16).map(tuple)
PULSES = st.lists(st.integers(0, 4095).map(float), min_size=14, max_size=14).map(tuple)


@given(
    TICKS,
    st.tuples(st.booleans(), st.booleans()),
    st.booleans(),
    st.booleans(),
    st.sampled_from(sbus.ENDS),
)
@examples(60)
def test_sbus_both_ways(
    channels: tuple[float, ...], digital: tuple[bool, bool], lost: bool, failsafe: bool, end: int
) -> None:
    frame = sbus.SbusFrame(channels, digital, lost, failsafe)
    data = sbus.encode(frame, end)
    assert sbus.parse(data) == frame
    assert len(data) == sbus.FRAME_BYTES


@given(PULSES, st.lists(st.integers(1, 4095).map(float), min_size=4, max_size=4).map(tuple))
@examples(60)
def test_ibus_both_ways(channels: tuple[float, ...], more: tuple[float, ...]) -> None:
    for each in (channels, channels + more):
        assert [content for _, content in ibus.decode(ibus.encode(ibus.IbusFrame(each)))] == [
            ibus.IbusFrame(each)
        ]


@given(
    TICKS,
    st.integers(-128, 0),
    st.integers(0, 100),
    st.integers(-128, 127),
    st.sampled_from(crsf.ADDRESSES),
    st.text(max_size=30),
)
@examples(60)
def test_crsf_both_ways(
    channels: tuple[float, ...], rssi: int, quality: int, snr: int, address: int, text: str
) -> None:
    contents: list[crsf.Content] = [
        crsf.Channels(channels),
        crsf.LinkStatistics(rssi, quality, snr),
    ]
    found = [
        content
        for _, content in crsf.decode(b"".join(crsf.encode(each, address) for each in contents))
    ]
    assert found == contents
    ((_, mode),) = crsf.decode(crsf.encode(crsf.FlightMode(text)))
    assert isinstance(mode, crsf.FlightMode)
    assert len(mode.text) <= 15


@given(st.data(), st.lists(TICKS, min_size=3, max_size=6), st.binary(max_size=40))
@examples(60)
def test_damage_costs_the_damaged_frame(
    data: st.DataObject, sticks: list[tuple[float, ...]], noise: bytes
) -> None:
    frames = [crsf.encode(crsf.Channels(each)) for each in sticks]
    hurt = data.draw(st.integers(0, len(frames) - 1))
    at = data.draw(st.integers(2, len(frames[hurt]) - 1))
    damaged = bytearray(frames[hurt])
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    stream = (
        b"".join(bytes(damaged) if i == hurt else each for i, each in enumerate(frames)) + noise
    )
    found = [content for _, content in crsf.decode(stream + bytes(64))]
    expected = [crsf.Channels(each) for i, each in enumerate(sticks) if i != hurt]
    rest = iter(found)
    assert all(each in rest for each in expected), "all others come, in order"
