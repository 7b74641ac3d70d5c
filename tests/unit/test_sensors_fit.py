"""Sensor models fitted to recordings: Allan deviation, errors of positions, interruptions, and the
command."""

import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from math import cos, sin, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from sim_backend.plant.interface import Motion
from sim_backend.sensors.gnss import Gnss
from sim_backend.sensors.gnss_errors import RandomWalkError
from sim_backend.sensors.imu_detailed import imu_sensor
from sim_backend.sensors.noise import Normals, stream
from tests import log_bench
from vehicled.cli import main
from vehicled.core.messages import GnssFix, ImuSample
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import RecordedMotion
from vehicled.offline.sensors import inertial, positions
from vehicled.offline.sensors.allan import Terms, allan, fit, fit_with_doubt, overlapping
from vehicled.offline.sensors.allan import samples as samples_of
from vehicled.offline.sensors.fit import corridor_option
from vehicled.offline.sensors.positions import Form
from vehicled.offline.sensors.reading import SensorRecording, inertial_samples, read
from vehicled.paths.datum import LOT_17
from vehicled.profile import load_profile
from vehicled.profile.gnss import GnssModel, RandomWalk, RecordedError
from vehicled.profile.sensors import ImuModel

STILL = Motion(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
START_NS = log_bench.START_NS
SECOND = 1_000_000_000


def samples(model: ImuModel, seconds: float, seed: int = 1) -> list[ImuSample]:
    """Return what a standing unit measures."""
    sensor, found = imu_sensor(model, (0.0, 0.0, 0.0), seed, "imu"), []
    for k in range(int(seconds * model.rate_hz)):
        t_ns = START_NS + round(k * SECOND / model.rate_hz)
        _, message = sensor.sample(t_ns, STILL)
        assert isinstance(message, ImuSample)
        found.append(replace(message, t_rx_ns=t_ns))
    return found


def fixes(
    model: GnssModel,
    seconds: float,
    seed: int = 1,
    motion: Callable[[float], Motion] = lambda _: STILL,
) -> list[GnssFix]:
    """Return the fixes of a simulated receiver, without the velocity that it measures at standstill
    too."""
    sensor, found = Gnss(model, (0.0, 0.0, 0.0), LOT_17, seed, "gnss", START_NS, 0), []
    for k in range(int(seconds * model.rate_hz)):
        t_ns = START_NS + round(k * SECOND / model.rate_hz)
        _, message = sensor.sample(t_ns, motion(k / model.rate_hz))
        assert isinstance(message, GnssFix)
        found.append(replace(message, t_rx_ns=t_ns))
    return found


def drive(**parts: Any) -> SensorRecording:
    given: dict[str, Any] = {"name": "run", "fixes": [], "truth": None, "datum": LOT_17}
    if "samples" in parts:
        parts["sample_ns"], parts["samples"] = inertial_samples(parts["samples"])
    return SensorRecording(**given | parts)


def log(path: Path, messages: Sequence[Any]) -> str:
    return log_bench.write(
        path, ((m.t_rx_ns, m) for m in messages), clock="imported", imported={"file": "still"}
    )


# -------------------------------------------------------------------- Allan deviation


def test_the_nine_published_values_of_nbs_monograph_140() -> None:
    """NIST Special Publication 1065, table 31: overlapping deviation of nine fractional
    frequencies."""
    values = np.array([892, 809, 823, 798, 671, 644, 883, 903, 677], dtype=np.float64)
    phase = np.concatenate([[0.0], np.cumsum(values)])
    assert overlapping(phase, 1) == pytest.approx(91.22945, abs=1e-5)
    assert overlapping(phase, 2) == pytest.approx(85.95287, abs=1e-5)


def test_the_thousand_published_values_of_nist() -> None:
    """NIST Special Publication 1065, section 12.4: values of a generator of random numbers."""

    def values() -> Iterator[float]:
        state = 1234567890
        for _ in range(1000):
            yield state / 2147483647
            state = 16807 * state % 2147483647

    phase = np.concatenate([[0.0], np.cumsum(list(values()))])
    assert overlapping(phase, 1) == pytest.approx(2.922319e-1, rel=1e-6)
    assert overlapping(phase, 10) == pytest.approx(9.159953e-2, rel=1e-6)
    assert overlapping(phase, 100) == pytest.approx(3.241343e-2, rel=1e-6)


@pytest.mark.parametrize(
    ("true", "values"),
    [
        (Terms(0.0, 0.1, 0.0, 0.0), lambda chance, n: 0.1 * sqrt(50.0) * chance.standard_normal(n)),
        (Terms(0.0, 0.0, 0.0, 0.3),
         lambda chance, n: 0.3 / sqrt(50.0) * np.cumsum(chance.standard_normal(n))),
        (Terms(0.2, 0.0, 0.0, 0.0),
         lambda chance, n: 0.2 * 50.0 * np.diff(chance.standard_normal(n + 1))),
    ],
)  # fmt: skip
def test_single_terms_are_found(
    true: Terms, values: Callable[[np.random.Generator, int], np.ndarray]
) -> None:
    found = fit(allan(values(np.random.default_rng(3), 60_000), 50.0))
    tau = np.array([0.1, 1.0, 10.0])
    assert found.deviation(tau) == pytest.approx(true.deviation(tau), rel=0.15)
    name = max(("quantisation", "white", "walk"), key=lambda each: getattr(true, each))
    assert getattr(found, name) == pytest.approx(getattr(true, name), rel=0.1)


def test_the_simulated_unit_is_found_again() -> None:
    model = ImuModel(
        rate_hz=100.0, gyro_density=2e-4, gyro_bias_walk=2e-4, accelerometer_density=2e-3,
        accelerometer_bias_walk=0.0, gyro_bias_radps=0.01, accelerometer_bias_mps2=0.05,
        gyro_step_radps=1e-4,
    )  # fmt: skip
    found = inertial.fit([drive(samples=samples(model, 600.0))])
    assert found.rate_hz == pytest.approx(100.0, rel=1e-3)
    assert found.root_mean_square("gyro", "white") == pytest.approx(2e-4, rel=0.1)
    assert found.root_mean_square("gyro", "walk") == pytest.approx(2e-4, rel=0.5)
    assert found.root_mean_square("accelerometer", "white") == pytest.approx(2e-3, rel=0.1)
    assert found.gyro[0].step == pytest.approx(1e-4, rel=1e-6)
    assert found.accelerometer[0].step == 0.0
    for axis in (*found.gyro, *found.accelerometer):
        assert axis.low.white <= axis.terms.white <= axis.high.white


def test_the_instability_is_the_floor_that_the_twin_has() -> None:
    """The fitted floor and that of ``[sim.imu]`` have the same meaning."""
    model = ImuModel(
        rate_hz=50.0, gyro_density=2e-4, gyro_instability_radps=1e-4, gyro_bias_walk=0.0
    )
    found = inertial.fit([drive(samples=samples(model, 900.0))])
    assert found.root_mean_square("gyro", "instability") == pytest.approx(1e-4, rel=0.25)
    assert found.root_mean_square("gyro", "quantisation") == 0.0
    drawn = samples_of(Terms(0.0, 2e-4, 1e-4, 0.0), 45_000, 50.0, np.random.default_rng(1))
    assert fit(allan(drawn, 50.0), ["white", "instability"]).instability == pytest.approx(
        1e-4, rel=0.25
    )


def test_intervals_hold_the_true_terms() -> None:
    """Nine of ten stands with a walk of the rate, in the mean."""
    true, inside = Terms(0.0, 2e-4, 0.0, 2e-5), 0
    for seed in range(10):
        values = samples_of(true, 30_000, 50.0, np.random.default_rng(seed))
        _, low, high = fit_with_doubt(allan(values, 50.0), 30_000, 50.0)
        inside += (low.white <= true.white <= high.white) + (low.walk <= true.walk <= high.walk)
    assert inside >= 14


def test_only_the_time_of_standing_counts() -> None:
    model = ImuModel(rate_hz=100.0)
    moving = [
        replace(
            m,
            angular_rate_radps=(0.0, 0.0, 0.5 * np.sin(0.01 * k)),
            specific_force_mps2=(np.sin(0.3 * k), 0.0, 9.8),
        )
        for k, m in enumerate(samples(model, 90.0))
    ]
    both = [*samples(model, 60.0), *(replace(m, t_ns=m.t_ns + 60 * SECOND) for m in moving)]
    found = inertial.fit([drive(samples=both)])
    _, begin, end = found.stretches[0]
    assert (begin, end) == (0.0, pytest.approx(60.0, abs=1.5))
    assert found.assumed
    fitted_by_speed = inertial.fit([drive(samples=both, speeds=[(START_NS + 40 * SECOND, 1.0)])])
    assert fitted_by_speed.stretches[0][2] == pytest.approx(40.0, abs=1.5)
    assert not fitted_by_speed.assumed


# -------------------------------------------------------------------- positions


def made(form: Form, length: int, count: int, seed: int) -> list[SensorRecording]:
    table = RecordedError(
        white_sigma_m=form.white_m, wander_sigma_m=form.wander_m, wander_time_s=form.wander_s,
        smooth_sigma_m=form.smooth_m, smooth_time_s=form.smooth_s,
    )  # fmt: skip
    model = GnssModel(model="recorded", rate_hz=4.0, carrier="none", recorded=table)
    found = []
    for k in range(count):
        still = [
            replace(m, velocity_enu_mps=(0.0, 0.0, 0.0))
            for m in fixes(model, length / 4.0, seed + k)
        ]
        found.append(drive(fixes=still))
    return found


def test_the_simulated_receiver_is_found_again() -> None:
    """Many runs, so that chance is small; ten simulated minutes do not show the time of the
    first-order part."""
    true = Form(0.05, 0.2, 100.0, 0.5, 12.0)
    found = positions.fit(made(true, 700, 30, 4))
    assert found.runs == 30
    assert found.delay_s is None
    assert found.wander_fixed
    assert found.rate_hz == pytest.approx(4.0, rel=1e-3)
    assert found.form.white_m == pytest.approx(0.05, rel=0.15)
    assert found.form.smooth_m == pytest.approx(0.5, rel=0.2)
    assert found.form.smooth_s == pytest.approx(12.0, rel=0.2)
    assert found.held_out < 1.3
    assert found.carrier == "none"
    for recorded, simulated in found.autocorrelation.values():
        assert recorded == pytest.approx(simulated, abs=0.1)


def test_a_run_of_another_rate_is_left_out() -> None:
    both = [
        drive(name=str(rate), fixes=fixes(GnssModel(model="gauss", rate_hz=rate), 60.0))
        for rate in (4.0, 1.0, 4.0)
    ]
    found = positions.fit(both)
    assert found.runs == 2
    assert found.left_out == ["1.0: has 1 fixes per second, not 4; fit it apart"]


def test_white_noise_alone_is_no_walk() -> None:
    found = positions.fit(made(Form(0.3, 1e-6, 100.0, 1e-6, 10.0), 600, 4, 1))
    assert found.form.white_m == pytest.approx(0.3, rel=0.05)
    assert found.form.sigma_m == pytest.approx(0.3, rel=0.1)


def test_the_walk_nearest_to_white_noise_has_its_size() -> None:
    lags = np.geomspace(0.1, 20.0, 12)
    for growth in (0.0, 2e-4):
        found, factor = positions.nearest_walk(lags, 0.02 + growth * lags)
        assert 0.05 < found.settled_sigma_m < 0.3
        assert factor > 2.0, "and the result says that it does not fit"


def test_the_walk_is_found_again() -> None:
    """A walk that was stretched in size and time has its numbers again."""
    true = replace(
        RandomWalk(), sigma=1.33, pull=0.283, pull_range_m=10.0, acceleration_cut=4.3,
        speed_cut=0.32, settled_sigma_m=1.03
    )  # fmt: skip
    lags = np.geomspace(0.25, 60.0, 16)
    places = positions.walk_places(true, 160.0, 150, np.random.default_rng(2))[4_000:]
    rows = (lags * true.rate_hz).astype(int).tolist()
    found, factor = positions.nearest_walk(
        lags, np.array([np.mean((places[k:] - places[:-k]) ** 2) for k in rows])
    )
    assert found.sigma == pytest.approx(true.sigma, rel=0.3)
    assert found.pull * found.sigma / found.pull_range_m == pytest.approx(
        true.pull * true.sigma / true.pull_range_m, rel=0.3
    )
    assert found.speed_cut == pytest.approx(true.speed_cut, rel=0.15)
    assert found.settled_sigma_m == pytest.approx(places.std(), rel=0.15)
    assert factor < 1.1


def test_the_walk_of_the_simulator_is_the_walk_that_is_fitted() -> None:
    walk = RandomWalkError(RandomWalk(), 1.0, Normals(stream(1, "walk"), 3))
    one = np.array([walk.step(k * 0.1, [])[3] for k in range(6000)])[600:]
    many = positions.walk_places(RandomWalk(), 60.0, 300, np.random.default_rng(1))[3000:]
    for lag in (1, 10, 40):
        single, all_axes = (
            np.sqrt(np.mean((each[k:] - each[:-k]) ** 2))
            for each, k in ((one, lag), (many, 10 * lag))
        )
        assert single == pytest.approx(all_axes, rel=0.25)


def test_a_lateness_counts_only_if_it_shows() -> None:
    """Fixes that are 0.2 s late at 8 m/s are 1.6 m behind, and on a circle that turns with the
    vehicle."""

    def motion(t_s: float) -> Motion:
        angle = 0.8 * t_s
        return replace(
            STILL,
            x_m=10.0 * np.cos(angle),
            y_m=10.0 * np.sin(angle),
            yaw_rad=angle + np.pi / 2.0,
            speed_mps=8.0,
        )

    t_s = np.arange(0.0, 60.0, 0.1)
    truth = RecordedMotion(
        (START_NS + t_s * 1e9).astype(np.int64),
        10.0 * np.cos(0.8 * t_s),
        10.0 * np.sin(0.8 * t_s),
        0.8 * t_s + np.pi / 2.0,
        0.0 * t_s,
    )
    model = GnssModel(model="gauss", rate_hz=5.0)
    late = drive(fixes=fixes(model, 55.0, 1, lambda t: motion(t - 0.2)), truth=truth)
    assert positions._delay([late]) == pytest.approx(0.2)
    assert positions._delay([drive(fixes=fixes(model, 55.0, 1, motion), truth=truth)]) == 0.0


def test_what_interrupts_the_fixes_is_found_again() -> None:
    table = RecordedError(
        white_sigma_m=0.3, wander_sigma_m=0.0, smooth_sigma_m=0.0, hold_share=0.3, hold_s=2.0,
        outages_per_hour=60.0, outage_s=3.0, step_m=0.05,
    )  # fmt: skip
    model = GnssModel(model="recorded", rate_hz=4.0, recorded=table)
    driven = [
        drive(
            fixes=fixes(model, 3600.0, seed, lambda t: replace(STILL, x_m=2.0 * t, speed_mps=2.0)),
            driven=True,
        )
        for seed in (1, 2)
    ]  # fmt: skip
    found = positions._interrupted(driven, 0.25)
    assert found.hold_share == pytest.approx(0.3, abs=0.04)
    assert found.hold_s == pytest.approx(2.0, rel=0.2)
    assert found.outages_per_hour == pytest.approx(60.0, rel=0.3)
    assert found.outage_s == pytest.approx(3.0, rel=0.3)


def test_rounded_positions_show_their_step() -> None:
    table = RecordedError(white_sigma_m=0.1, wander_sigma_m=0.0, smooth_sigma_m=0.0, step_m=0.05)
    model = GnssModel(model="recorded", rate_hz=4.0, recorded=table)
    found = positions._interrupted([drive(fixes=fixes(model, 300.0))], 0.25)
    assert found.step_m == pytest.approx(0.05, rel=0.01)


def test_other_models_are_not_interrupted() -> None:
    table = RecordedError(hold_share=0.9, outages_per_hour=3600.0)
    plain = GnssModel(model="gauss", rate_hz=4.0)
    assert fixes(replace(plain, recorded=table), 50.0) == fixes(plain, 50.0)


def test_dilution_that_settles_is_found_again() -> None:
    found = positions._settling(drive(fixes=fixes(GnssModel(model="airsim", rate_hz=4.0), 200.0)))
    assert found == pytest.approx((100.0, 0.85, 12.4), rel=0.05)
    assert positions._settling(drive(fixes=fixes(GnssModel(rate_hz=4.0), 50.0))) is None


@pytest.mark.soak
def test_the_recordings_give_the_shipped_numbers(real_data: Path) -> None:
    found = positions.fit(read([real_data / "lot17_rtk_gps_2023"]))
    shipped = RecordedError()
    assert found.runs == 12
    assert found.form.wander_m == pytest.approx(shipped.wander_sigma_m, rel=0.1)
    assert found.form.smooth_m == pytest.approx(shipped.smooth_sigma_m, rel=0.1)
    assert found.form.smooth_s == pytest.approx(shipped.smooth_time_s, rel=0.1)
    assert found.held_out < 1.3


# -------------------------------------------------------------------- command


def test_a_still_log_becomes_a_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both: list[Any] = [
        *samples(ImuModel(rate_hz=50.0), 60.0),
        *fixes(GnssModel(rate_hz=5.0, velocity_sigma_mps=0.01), 60.0),
    ]
    file = log(tmp_path / "still.mcap", sorted(both, key=lambda m: m.t_rx_ns))
    out, picture = tmp_path / "mine.toml", tmp_path / "fit.png"
    assert main(["sensors", "fit", file, "-o", str(out), "--plot", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "Positions: 1 runs" in text
    assert "gyro x" in text
    profile = load_profile(str(out))
    assert profile.sim.gnss.model == "recorded"
    assert profile.sim.gnss.rate_hz == pytest.approx(5.0, rel=1e-3)
    assert profile.sim.imu.gyro_density == pytest.approx(ImuModel().gyro_density, rel=0.2)
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize("profile", ["f1tenth_gnss", "husky_a200"])
def test_tables_that_a_profile_lacks_are_added(tmp_path: Path, profile: str) -> None:
    file = log(tmp_path / "still.mcap", samples(ImuModel(rate_hz=50.0), 60.0))
    out = tmp_path / "mine.toml"
    assert main(["sensors", "fit", file, "--profile", profile, "-o", str(out)]) == 0
    assert load_profile(str(out)).sim.imu.gyro_density == pytest.approx(
        ImuModel().gyro_density, rel=0.2
    )


def test_the_drive_with_large_errors_gets_a_corridor_that_lets_it_arm() -> None:
    profile = load_profile("art")
    assert corridor_option(1.48, profile) == " --set limits.corridor_m=8"
    assert not corridor_option(0.02, profile)


def test_without_output_the_tables_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = log(tmp_path / "still.mcap", samples(ImuModel(rate_hz=50.0), 60.0))
    assert main(["sensors", "fit", file, "--sensor", "imu"]) == 0
    text = capsys.readouterr().out
    table = tomllib.loads(text[text.index("[sim.imu]") :])["sim"]["imu"]
    assert table["rate_hz"] == pytest.approx(50.0, rel=1e-3)
    assert main(["sensors", "fit", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gnss"] is None
    assert found["imu"]["gyro"][0]["allan"]["tau_s"][0] == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (lambda: samples(ImuModel(rate_hz=50.0), 8.0), "at least 20 s are needed"),
        (lambda: samples(ImuModel(rate_hz=5.0), 10.0), "has 50 samples"),
        (lambda: fixes(GnssModel(rate_hz=5.0), 5.0), "at least 10 s are needed"),
        (lambda: fixes(GnssModel(rate_hz=5.0), 1.0), "has 5 fixes"),
        (
            lambda: fixes(
                GnssModel(rate_hz=5.0),
                60.0,
                1,
                lambda t: replace(STILL, x_m=2.0 * t, speed_mps=2.0),
            ),
            "nothing shows where it was",
        ),
        (
            # Rounds of 31 s: after half the run it is back where it was.
            lambda: [
                replace(m, velocity_enu_mps=(np.nan,) * 3)
                for m in fixes(
                    GnssModel(rate_hz=5.0),
                    60.0,
                    1,
                    lambda t: replace(STILL, x_m=5 * cos(t / 5), y_m=5 * sin(t / 5)),
                )
            ],
            "nothing shows where it was",
        ),
        (
            lambda: [
                replace(fixes(GnssModel(rate_hz=5.0), 1.0)[0], t_ns=START_NS + k * SECOND)
                for k in range(60)
            ],
            "never change",
        ),
    ],
)
def test_what_shows_nothing_is_refused_with_the_reason(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    messages: Callable[[], list[GnssFix]],
    reason: str,
) -> None:
    file = log(tmp_path / "run.mcap", messages())
    assert main(["sensors", "fit", file]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda m: replace(
                m, angular_rate_radps=(0.1, 0.0, 0.0), specific_force_mps2=(0.0, 0.0, 9.8)
            ),
            "never change",
        ),
        (
            lambda m: replace(
                m, angular_rate_radps=(np.nan,) * 3, specific_force_mps2=(np.nan,) * 3
            ),
            "never change",
        ),
        (lambda m: replace(m, t_ns=START_NS + (m.t_ns - START_NS) * 40), "too few to see it stand"),
    ],
)
def test_samples_that_show_nothing_are_refused(
    change: Callable[[ImuSample], ImuSample], reason: str
) -> None:
    with pytest.raises(RecordingError, match=reason):
        inertial.fit([drive(samples=[change(m) for m in samples(ImuModel(rate_hz=50.0), 60.0)])])


def test_a_receiver_that_wanders_by_metres_stands() -> None:
    """Errors as large as on the recorded laps, with every second fix lost and no velocity known."""
    nan3 = (np.nan, np.nan, np.nan)
    for seed in range(1, 9):
        found = fixes(GnssModel(model="recorded", rate_hz=1.0, carrier="none"), 300.0, seed)
        lost = [
            replace(m, latitude_rad=np.nan if k % 2 else m.latitude_rad, velocity_enu_mps=nan3)
            for k, m in enumerate(found)
        ]
        assert positions.errors(drive(fixes=lost), 0.0).period_s == pytest.approx(2.0)


def test_a_folder_of_receiver_files_is_read(
    real_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ublox-neo-m9n-nmea", "ublox-neo-m8u"):
        (tmp_path / f"{name}.log").write_bytes(
            (real_data / f"captures2/gnss/gpsd__{name}.log").read_bytes()
        )
    (tmp_path / "notes.log").write_text("nothing")
    assert main(["sensors", "fit", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "Positions: 1 runs, 1 min" in text
    assert "record longer" in text


def test_files_that_are_none_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("nothing")
    assert main(["sensors", "fit", str(text)]) == 2
    assert "of no format" in capsys.readouterr().err
    assert main(["sensors", "fit", str(tmp_path / "none.mcap")]) == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["sensors", "fit", str(text), "--kind", "plane"]) == 2
    assert "unknown kind" in capsys.readouterr().err
