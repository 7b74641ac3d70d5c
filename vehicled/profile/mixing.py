"""The mixing matrix of a profile."""

from vehicled.core.mixing import Mix, Mixing, Sides, sides_of
from vehicled.core.vehicle import Vehicle
from vehicled.profile.registry import resolve
from vehicled.profile.schema import DeviceTable, Profile

NO_ROW = Mix()


def mixings_of(profile: Profile) -> dict[str, Mixing]:
    """Return the mixing of each actuator that states one, by device."""
    sides = _sides(profile)
    return {
        name: Mixing(rows_of(table), sides) for name, table in profile.devices.items() if table.mix
    }


def rows_of(table: DeviceTable) -> list[Mix]:
    """Return the rows in the order of the driver's outputs; of a driver without outputs, in the
    order of the profile."""
    names = tuple(getattr(resolve("driver", table.driver.name), "actuator_outputs", ())) or tuple(
        table.mix
    )
    return [table.mix.get(name, NO_ROW) for name in names]


def half_track_ratio(vehicle: Vehicle) -> float:
    """Return half of the track over the wheelbase. The wheelbase of a skid-steered vehicle is half
    of its effective track."""
    return 1.0 if vehicle.skid_steer else 0.5 * vehicle.track_m / vehicle.wheelbase_m


def _sides(profile: Profile) -> Sides | None:
    rows = [row for table in profile.devices.values() for row in table.mix.values()]
    return sides_of(rows, profile.vehicle.steering.gain_rad, half_track_ratio(profile.vehicle))
