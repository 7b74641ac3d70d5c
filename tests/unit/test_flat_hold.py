"""The prediction of the flatness-based controller covers half of the time for which its command is
held."""

import pytest
from msgspec.structs import replace

from vehicled.control.flat import Flat
from vehicled.control.path_follower import FollowerState, SteeringDemand
from vehicled.core.messages import EstimatorStatus, StateEstimate
from vehicled.paths.formulas import straight
from vehicled.profile import load_profile

PROFILE = load_profile("hmmwv")
SPEED_MPS, AGE_NS = 10.0, 30_000_000


class Watched(Flat):
    """Keeps the state that the steering law saw."""

    seen: FollowerState

    def steer(self, state: FollowerState) -> SteeringDemand:
        self.seen = state
        return super().steer(state)


@pytest.mark.parametrize("period_s", [0.02, 0.05])
def test_the_command_of_a_long_period_is_predicted_further(period_s: float) -> None:
    vehicle = replace(PROFILE.vehicle, steering=replace(PROFILE.vehicle.steering, delay_s=0.04))
    controller = Watched(
        PROFILE.controller.params["flat"],
        vehicle,
        PROFILE.limits,
        straight(100.0, speed_mps=SPEED_MPS),
        period_s,
    )
    estimate = StateEstimate(
        0, 0, 1.0, 0.0, 0.0, SPEED_MPS, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING
    )
    controller.step(estimate, AGE_NS)
    assert controller.seen.ahead.x_m == pytest.approx(
        1.0 + SPEED_MPS * (0.03 + 0.04 + 0.5 * period_s), abs=1e-6
    )
