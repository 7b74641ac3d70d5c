"""The recursive identifier against batch least squares of scipy over the same drive, on paper and
on recordings."""

from statistics import median

import numpy as np
import pytest
from scipy.optimize import least_squares

from tests import recordings_bench as bench
from tests.grid import sampled
from tests.identification_bench import BELIEVED, STEP_S, Drill, Truth, identifier, weave
from vehicled.estimation.identification.identifier import SingleTrackIdentifier
from vehicled.estimation.planar.estimator import Planar
from vehicled.offline.recordings import least_squares as recorded
from vehicled.offline.recordings.runner import run
from vehicled.offline.recordings.scores import ahead_errors


def batch(drill):
    """Gain, offset and delay of all rows at once; the delay by linear interpolation of the
    command."""
    d = drill.driven
    t, u = np.array(d.t_s), np.array(d.steering)
    moving = np.array(d.speed_mps) > 0.3
    wheel = np.arctan(
        BELIEVED.wheelbase_m * np.array(d.yaw_rate_radps)[moving] / np.array(d.speed_mps)[moving]
    )

    def residual(p):
        gain, offset, delay = p
        # Row k holds the command given at its start and what was seen at its end.
        return gain * np.interp(t[moving] - STEP_S - delay, t - STEP_S, u) + offset - wheel

    return least_squares(residual, [0.3, 0.0, 0.25], loss="soft_l1", f_scale=0.01).x


@pytest.mark.parametrize(("gain", "offset", "delay"), [(0.2, 0.02, 0.4), (0.5, -0.02, 0.2)])
def test_agrees_with_batch(gain, offset, delay):
    drill = Drill(Truth(gain_rad=gain, offset_rad=offset, delay_s=delay), identifier())
    drill.drive(40.0, lambda t: 0.6 * weave(t))
    wanted = batch(drill)
    found = drill.known
    assert found.steering_gain_rad == pytest.approx(wanted[0], rel=0.03)
    assert found.steering_offset_rad == pytest.approx(wanted[1], abs=0.006)
    assert found.steering_delay_s == pytest.approx(wanted[2], abs=0.04)


@pytest.mark.parametrize("path", sampled(["rd_path", "syn_path"], lambda path: path == "syn_path"))
def test_agrees_with_batch_on_recordings(shared_data, path):
    files = sorted((shared_data / "path_following_2024" / "real" / path).glob("*_1.csv"))[:3]
    gains, delays, yaw = [], [], []
    for file in files:
        (recording,) = bench.load(file, ("path",))
        believed = recording.vehicle
        track = run(
            recording,
            Planar(Planar.Params(), believed, recording.datum, recording.lever_arm_m),
            SingleTrackIdentifier(SingleTrackIdentifier.Params(), believed),
        )
        fit = recorded.steering(recording)
        assert fit is not None
        gains.append(track.identified[-1].steering_gain_rad / fit.gain_rad)
        delays.append(track.identified[-1].steering_delay_s - fit.delay_s)
        yaw.append(ahead_errors(recording, track)[1])
    assert median(gains) == pytest.approx(1.0, abs=0.05)
    assert median(delays) == pytest.approx(0.0, abs=0.06)
    errors = np.concatenate(yaw)
    # The profile's gain is half as large again as the true one: 0.27 without identification.
    assert np.sqrt(np.nanmean(errors**2)) < 0.065
