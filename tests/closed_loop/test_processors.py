"""A drive has one digest on all processors: BLAS and numpy take the kernels of others, as far as
this computer can run them."""

import pytest

from bench.processors import child, processors

VEHICLES = {"art": 3.0, "f1tenth": 2.0, "hmmwv": 3.0}
"""A planar, a 4-DOF and an inertial estimator, with the length of the drive: long enough to start,
to align and to steer."""
PROCESSORS = processors()


@pytest.mark.skipif(
    len(PROCESSORS) == 1, reason="this computer can run the kernels of no other processor"
)
@pytest.mark.parametrize("vehicle", VEHICLES)
def test_one_digest_with_the_kernels_of_any_processor(vehicle: str) -> None:
    found = {
        name: child(environment, "--digest", vehicle, str(VEHICLES[vehicle])).split()
        for name, environment in PROCESSORS.items()
    }
    assert len({fingerprint for fingerprint, _ in found.values()}) > 1, (
        "all compute alike, so the test shows nothing"
    )
    assert len({digest for _, digest in found.values()}) == 1, found
