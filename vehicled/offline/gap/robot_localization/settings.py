"""Parameters of robot_localization's ``ekf_node``, read from its YAML file unchanged."""

import os
from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field

from vehicled.core.arrays import Array
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.robot_localization.kalman import ControlLimits
from vehicled.offline.gap.robot_localization.motion import SIZE, Mask

KINDS = ("odom", "pose", "twist", "imu")
PROCESS_NOISE = (
    0.05,
    0.05,
    0.06,
    0.03,
    0.03,
    0.06,
    0.025,
    0.025,
    0.04,
    0.01,
    0.01,
    0.02,
    0.01,
    0.01,
    0.015,
)
"""Default diagonal of the process noise of the package."""
WITHOUT_EFFECT = frozenset(
    (
        "use_sim_time", "clear_params", "filter_type", "transform_time_offset", "transform_timeout",
        "print_diagnostics", "debug", "debug_out_file", "publish_tf", "publish_acceleration",
        "permit_corrected_publication", "map_frame", "odom_frame", "base_link_output_frame",
        "reset_on_time_jump", "disabled_at_startup", "stamped_control", "output_final_position",
        "output_location", "final_x", "final_y", "final_z", "tolerance",
    )
)  # fmt: skip
"""Parameters of the node that do not change what it estimates from a recording, or have their own
field."""
_SENSOR_KEYS = frozenset(("queue_size", "nodelay", "pose_use_child_frame", "use_child_frame"))


class SensorInput(Struct, frozen=True, kw_only=True):
    """One input: ``odom0``, ``imu1``..."""

    name: str
    kind: str
    topic: str
    used: Mask
    """Parts of the state that it measures (15,)."""
    differential: bool = False
    relative: bool = False
    pose_threshold: float = inf
    twist_threshold: float = inf
    acceleration_threshold: float = inf
    removes_gravity: bool = False


class NodeSettings(Struct, frozen=True, kw_only=True):
    """All parameters that change the estimate."""

    sensors: list[SensorInput]
    frequency_hz: float = 30.0
    sensor_timeout_s: float = 1.0 / 30.0
    two_d: bool = False
    world_frame: str = "odom"
    base_frame: str = "base_link"
    gravity_mps2: float = 9.80665
    process_noise: Array
    initial_covariance: Array
    dynamic_noise: bool = False
    smooths: bool = False
    """True if a late measurement makes the filter go back to its time and forward again."""
    history_s: float = 0.0
    """Largest lateness for that."""
    predicts_to_now: bool = False
    control: ControlLimits | None = None
    unknown: list[str] = field(default_factory=list)
    """Keys that are none of the package's."""


def load(file: str | os.PathLike[str]) -> NodeSettings:
    """Read a parameter file of ROS 1 or ROS 2. Raises :class:`GapError` that names file, key and
    cure."""
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise GapError(
            f"{file}: parameters of robot_localization need ruamel.yaml: pip install "
            "'vehicled[gap]'"
        ) from None
    try:
        found = YAML(typ="safe", pure=True).load(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise GapError(f"{file}: cannot be read: {error.strerror}") from None
    except (YAMLError, UnicodeDecodeError, ValueError) as error:
        raise GapError(f"{file}: is no YAML: {' '.join(str(error).split())}") from None
    return of(_parameters(found, str(file)), str(file))


def _parameters(found: Any, file: str) -> Mapping[str, Any]:
    """Return the table of the filter: of a ROS 2 file that of the first node with an input."""
    if not isinstance(found, Mapping):
        raise GapError(f"{file}: holds no parameters; a parameter file of ekf_node is expected")
    tables: list[Mapping[str, Any]] = [found]
    for node in found.values():
        if isinstance(node, Mapping):
            inner = node.get("ros__parameters", node)
            tables += [inner] if isinstance(inner, Mapping) else []
    for table in tables:
        if any(_is_input(key) for key in table):
            return table
    raise GapError(
        f"{file}: names no input; write odom0, pose0, twist0 or imu0 with its topic and its _config"
    )


def _is_input(key: Any) -> bool:
    return isinstance(key, str) and any(
        key.startswith(kind) and key[len(kind) :].isdigit() for kind in KINDS
    )


def of(table: Mapping[str, Any], place: str) -> NodeSettings:
    """Return the settings of a table of parameters. Raises :class:`GapError`."""
    left = {str(key): value for key, value in table.items()}

    def take(key: str, default: Any, convert: Any) -> Any:
        if key not in left:
            return default
        value = left.pop(key)
        try:
            return convert(value)
        except (TypeError, ValueError) as error:
            raise GapError(f"{place}: {key}: {error}") from None

    sensors = [
        _sensor(name, left, take, place) for name in sorted(key for key in left if _is_input(key))
    ]
    if not sensors:
        raise GapError(
            f"{place}: names no input; write odom0, pose0, twist0 or imu0 with its topic and "
            "its _config"
        )
    frequency = take("frequency", 30.0, _positive)
    settings = NodeSettings(
        sensors=sensors,
        frequency_hz=frequency,
        sensor_timeout_s=take("sensor_timeout", 1.0 / frequency, _positive),
        two_d=take("two_d_mode", False, _flag),
        world_frame=take("world_frame", str(left.get("odom_frame", "odom")), str),
        base_frame=take("base_link_frame", "base_link", str),
        gravity_mps2=take("gravitational_acceleration", 9.80665, _number),
        process_noise=take(
            "process_noise_covariance", np.diag(PROCESS_NOISE), lambda v: _matrix(v, PROCESS_NOISE)
        ),
        initial_covariance=take(
            "initial_estimate_covariance", 1e-9 * np.eye(SIZE), lambda v: _matrix(v, (1e-9,) * SIZE)
        ),
        dynamic_noise=take("dynamic_process_noise_covariance", False, _flag),
        smooths=take("smooth_lagged_data", False, _flag),
        history_s=take("history_length", 0.0, lambda v: abs(_number(v))),
        predicts_to_now=take("predict_to_current_time", False, _flag),
        control=_control(take),
    )
    settings.unknown.extend(sorted(set(left) - WITHOUT_EFFECT))
    return settings


def _control(take: Any) -> ControlLimits | None:
    wanted = take("use_control", False, _flag)
    limits = ControlLimits(
        used=take("control_config", np.zeros(6, bool), lambda v: _flags(v, 6)),
        timeout_s=take("control_timeout", 0.0, _number),
        acceleration_limits=take("acceleration_limits", np.ones(6), lambda v: _numbers(v, 6)),
        acceleration_gains=take("acceleration_gains", np.ones(6), lambda v: _numbers(v, 6)),
        deceleration_limits=take("deceleration_limits", np.ones(6), lambda v: _numbers(v, 6)),
        deceleration_gains=take("deceleration_gains", np.ones(6), lambda v: _numbers(v, 6)),
    )
    return limits if wanted else None


def _sensor(name: str, left: dict[str, Any], take: Any, place: str) -> SensorInput:
    kind = next(kind for kind in KINDS if name.startswith(kind) and name[len(kind) :].isdigit())
    topic = str(left.pop(name))
    if f"{name}_config" not in left:
        raise GapError(
            f"{place}: {name} has no {name}_config; list what of it is used, 15 times true or false"
        )
    for key in _SENSOR_KEYS:
        left.pop(f"{name}_{key}", None)
    one = take(f"{name}_rejection_threshold", inf, _positive)
    return SensorInput(
        name=name,
        kind=kind,
        topic=topic,
        used=take(f"{name}_config", None, lambda v: _flags(v, SIZE)),
        differential=take(f"{name}_differential", False, _flag),
        relative=take(f"{name}_relative", False, _flag),
        pose_threshold=take(f"{name}_pose_rejection_threshold", one, _positive),
        twist_threshold=take(f"{name}_twist_rejection_threshold", one, _positive),
        acceleration_threshold=take(
            f"{name}_linear_acceleration_rejection_threshold", inf, _positive
        ),
        removes_gravity=take(f"{name}_remove_gravitational_acceleration", False, _flag),
    )


def _number(value: Any) -> float:
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"{value!r} is not finite")
    return number


def _positive(value: Any) -> float:
    number = float(value)
    if not number > 0.0:
        raise ValueError(f"{value!r} is not above 0")
    return number


def _flag(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.40} is neither true nor false")
    return value


def _flags(value: Any, size: int) -> Mask:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.40} is no list of {size} times true or false")
    found = [_flag(each) for each in value]
    # The filter of 2014 had no accelerations.
    if len(found) == 12 and size == SIZE:
        found += [False] * 3
    if len(found) != size:
        raise ValueError(f"has {len(found)} values; {size} are expected")
    return np.array(found)


def _numbers(value: Any, size: int) -> Array:
    if not isinstance(value, list) or len(value) != size:
        raise ValueError(f"is no list of {size} numbers")
    return np.array([_number(each) for each in value])


def _matrix(value: Any, default: tuple[float, ...]) -> Array:
    """Return a matrix (15, 15) from 225 numbers, or 144 of the filter of 2014, or a diagonal of
    15."""
    if isinstance(value, list) and len(value) == SIZE:
        return np.diag(_numbers(value, SIZE))
    if isinstance(value, list) and len(value) == 144:
        found = np.diag(np.array(default, dtype=np.float64))
        found[:12, :12] = _numbers(value, 144).reshape(12, 12)
        return found
    return _numbers(value, SIZE * SIZE).reshape(SIZE, SIZE)
