"""SBF blocks recorded from mosaic receivers, read by pysbf2 and by this driver, and what the driver
makes of them."""

from collections.abc import Iterator
from io import BytesIO
from math import degrees, hypot, isclose, sqrt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pysbf2 import SBFReader

from drivers.gnss import septentrio
from drivers.gnss.septentrio import SeptentrioDevice
from tests.examples import examples
from vehicled.core.messages import GnssFix, Heading, PortState
from vehicled.core.wire.usage import Loss, Unused

# Name in pysbf2 by field of ours, and the scale of a field that it scales.
SAME: dict[str, dict[str, tuple[str, float]]] = {
    "PVTGeodetic": {
        "latitude_rad": ("Latitude", 1), "longitude_rad": ("Longitude", 1),
        "height_m": ("Height", 1), "error": ("Error", 1), "undulation_m": ("Undulation", 1),
        "north_mps": ("Vn", 1), "east_mps": ("Ve", 1), "up_mps": ("Vu", 1),
        "course_deg": ("COG", 1), "clock_bias_ms": ("RxClkBias", 1),
        "clock_drift_ppm": ("RxClkDrift", 1), "time_system": ("TimeSystem", 1),
        "datum": ("Datum", 1), "satellites": ("NrSV", 1), "station": ("ReferenceID", 1),
        "correction_age_cs": ("MeanCorrAge", 0.01), "signals": ("SignalInfo", 1),
        "bases": ("NrBases", 1),
    },
    "PosCovGeodetic": {},
    "VelCovGeodetic": {},
    "AttEuler": {"error": ("Error", 1), "mode": ("Mode", 1), "heading_deg": ("Heading", 1),
        "pitch_deg": ("Pitch", 1)},
    "AttCovEuler": {"error": ("Error", 1), "heading": ("Cov_HeadHead", 1),
        "pitch": ("Cov_PitchPitch", 1)},
}  # fmt: skip
ALIASES = {"hgtb": "hb"}
AXES = {"lat": "n", "lon": "e", "hgt": "u", "b": "b", "Vn": "n", "Ve": "e", "Vu": "u", "Dt": "b"}
RECORDINGS = (
    "fixposition-sdk__test_data_sbf.bin", "pysbf2__pygpsdata_mixed.log",
    "pysbf2__pygpsdata_x5_attitude.log", "pysbf2__pygpsdata_x5_pvtgeod.log",
    "pysbf2__pygpsdata_x5_pvttruncated.log",
)  # fmt: skip


def recording(real_data: Path, name: str) -> bytes:
    path = real_data / "captures2" / "gnss" / name
    if not path.is_file():
        pytest.skip(f"{name} is not among the shared captures")
    return path.read_bytes()


def foreign(data: bytes) -> Iterator[tuple[str, Any]]:
    for _, parsed in SBFReader(BytesIO(data), quitonerror=0):
        if parsed is not None and hasattr(parsed, "TOW"):
            yield parsed.identity, parsed


def covariances(parsed: Any, prefixes: tuple[str, ...]) -> dict[str, float]:
    """Values by our two letters."""
    first = [axis for axis in AXES if axis in prefixes]
    pairs = {AXES[a] + AXES[b]: ALIASES.get(a + b, a + b) for a in first for b in first}
    return {
        key: getattr(parsed, f"Cov_{pair}")
        for key, pair in pairs.items()
        if hasattr(parsed, f"Cov_{pair}")
    }


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_blocks_are_those_that_pysbf2_reads(name: str, real_data: Path) -> None:
    data = recording(real_data, name)
    theirs = [
        (kind, each)
        for kind, each in foreign(data)
        if kind in {*SAME, "EndOfAtt", "DOP", "EndOfPVT"}
    ]
    ours = [
        (kind, each)
        for kind, each in septentrio.decode(data)
        if kind in {kind for kind, _ in theirs}
    ]
    assert [kind for kind, _ in ours] == [kind for kind, _ in theirs]
    assert ours
    for (kind, block), (_, parsed) in zip(ours, theirs):
        found: Any = block
        assert (found.tow_ms, found.week) == (parsed.TOW, parsed.WNc)
        for field, (key, scale) in SAME.get(kind, {}).items():
            assert isclose(
                getattr(found, field) * scale, getattr(parsed, key), rel_tol=1e-12, abs_tol=1e-12
            ), (kind, field)
        if kind in ("PosCovGeodetic", "VelCovGeodetic"):
            values = covariances(
                parsed, ("lat", "lon", "hgt", "b") if kind[0] == "P" else ("Vn", "Ve", "Vu", "Dt")
            )
            assert len(values) == 10
            assert {key: getattr(found, key) for key in values} == values


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_block_is_written_as_it_was_recorded(name: str, real_data: Path) -> None:
    blocks = [
        each
        for _, each in septentrio.decode(recording(real_data, name))
        if not isinstance(each, bytes)
    ]
    assert blocks
    # Reserved bytes, padding and the revision need not be the same, so the fields are compared.
    written = [
        septentrio.encode(each, 2 if isinstance(each, septentrio.PvtGeodetic) else 0)  # type: ignore[arg-type]
        for each in blocks
    ]
    assert [each for _, each in septentrio.decode(b"".join(written))] == blocks


def played(data: bytes) -> tuple[SeptentrioDevice, list[Any]]:
    device = SeptentrioDevice(SeptentrioDevice.Params(configure=False), [GnssFix, Heading], 0)
    device.on_port(PortState.OPENED, "recording", 1)
    messages = [*device.on_rx(data, 10**9), *device.on_time(2 * 10**9)]
    return device, messages


def test_a_recorded_epoch_is_a_fix_with_the_covariance_of_its_blocks(real_data: Path) -> None:
    device, messages = played(recording(real_data, "fixposition-sdk__test_data_sbf.bin"))
    (fix,) = [message for message in messages if isinstance(message, GnssFix)]
    assert (degrees(fix.latitude_rad), degrees(fix.longitude_rad)) == pytest.approx(
        (47.4003, 8.4504), abs=1e-4
    )
    assert fix.satellites == 41
    assert not fix.differential
    # The accuracy beside the covariance is twice the root mean square: one source proves the other.
    sigma_m = hypot(sqrt(fix.position_covariance_m2[0]), sqrt(fix.position_covariance_m2[4]))
    assert 2 * sigma_m == pytest.approx(1.97, abs=0.005)
    assert 2 * sqrt(fix.position_covariance_m2[8]) == pytest.approx(3.02, abs=0.005)
    assert [row for row in device.usage if row[1].refused] == []


def test_a_recorded_attitude_that_was_not_requested_is_no_heading(real_data: Path) -> None:
    device, messages = played(recording(real_data, "pysbf2__pygpsdata_x5_attitude.log"))
    assert not [message for message in messages if isinstance(message, Heading)]
    use = dict(device.usage)["AttEuler"]
    assert use.refused == {Loss(Unused.INVALID, "attitude not requested"): 1}


def test_damaged_recordings_give_whole_blocks_only(real_data: Path) -> None:
    for name in (
        "pysbf2__pygpsdata_bad.log",
        "pysbf2__pygpsdata_mixed.log",
        "pysbf2__pygpsdata_x5_status.log",
    ):
        data = recording(real_data, name)
        theirs = [kind for kind, _ in foreign(data)]
        assert len(list(septentrio.decode(data))) >= len(
            [kind for kind in theirs if kind in septentrio.NAMES.values()]
        )


ANGLES = st.floats(-1.5, 1.5)
SINGLES = st.floats(-100.0, 100.0, width=32)


@given(
    st.integers(0, 604_799_999),
    st.integers(0, 65_534),
    ANGLES,
    ANGLES,
    st.tuples(SINGLES, SINGLES, SINGLES),
    st.integers(0, 2),
)
@examples(60)
def test_pysbf2_reads_what_is_written(
    tow_ms: int,
    week: int,
    latitude: float,
    longitude: float,
    velocity: tuple[float, float, float],
    revision: int,
) -> None:
    block = septentrio.PvtGeodetic(
        tow_ms, week, 4, 0, latitude, longitude, 230.0, -34.0, *velocity, 10.0, 0.5, 0.25, 0, 0, 24,
        0, 7, 120, 3, 0, 1, 0, 55, 102, 138,
    )  # fmt: skip
    data = septentrio.encode(block, revision)
    assert len(data) % 4 == 0
    ((kind, parsed),) = foreign(data)
    assert (kind, parsed.TOW, parsed.Latitude, parsed.Vn, parsed.NrSV) == (
        "PVTGeodetic",
        tow_ms,
        latitude,
        velocity[0],
        24,
    )
    ((_, back),) = septentrio.decode(data)
    assert isinstance(back, septentrio.PvtGeodetic)
    assert back.horizontal_2drms_cm == (102 if revision == 2 else septentrio.UNKNOWN_U16)
    assert back[:21] == block[:21]


def test_a_vector_of_antennas_and_bands_are_read_by_pysbf2() -> None:
    vector = septentrio.AuxAntenna(20, 0, 0, 1, 0.5, -0.25, 0.125, 0.0, 0.0, 0.0)
    bands = (septentrio.RfBand(1_575_420_000, 2_000, 2), septentrio.RfBand(1_227_600_000, 500, 8))
    data = septentrio.encode(
        septentrio.AuxAntPositions(1000, 2367, (vector, vector._replace(number=2)))
    )
    data += septentrio.encode(septentrio.RfStatus(1000, 2367, 1, bands))
    (_, antennas), (_, status) = foreign(data)
    assert (antennas.N, antennas.AuxAntID_02, antennas.DeltaEast_01, antennas.DeltaNorth_02) == (
        2,
        2,
        0.5,
        -0.25,
    )
    assert (status.N, status.Misleading, status.Frequency_02, status.Mode_01, status.Mode_02) == (
        2,
        1,
        1_227_600_000,
        2,
        8,
    )
    assert [each for _, each in septentrio.decode(data)] == [
        septentrio.AuxAntPositions(1000, 2367, (vector, vector._replace(number=2))),
        septentrio.RfStatus(1000, 2367, 1, bands),
    ]  # fmt: skip


def test_numbers_of_pysbf2_are_ours() -> None:
    from pysbf2.sbftypes_core import SBF_MSGIDS

    for number, name in (septentrio.NAMES | septentrio.OTHER_NAMES).items():
        # Receivers with an inertial unit are not among theirs.
        assert SBF_MSGIDS.get(number, ("INSNavGeod",))[0] == name
