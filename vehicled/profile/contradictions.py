"""Mistakes between keys: values that are each in range and cannot be true together.

Only what can never work is refused here; what is merely unwise is a note
(:mod:`vehicled.profile.notes`).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from vehicled.core.messages import Corrections
from vehicled.core.vehicle import Drive, Steering, Vehicle
from vehicled.core.wire.channels import TICKS
from vehicled.profile.collect import Rule, TableView
from vehicled.profile.latency import SIDES, LatencyModel
from vehicled.profile.noise import NOISED
from vehicled.profile.plugins import PluginError
from vehicled.profile.problems import KeyPath
from vehicled.profile.registry import UnknownNameError, names, resolve
from vehicled.profile.schema import (
    Battery,
    DeviceTable,
    LogTable,
    Profile,
    Sim,
    TaskRate,
    Tasks,
    TwinSteering,
)
from vehicled.profile.units import did_you_mean

Found = Iterator[tuple[KeyPath, str]]

MAX_DEADLINE_PERIODS = 10
RESERVED_PORTS = ("truth",)
"""Ports of the simulator link that are no devices."""
PULSE_BOARD = "pwm_board"
"""Driver whose reverse must be calibrated."""
RC_FUNCTIONS = ("steering", "throttle", "brake", "mode", "arm", "kill")
"""Tables of ``[rc]`` with a channel of their own; the first three are axes."""
OWN_TABLES = ("wheelbase_m", "steering", "drive")
"""Keys of the vehicle of the 4-DOF plant; every other plant uses a twin file."""


def _task(task: TableView) -> Found:
    rate_hz = task.get("rate_hz")
    deadline_ms = task.get("deadline_ms")
    phase_ms = task.get("phase_ms")
    if rate_hz is None:
        return
    period_ms = 1000.0 / rate_hz
    if deadline_ms is not None and deadline_ms > MAX_DEADLINE_PERIODS * period_ms:
        yield (
            ("deadline_ms",),
            (
                f"{deadline_ms:g} ms is more than {MAX_DEADLINE_PERIODS} periods of "
                f"{period_ms:g} ms (rate_hz = {rate_hz:g}); write at most "
                f"{MAX_DEADLINE_PERIODS * period_ms:g}, or lower the rate"
            ),
        )
    if phase_ms is not None and phase_ms >= period_ms:
        yield (
            ("phase_ms",),
            (
                f"{phase_ms:g} ms is not less than the period of {period_ms:g} ms (rate_hz = "
                f"{rate_hz:g})"
            ),
        )


def _tasks(tasks: TableView) -> Found:
    shares = {}
    for name in tasks.written:
        rate_hz, declared_us = tasks.get(name, "rate_hz"), tasks.get(name, "declared_us")
        if rate_hz is not None and declared_us is not None:
            shares[name] = declared_us * rate_hz / 1e6
    total = sum(shares.values())
    if total >= 1.0:
        parts = ", ".join(f"{name} {fraction:.0%}" for name, fraction in shares.items())
        yield (
            (),
            (
                f"declared_us times rate_hz add up to {total:.0%} of a core ({parts}); lockstep "
                "could not keep up"
            ),
        )


def _device(device: TableView) -> Found:
    messages = device.get("messages") or []
    if len(set(messages)) < len(messages):
        yield (
            ("messages",),
            (
                "named twice: "
                f"{', '.join(sorted({name for name in messages if messages.count(name) > 1}))}"
            ),
        )
    if "capabilities" in device.written and messages and "ActuatorCommand" not in messages:
        yield (
            ("messages",),
            (
                'a device with capabilities is the actuator and must carry "ActuatorCommand"; else '
                "remove its capabilities"
            ),
        )


def _profile(profile: TableView) -> Found:
    yield from _ports(profile)
    yield from _silence(profile)
    yield from _reverse(profile)
    yield from _refusals(profile)
    yield from _corrections(profile)
    yield from _references(profile)
    yield from _rc(profile)
    yield from _localisation(profile)
    yield from _poses(profile)
    yield from _noise(profile)


def _rc(profile: TableView) -> Found:
    """Check that an RC receiver and what its channels mean belong together, and that no channel is
    used twice."""
    tables = _devices(profile)
    receivers = [name for name, table in tables.items() if "RcChannels" in _listed(table)]
    written: Any = profile.written.get("rc")
    if receivers and written is None:
        text = (
            "missing table: say which channels steer, drive and switch, such as steering = { "
            "channel = 1 }; docs/rc.md"
        )
        yield ("rc",), text
    for name in receivers[1:]:
        yield (
            ("devices", name, "messages"),
            f'a second RC receiver beside "{receivers[0]}": one operator has one handset',
        )
    if not isinstance(written, dict):
        return
    if not receivers:
        yield (
            ("rc",),
            (
                'no device gives RcChannels: add [devices.rc] with driver = "crsf", "sbus" or '
                '"ibus", or remove this table'
            ),
        )
        return
    driver = _driver(tables[receivers[0]])
    low, centre, high = getattr(driver, "ends", TICKS)
    users: dict[int, str] = {}
    for name in RC_FUNCTIONS:
        channel = profile.get("rc", name, "channel")
        if not isinstance(channel, int):
            continue
        if channel > getattr(driver, "channels", channel):
            text = (
                f"{channel} is more than the {driver.channels} channels of "
                f"{_chosen(tables[receivers[0]])}"
            )
            yield ("rc", name, "channel"), text
        if channel in users:
            yield (
                ("rc", name, "channel"),
                f"{channel} is the channel of rc.{users[channel]} too: give each its own",
            )
        users[channel] = name
        if name in RC_FUNCTIONS[:3]:
            least, rest, most = (
                of if (own := profile.get("rc", name, key)) is None else own
                for key, of in (("min", low), ("trim", centre), ("max", high))
            )
            if not (least <= rest <= most and least < most):
                text = (
                    f"min, trim and max are {least:g}, {rest:g} and {most:g}: they must rise; "
                    "reversed = true turns the stick round"
                )
                yield ("rc", name), text
    mode = isinstance(written.get("mode"), dict)
    uses = {profile.get("rc", "mode", key) for key in ("low", "middle", "high")} if mode else set()
    if "manual" not in uses and not profile.get("rc", "takeover_stick"):
        text = (
            'the operator can never take over: give rc.mode a position "manual", or write '
            "takeover_stick"
        )
        yield ("rc",), text


LOCATED = ("planar", "ins")
"""Registered estimators that fuse poses on a map."""


def _localisation(profile: TableView) -> Found:
    """Check that a map has a scanner, and an estimator that takes its poses."""
    if profile.get("localisation", "map") is None:
        return
    scanners = [name for name, table in _devices(profile).items() if "LaserScan" in _listed(table)]
    wanted = profile.get("localisation", "scanner")
    if not scanners:
        yield (
            ("localisation", "map"),
            'no device gives "LaserScan": add the scanner that looks at the map',
        )
    elif wanted and wanted not in scanners:
        yield (
            ("localisation", "scanner"),
            f'"{wanted}" gives no LaserScan; {", ".join(scanners)} does',
        )
    name = profile.get("estimator", "name")
    if isinstance(name, str) and name in names("estimator") and name not in LOCATED:
        yield (
            ("estimator", "name"),
            f"{name} takes no poses on a map: choose {' or '.join(LOCATED)}",
        )


def _poses(profile: TableView) -> Found:
    """Check that poses of a device have an estimator that takes them, and no second source."""
    givers = [name for name, table in _devices(profile).items() if "MapPose" in _listed(table)]
    if not givers:
        return
    if profile.get("localisation", "map") is not None:
        yield (
            ("localisation", "map"),
            (
                f'"{givers[0]}" gives poses too: two sources of them contradict each other by the '
                "offset of their maps; remove one"
            ),
        )
    for name in givers[1:]:
        yield (
            ("devices", name, "messages"),
            f'a second source of poses beside "{givers[0]}": remove MapPose from one',
        )
    name = profile.get("estimator", "name")
    if isinstance(name, str) and name in names("estimator") and name not in LOCATED:
        yield (
            ("estimator", "name"),
            (
                f"{name} takes no poses: choose {' or '.join(LOCATED)}, or write messages = "
                f'["GnssFix", "Heading"] for "{givers[0]}"'
            ),
        )


def _noise(profile: TableView) -> Found:
    """Check that noise is added to measurements, and to nothing that judges."""
    for name, table in _devices(profile).items():
        if not isinstance(table.get("noise"), dict):
            continue
        if not NOISED & set(_listed(table)):
            yield (
                ("devices", name, "noise"),
                f'"{name}" gives none of {", ".join(sorted(NOISED))}, to which noise can be added',
            )


def _references(profile: TableView) -> Found:
    """Check that one device judges the vehicle, and does nothing else: an estimate cannot be judged
    by what it is made of."""
    tables = _devices(profile)
    judges = [name for name, table in tables.items() if "ReferenceState" in _listed(table)]
    for name in judges:
        others = [
            message
            for message in _listed(tables[name])
            if message not in ("ReferenceState", "Corrections")
        ]
        if others:
            text = (
                "a reference gives nothing to the daemon that it judges; remove "
                f"{', '.join(map(str, others))}"
            )
            yield ("devices", name, "messages"), text
        driver = _driver(tables[name])
        if (
            driver is not None
            and "ReferenceState" not in _names(getattr(driver, "produces", ()))
            and driver.produces
        ):
            yield (
                ("devices", name, "messages"),
                f"the driver {_chosen(tables[name])} gives no ReferenceState; sbg does",
            )
    for name in judges[1:]:
        yield (
            ("devices", name, "messages"),
            f'a second reference beside "{judges[0]}": one device is the truth',
        )


def _corrections(profile: TableView) -> Found:
    """Check that a route of corrections has a source and a receiver."""
    tables = _devices(profile)
    sources = [
        name for name in tables if "Corrections" in (profile.get("devices", name, "messages") or ())
    ]
    receivers = [
        name
        for name, table in tables.items()
        if "Corrections" in _names(getattr(_driver(table), "consumes", ()))
    ]
    for name in sources:
        # A moving base has a rover. Who only wants to receive corrections need not list them.
        if name in receivers and receivers == [name]:
            text = (
                "no other receiver takes its corrections, and it takes those of a caster by "
                'itself: remove "Corrections" here'
            )
            yield ("devices", name, "messages"), text
    for name in tables:
        wanted = profile.get("devices", name, "corrections_from")
        if wanted is None:
            continue
        path = ("devices", name, "corrections_from")
        listed, driver = _listed(tables[name]), _driver(tables[name])
        if driver is not None and "Corrections" not in _names(driver.consumes):
            yield (
                path,
                (
                    f"the driver {_chosen(tables[name])} takes no corrections; remove the key, or "
                    "write it for a receiver"
                ),
            )
            continue
        if wanted and not {"GnssFix", "Heading"} & set(listed):
            yield (
                path,
                (
                    'a receiver that gives neither "GnssFix" nor "Heading" computes nothing from '
                    "corrections; remove the key"
                ),
            )
        if len(set(wanted)) < len(wanted):
            yield (
                path,
                (
                    "named twice: "
                    f"{', '.join(sorted({each for each in wanted if wanted.count(each) > 1}))}"
                ),
            )
        for source in wanted:
            if source == name:
                yield path, f'"{source}" is this device itself: a receiver cannot correct itself'
            elif source not in tables:
                yield (
                    path,
                    (
                        f'no device is called "{source}"; sources of corrections are '
                        f"{', '.join(sources) or 'none'}"
                    ),
                )
            elif source not in sources:
                yield (
                    path,
                    (
                        f'"{source}" gives no corrections: add "Corrections" to its messages, or '
                        "name another source"
                    ),
                )
            elif "Corrections" not in _names(
                getattr(_driver(tables[source]), "produces", (Corrections,))
            ):
                yield (
                    path,
                    (
                        f'"{source}" cannot give corrections: its driver {_chosen(tables[source])} '
                        "reads none"
                    ),
                )
            elif name in (profile.get("devices", source, "corrections_from") or ()):
                yield (
                    path,
                    (
                        f'"{source}" takes its corrections from here: two receivers cannot correct '
                        "each other"
                    ),
                )


def _devices(profile: TableView) -> dict[str, dict[str, Any]]:
    """Return the tables of the devices as written, so that a mistake in one of them does not hide
    it."""
    devices: Any = profile.written.get("devices")
    return (
        {name: table for name, table in devices.items() if isinstance(table, dict)}
        if isinstance(devices, dict)
        else {}
    )


def _chosen(device: dict[str, Any]) -> str:
    driver = device.get("driver")
    return str(driver.get("name") if isinstance(driver, dict) else driver)


def _driver(device: dict[str, Any]) -> Any:
    """Return the class of the driver; None for a name that is refused elsewhere."""
    try:
        return resolve("driver", _chosen(device))
    except (UnknownNameError, PluginError):
        return None


def _names(kinds: object) -> set[str]:
    # Of a driver that only listens, the class has the property of its base.
    return {kind.__name__ for kind in kinds} if isinstance(kinds, tuple) else set()


def _refusals(profile: TableView) -> Found:
    """Refuse a limit that the estimator's timeout never lets the count reach: it would accept a
    jump instead of stopping."""
    chosen: Any = profile.written.get("estimator")
    name = chosen.get("name") if isinstance(chosen, dict) else chosen
    refusals = profile.get("limits", "gnss_refusals")
    in_a_row = profile.get("estimator", str(name), "max_rejections")
    if refusals is not None and in_a_row is not None and refusals > in_a_row:
        yield (
            ("limits", "gnss_refusals"),
            (
                f"{refusals} is more than estimator.{name}.max_rejections = {in_a_row}: after so "
                "many in a row the estimator believes the next fix, so that nothing would stop "
                f"the vehicle; write at most {in_a_row}"
            ),
        )


def _reverse(profile: TableView) -> Found:
    """Refuse reverse on a board without a pulse for it, which would send neutral."""
    if not profile.get("vehicle", "drive", "reverse_share"):
        return
    for name, device in _devices(profile).items():
        rows = device.get("mix")
        if isinstance(rows, dict) and rows and "motor" not in rows:
            continue
        if _chosen(device) == PULSE_BOARD and not profile.get(
            "devices", name, "driver", PULSE_BOARD, "reverse_range_us"
        ):
            yield (
                ("vehicle", "drive", "reverse_share"),
                (
                    f'above 0, but the board of "{name}" has no reverse (reverse_range_us = 0): '
                    "calibrate it, or write 0 here"
                ),
            )


def _ports(profile: TableView) -> Found:
    # Use the written values, so that a mistake in one device does not hide that it is the only
    # actuator.
    devices: Any = profile.written.get("devices")
    if not isinstance(devices, dict):
        return
    tables = {name: device for name, device in devices.items() if isinstance(device, dict)}
    able = {name for name, device in tables.items() if "capabilities" in device}
    actuators = [
        name
        for name, device in tables.items()
        if name in able or "ActuatorCommand" in _listed(device)
    ]
    if not actuators:
        yield (
            ("devices",),
            (
                "no device is the actuator: give the one that drives and steers a table of "
                "capabilities"
            ),
        )
    for name in actuators:
        if name not in able:
            yield (
                ("devices", name, "capabilities"),
                (
                    "missing table: the device carries ActuatorCommand, so say what it can do (the "
                    "table may be empty)"
                ),
            )
    yield from _mixing(profile, tables, actuators)
    for name in RESERVED_PORTS:
        if name in devices:
            yield (
                ("devices", name),
                f'"{name}" is a port of the simulator link; choose another name',
            )


def _mixing(profile: TableView, tables: dict[str, dict[str, Any]], actuators: list[str]) -> Found:
    """Check that the outputs of all actuators together drive and steer, and that each gets what it
    is made for."""
    several, gains = len(actuators) > 1, set[str]()
    for name, table in tables.items():
        rows, path = table.get("mix"), ("devices", name, "mix")
        if rows and name not in actuators:
            yield path, "the device is no actuator, so it has no outputs; remove this table"
        if name not in actuators:
            continue
        if several and not rows:
            others = ", ".join(each for each in actuators if each != name)
            text = (
                f"missing table: beside {others}, say what its outputs get, such as motor = {{ "
                "throttle = 1.0 }"
            )
            yield path, f"{text}; docs/devices.md"
        kinds = dict(getattr(_driver(table), "actuator_outputs", {}))
        if rows and not kinds and _chosen(table) != "msglink":
            yield path, f"the driver {_chosen(table)} has no outputs to mix; remove this table"
        if not isinstance(rows, dict) or not rows:
            # Motors get the throttle and servos the steering.
            gains |= {"steering" if kind == "steer" else "throttle" for kind in kinds.values()} or {
                "throttle",
                "steering",
            }
            continue
        for output in rows:
            if kinds and output not in kinds:
                yield (
                    (*path, output),
                    f"the driver {_chosen(table)} has no such output; it has {', '.join(kinds)}",
                )
                continue
            stated = {
                key
                for key in ("throttle", "steering", "left", "right")
                if profile.get(*path, output, key)
            }
            gains |= stated
            wrong = stated & (
                {"steering"}
                if kinds.get(output) == "drive"
                else {"throttle", "left", "right"}
                if kinds
                else set()
            )
            if wrong:
                purpose = (
                    "a motor, which gets throttle, left or right"
                    if "steering" in wrong
                    else "a servo, which gets steering"
                )
                yield (*path, output), f"the output is {purpose}, not {', '.join(sorted(wrong))}"
    if not actuators:
        return
    sides = {"left", "right"} & gains
    if len(sides) == 1:
        yield (
            ("devices",),
            f"only the {sides.pop()} side is driven: give another output the other one",
        )
    elif not sides and "throttle" not in gains:
        yield ("devices",), "nothing drives: no output gets throttle, or left and right"
    elif not sides and "steering" not in gains:
        yield ("devices",), "nothing steers: no output gets steering, or left and right"


def _listed(device: dict[str, Any]) -> list[Any]:
    messages = device.get("messages", [])
    return messages if isinstance(messages, list) else []


def _silence(profile: TableView) -> Found:
    """Refuse a silence limit below the period of its source, which would stop the vehicle between
    messages."""
    sources = [
        (("limits", "estimate_silence_s"), ("tasks", "fusion")),
        (("sim", "command_timeout_s"), ("tasks", "actuation")),
    ]
    for message, limit in (("GnssFix", "gnss_silence_s"), ("ImuSample", "imu_silence_s")):
        sources += [
            (("limits", limit), ("devices", name))
            for name in profile.names("devices")
            if message in (profile.get("devices", name, "messages") or ())
        ]
    for limit_path, source in sources:
        silence_s, rate_hz = profile.get(*limit_path), profile.get(*source, "rate_hz")
        if silence_s is not None and rate_hz is not None and silence_s * rate_hz <= 1.0:
            yield (
                limit_path,
                (
                    f"{silence_s:g} s is not longer than one period of {'.'.join(source)} "
                    f"({1 / rate_hz:g} s at {rate_hz:g} Hz): the vehicle would stop between any "
                    "two of its messages"
                ),
            )


def _vehicle(vehicle: TableView) -> Found:
    for inner, outer in (("wheelbase_m", "length_m"), ("track_m", "width_m")):
        inside, outside = vehicle.get(inner), vehicle.get(outer)
        if inside is not None and outside is not None and inside > outside:
            meant = did_you_mean(inner, inside, partial(_inside, outside))
            yield (
                (inner,),
                (
                    f"{inside:g} is more than {outer} = {outside:g}; the wheels stand inside the "
                    f"outline{meant}"
                ),
            )
    front_m, wheelbase_m, length_m = (
        vehicle.get(key) for key in ("front_overhang_m", "wheelbase_m", "length_m")
    )
    if (
        front_m is not None
        and wheelbase_m is not None
        and length_m is not None
        and front_m + wheelbase_m > length_m
    ):
        yield (
            ("front_overhang_m",),
            (
                f"{front_m:g} m and the wheelbase are more than length_m = {length_m:g}; the rear "
                "axle stands inside the outline"
            ),
        )


def _inside(outside: float, length: float) -> bool:
    return 0.3 * outside <= length <= outside


def _drive(drive: TableView) -> Found:
    friction, stall = drive.get("friction_nm"), drive.get("stall_torque_nm")
    if friction is not None and stall is not None and friction >= stall:
        yield (
            ("friction_nm",),
            (
                f"{friction:g} is not less than stall_torque_nm = {stall:g}; the vehicle could "
                "never move"
            ),
        )
    fraction = drive.get("reverse_share")
    if fraction and friction is not None and stall is not None and fraction * stall <= friction:
        least = friction / stall
        yield (
            ("reverse_share",),
            (
                f"{fraction:g} of the full drive does not overcome friction_nm ({least:.2g} does); "
                "write more, or 0 for no reverse"
            ),
        )


def _steering(steering: TableView) -> Found:
    offset = abs(steering.get("offset_rad") or 0.0)
    for key in ("gain_rad", "max_wheel_rad"):
        size = steering.get(key)
        if size is not None and offset >= size:
            yield (
                ("offset_rad",),
                (
                    f"its size {offset:g} is not less than {key} = {size:g}; the vehicle could "
                    "turn one way only"
                ),
            )
            return


def _battery(battery: TableView) -> Found:
    full_v, nominal_v = battery.get("full_v"), battery.get("nominal_v")
    if full_v is not None and nominal_v is not None and full_v < nominal_v:
        yield (
            ("full_v",),
            (
                f"{full_v:g} V is less than nominal_v = {nominal_v:g}; write both for the whole "
                "pack, not for a cell"
            ),
        )


def _sim(sim: TableView) -> Found:
    """Refuse a plant with its vehicle in two places, one of which would be ignored."""
    plant = sim.get("plant")
    if plant == "four_dof":
        if "twin" in sim.written:
            yield (
                ("twin",),
                (
                    'the plant "four_dof" reads no twin file; remove this table, or write plant = '
                    '"double_track"'
                ),
            )
        for key in ("height", "friction"):
            if sim.get("terrain", key):
                yield (
                    ("terrain", key),
                    (
                        'the plant "four_dof" knows level ground only; leave it empty, or write '
                        'plant = "double_track"'
                    ),
                )
    elif plant == "double_track":
        if "twin" not in sim.written:
            yield (
                ("twin",),
                (
                    'missing table: the plant "double_track" takes its vehicle from a twin file; '
                    "see: vehicled twin list"
                ),
            )
        for key in OWN_TABLES:
            if key in sim.written:
                yield (
                    (key,),
                    (
                        f'the plant "double_track" has its {key} in the twin file; remove it here, '
                        "or use sim.twin.changes"
                    ),
                )


def _log(log: TableView) -> Found:
    rotate_mb, quota_mb = log.get("rotate_mb"), log.get("quota_mb")
    if rotate_mb is not None and quota_mb is not None and rotate_mb > quota_mb:
        yield (
            ("rotate_mb",),
            (
                f"{rotate_mb} is more than quota_mb = {quota_mb}; one part of a run would already "
                "exceed the quota"
            ),
        )


def _latency(latency: TableView) -> Found:
    for side in SIDES:
        bounds = latency.get(f"{side}_ms")
        if isinstance(bounds, list) and bounds[0] > bounds[1]:
            yield (
                (f"{side}_ms",),
                f"the first bound is above the second; write [{bounds[1]:g}, {bounds[0]:g}]",
            )


RULES: dict[type, Rule] = {
    TaskRate: _task,
    Tasks: _tasks,
    DeviceTable: _device,
    Profile: _profile,
    Sim: _sim,
    Vehicle: _vehicle,
    Drive: _drive,
    Steering: _steering,
    TwinSteering: _steering,
    Battery: _battery,
    LogTable: _log,
    LatencyModel: _latency,
}
"""Rules by the struct they belong to."""
