"""Race lines of random tracks: inside the walls, drivable, and not slower than the centre line."""

from math import pi

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.race_tracks import wavy
from vehicled.offline.race.errors import RaceError
from vehicled.offline.race.limits import limits_of
from vehicled.offline.race.line import race_line
from vehicled.offline.race.speed import lap_time
from vehicled.offline.race.track import RaceTrack
from vehicled.profile import load

STATIONS = 120
PHASE = st.floats(0.0, 2.0 * pi)


@st.composite
def tracks(draw: st.DrawFn) -> RaceTrack:
    amplitudes = [draw(st.floats(0.0, most)) for most in (0.25, 0.12, 0.08, 0.04)]
    phases = [draw(PHASE) for _ in amplitudes]
    mean, wave = draw(st.floats(1.2, 2.2)), draw(st.floats(0.0, 0.4))
    n = draw(st.integers(60, 160))
    angle = np.arange(n) * 2.0 * pi / n
    width = mean + wave * np.cos(3.0 * angle + draw(PHASE))
    track = wavy(draw(st.floats(4.0, 12.0)), amplitudes, phases, width, n)
    return track.reversed() if draw(st.booleans()) else track


@given(tracks(), st.sampled_from(["curvature", "time"]), st.sampled_from([0.05, 0.12]))
def test_the_body_stays_inside_and_the_line_is_drivable(
    track: RaceTrack, objective: str, margin_m: float
) -> None:
    profile = load("f1tenth").profile
    limits = limits_of(profile.vehicle, profile.limits)
    try:
        line = race_line(track, limits, objective, margin_m=margin_m, stations=STATIONS)  # type: ignore[arg-type]
    except RaceError as error:
        assume("too tight" not in str(error))
        raise
    assert line.clearance_m >= 0.9 * margin_m - 2e-3
    assert float(np.abs(line.curvature_per_m).max()) <= 1.02 * limits.max_curvature_per_m
    assert float(line.speed_mps.max()) <= limits.max_speed_mps + 1e-9
    across = line.speed_mps**2 * np.abs(line.curvature_per_m)
    assert float(across.max()) <= limits.lateral_mps2 * 1.001
    assert line.lap.time_s == pytest.approx(
        lap_time(line.curvature_per_m, np.diff(np.append(line.s_m, line.length_m)), limits).time_s
    )
    if objective == "time":
        assert line.lap.time_s <= line.centre_time_s * (1.0 + 1e-9)


@pytest.mark.soak
@given(tracks())
def test_minimum_time_is_not_slower_than_minimum_curvature(track: RaceTrack) -> None:
    profile = load("f1tenth").profile
    limits = limits_of(profile.vehicle, profile.limits)
    try:
        times = [
            race_line(track, limits, objective, margin_m=0.1, stations=STATIONS).lap.time_s
            for objective in ("curvature", "time")
        ]
    except RaceError as error:
        assume("too tight" not in str(error))
        raise
    assert times[1] <= times[0] * (1.0 + 1e-3)
