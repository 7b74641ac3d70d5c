"""Options ``--ros2`` and ``--mavlink`` of a fleet: each vehicle gets a domain or a system id of its
own."""

from msgspec import Struct

from vehicled.core.errors import SetupError
from vehicled.live.bridges.mavlink.config import MOST_SYSTEM_ID
from vehicled.live.bridges.mavlink.config import parse_address as parse_mavlink
from vehicled.live.bridges.ros2.config import MAX_DOMAIN
from vehicled.run.bridges import check_mavlink, check_ros2
from vehicled.run.fleet import FleetPlan
from vehicled.run.spec import RunSpec


class FleetBridges(Struct, frozen=True):
    """Arguments and environment of the daemons, by name of the vehicle."""

    arguments: dict[str, list[str]]
    environment: dict[str, dict[str, str]]
    text: str
    """Domains and system ids, for the user; empty without a bridge."""

    @classmethod
    def of(cls, plan: FleetPlan, spec: RunSpec) -> "FleetBridges":
        """Number the vehicles in the order of their names, from ``$ROS_DOMAIN_ID`` and
        ``--mavlink-id`` on. Raises :class:`SetupError`."""
        names = [each.entry.name for each in plan.vehicles]
        arguments: dict[str, list[str]] = {name: [] for name in names}
        environment: dict[str, dict[str, str]] = {name: {} for name in names}
        lines = []
        if spec.asks_ros2:
            first = check_ros2(spec)
            _check_last("ROS_DOMAIN_ID", first, len(names), MAX_DOMAIN)
            for domain, name in enumerate(names, first):
                environment[name]["ROS_DOMAIN_ID"] = str(domain)
                arguments[name] += _ros2_arguments(spec)
            lines.append(_numbered("ROS 2 domains", names, first))
        check_mavlink(spec)
        if spec.mavlink is not None:
            if parse_mavlink(spec.mavlink).kind != "udp":
                raise SetupError(
                    f"--mavlink {spec.mavlink} and a fleet: only one vehicle can open it; use "
                    "udp:HOST:PORT, to which all vehicles send"
                )
            _check_last("--mavlink-id", spec.mavlink_id, len(names), MOST_SYSTEM_ID)
            for number, name in enumerate(names, spec.mavlink_id):
                arguments[name] += ["--mavlink", spec.mavlink, "--mavlink-id", str(number)]
                arguments[name] += ["--mavlink-commands"] if spec.mavlink_commands else []
            lines.append(_numbered(f"MAVLink systems at {spec.mavlink}", names, spec.mavlink_id))
        return cls(arguments, environment, "\n".join(lines))


def _ros2_arguments(spec: RunSpec) -> list[str]:
    found = [f"--ros2={spec.ros2}"]
    if spec.ros2_commands:
        found.append("--ros2-commands")
    if spec.ros2_autoware:
        found.append(f"--ros2-autoware={spec.ros2_autoware}")
    if spec.ros2_autoware_auto:
        found.append("--ros2-autoware-auto")
    return found


def _check_last(option: str, first: int, count: int, most: int) -> None:
    if first + count - 1 > most:
        raise SetupError(
            f"{option} {first}: {count} vehicles take the numbers from there on, and {most} is the "
            f"last: use one up to {most - count + 1}"
        )


def _numbered(what: str, names: list[str], first: int) -> str:
    pairs = (f"{name} {number}" for number, name in enumerate(names, first))
    return f"{what}: {', '.join(pairs)}"
