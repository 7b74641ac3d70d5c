"""Bytes to an emulated inertial unit, cut anywhere or damaged: the same answers, and never an
exception."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.imu import mip as mip_driver
from drivers.imu import vectornav as vn_driver
from drivers.imu import witmotion as wit_driver
from drivers.imu import xsens as xsens_driver
from drivers.imu.set_up import ConfigurableParams
from drivers.imu.vectornav_fields import NAMES, masks, names_of
from drivers.sbg import codec as sbg_codec
from drivers.sbg.device import SbgParams
from sim_backend.emulators.line import LineDevice
from sim_backend.emulators.mip import MipUnit
from sim_backend.emulators.sbg import SbgUnit
from sim_backend.emulators.vectornav import VectorNavUnit
from sim_backend.emulators.witmotion import WitMotionUnit
from sim_backend.emulators.xsens import XsensUnit
from tests.emulator_bench import MS, START, table
from vehicled.core.messages import ImuSample

Make = Callable[[], LineDevice]


def _unit(kind: type[Any], name: str, params: Any) -> Make:
    device = table(name, params, ("ImuSample",), "serial:/dev/ttyUSB0?baud=921600")
    return lambda: kind("imu", device, 1, START)


UNITS: dict[str, tuple[Make, bytes]] = {
    "xsens": (
        _unit(XsensUnit, "xsens", xsens_driver.XsensParams()),
        xsens_driver.encode(0x30) + xsens_driver.encode(0xC0,
            bytes.fromhex("10600000 40200064")) + xsens_driver.encode(0x10),
    ),
    "vectornav": (
        _unit(VectorNavUnit, "vectornav", vn_driver.VectorNavParams()),
        b"".join(map(vn_driver.encode_line,
            ("VNRRG,01", "VNWRG,06,0", "VNWRG,75,1,8,01,0121", "VNRRG,75"))),
    ),
    "mip": (
        _unit(MipUnit, "mip", ConfigurableParams()),
        mip_driver.encode(1, (2, b"")) + mip_driver.encode(0x0C, (0x0E, b"\x80"),
            (0x0F, b"\x01\x80\x01\x04\x00\x04"))
        + mip_driver.encode(0x0C, (0x11, b"\x01\x80\x01")) + mip_driver.encode(1, (6, b"")),
    ),
    "sbg": (
        _unit(SbgUnit, "sbg", SbgParams()),
        sbg_codec.command(4) + sbg_codec.command(30, b"\0\x2c\0\2\0") + sbg_codec.command(30,
            b"\0\x2c\0") + sbg_codec.command(99),
    ),
    "witmotion": (
        _unit(WitMotionUnit, "witmotion", wit_driver.WitMotionParams()),
        wit_driver.UNLOCK + wit_driver.command(wit_driver.READ_REGISTER, 2) + wit_driver.command(2,
            0x1E),
    ),
}  # fmt: skip


def said(unit: LineDevice, pieces: list[bytes]) -> bytes:
    """All that the unit says to some bytes, and then to a few samples."""
    now_ns = START
    out: list[bytes] = []
    for piece in pieces:
        unit.on_bytes(piece, now_ns)
        out += unit.take_tx()
    for k in range(1, 12):
        now_ns = START + k * 300 * MS
        while unit.next_due_ns() <= now_ns:
            unit.on_time(unit.next_due_ns())
        out += unit.take_tx()
        unit.on_message(ImuSample(now_ns, 0, (0.1 * k, 0.0, 9.8), (0.0, 0.0, 0.01 * k)), now_ns)
        out += unit.take_tx()
    return b"".join(out)


@pytest.mark.parametrize("name", UNITS)
@given(cuts=st.lists(st.integers(0, 200), max_size=12))
def test_commands_may_be_cut_anywhere(name: str, cuts: list[int]) -> None:
    make, commands = UNITS[name]
    places = sorted({0, len(commands), *(cut % (len(commands) + 1) for cut in cuts)})
    pieces = [commands[a:b] for a, b in pairwise(places)]
    assert said(make(), pieces) == said(make(), [commands])


@pytest.mark.parametrize("name", UNITS)
@given(data=st.data())
def test_damaged_and_random_commands_are_survived(name: str, data: st.DataObject) -> None:
    make, commands = UNITS[name]
    noise = data.draw(st.binary(max_size=80))
    damaged = bytearray(commands)
    for place in data.draw(st.lists(st.integers(0, len(commands) - 1), max_size=4)):
        damaged[place] ^= data.draw(st.integers(1, 255))
    unit = make()
    said(unit, [noise, bytes(damaged), noise])
    unit.restart(START + 4000 * MS)
    assert isinstance(b"".join(unit.take_tx()), bytes)


@given(st.lists(st.sampled_from(sorted(NAMES)), unique=True, min_size=1))
def test_masks_name_what_they_were_made_of(names: list[str]) -> None:
    one_mask = [name for name in names if NAMES[name][1] < 15]
    if one_mask:
        assert sorted(names_of(masks(one_mask).split(","))) == sorted(one_mask)


@given(st.lists(st.text("0123456789ABCDEF", min_size=1, max_size=4), min_size=1, max_size=6))
def test_masks_that_mean_nothing_are_refused(words: list[str]) -> None:
    try:
        found = names_of(words)
    except ValueError:
        return
    assert {name.partition(".")[0] for name in found} <= {name.partition(".")[0] for name in NAMES}
