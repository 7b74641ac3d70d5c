"""Parts of a fix that all receivers share: covariances, the carrier solution that its stated error
allows, yaw of a heading."""

from math import isfinite, pi, radians, remainder, tau

from vehicled.core.messages import CarrierSolution, stated_carrier
from vehicled.core.wire.usage import Unused, UsageProblem

Covariance = tuple[float, ...]
Lost = list[tuple[str, UsageProblem]]
"""Fields that were not used, with the kind of their message in the epoch."""


def agreeing(
    kind: str, carrier: CarrierSolution, position: Covariance, lost: Lost
) -> CarrierSolution:
    """Return the carrier solution, as far as the stated error agrees."""
    found = stated_carrier(carrier, position)
    if found is not carrier:
        sigma_m = max(position[0], position[4]) ** 0.5
        lost.append(
            (
                kind,
                UsageProblem(
                    Unused.CONTRADICTION, "fixed carrier solution", f"stated error {sigma_m:.2f} m"
                ),
            )
        )
    return found


def diagonal(east: float, north: float, up: float) -> Covariance:
    """Return the covariance of three variances."""
    return (east, 0.0, 0.0, 0.0, north, 0.0, 0.0, 0.0, up)


def enu(
    kind: str, name: str, ned: tuple[float, ...], otherwise: Covariance, lost: Lost
) -> Covariance:
    """Return the upper triangle NN NE ND EE ED DD as row-major ENU matrix; ``otherwise`` if it is
    not a covariance."""
    nn, ne, nd, ee, ed, dd = ned
    # Positive definite, by its leading minors.
    flat = nn * ee - ne * ne
    volume = dd * flat - nd * (nd * ee - ne * ed) - ed * (nn * ed - ne * nd)
    if not (isfinite(volume) and nn > 0.0 and flat > 0.0 and volume > 0.0):
        lost.append((kind, UsageProblem(Unused.OUT_OF_RANGE, f"covariance of {name}", nn)))
        return otherwise
    return (ee, ne, -ed, ne, nn, -nd, -ed, -nd, dd)


def yaw_rad(heading_deg: float, baseline_yaw_rad: float) -> float:
    """Return the body's yaw, counter-clockwise from east, from the heading of a line at
    ``baseline_yaw_rad`` in the body."""
    return remainder(pi / 2 - radians(heading_deg) - baseline_yaw_rad, tau)
