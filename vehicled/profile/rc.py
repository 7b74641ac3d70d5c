"""The RC receiver of a profile: the meaning of its channels."""

from vehicled.core.messages import RcChannels
from vehicled.core.rc import RcMap
from vehicled.core.wire.channels import TICKS
from vehicled.profile.registry import resolve
from vehicled.profile.schema import Profile


def rc_device(profile: Profile) -> str:
    """Return the name of the device that gives ``RcChannels``; empty without one."""
    return next(
        (name for name, table in profile.devices.items() if RcChannels.__name__ in table.messages),
        "",
    )


def rc_map(profile: Profile) -> RcMap | None:
    """Return the meaning of the channels of a profile's receiver; None without a receiver or its
    table."""
    name = rc_device(profile)
    if not name or profile.rc is None:
        return None
    driver = resolve("driver", profile.devices[name].driver.name)
    # Messages without a wire count as CRSF does.
    return RcMap(
        profile.rc, getattr(driver, "ends", TICKS), checked=getattr(driver, "checked", True)
    )
