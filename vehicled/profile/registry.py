"""Registry: names that a profile may use, and where their implementations live.

Each table maps a name to ``"module:attribute"``. A module is imported only when its name is
resolved, so that a vehicle that drives by pure pursuit never loads a solver. Adding an
implementation is one line here, or in the file ``names.toml`` of a package that an installation may
leave out. A name with a colon is a plugin (:mod:`vehicled.profile.plugins`), and so is the
``.onnx`` file of a trained network. Installed packages may offer names by entry points of the
groups ``vehicled.controllers``, ``vehicled.estimators``, ``vehicled.identifiers``,
``vehicled.drivers`` and ``vehicled.decoders``; they are looked up when a profile names them, never
before.

The simulator's plants have their own registry in ``sim_backend``, because the daemon must not know
the plant it drives.
"""

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from vehicled.core.errors import UserError

Kind = Literal[
    "estimator", "identifier", "controller", "driver", "base station", "decoder", "CAN decoder"
]

ESTIMATORS: dict[str, str] = {
    "ekf4": "vehicled.estimation.ekf4.estimator:Ekf4",
    "planar": "vehicled.estimation.planar.estimator:Planar",
    "ins": "vehicled.estimation.ins.estimator:Ins",
}
IDENTIFIERS: dict[str, str] = {
    "single_track": "vehicled.estimation.identification.identifier:SingleTrackIdentifier",
}
CONTROLLERS: dict[str, str] = {
    "avoid": "vehicled.control.avoid.controller:Avoid",
    "linear": "vehicled.control.linear:Linear",
    "mpc": "vehicled.control.mpc.controller:Mpc",
    "programme": "vehicled.control.programme:Programme",
    "flat": "vehicled.control.flat:Flat",
    "pure_pursuit": "vehicled.control.pure_pursuit:PurePursuit",
    "regulated_pure_pursuit": "vehicled.control.regulated_pure_pursuit:RegulatedPurePursuit",
    "stanley": "vehicled.control.stanley:Stanley",
}
EXTENDS: dict[str, str] = {"avoid": "pure_pursuit"}
"""Controllers whose table extends that of another: keys left out have the values that the profile
gives there."""
DRIVERS: dict[str, str] = {
    "msglink": "drivers.msglink.device:MsgLinkDevice",
    "ublox": "drivers.ublox.device:UbloxDevice",
    "septentrio": "drivers.gnss.septentrio:SeptentrioDevice",
    "unicore": "drivers.gnss.unicore:UnicoreDevice",
    "pps": "drivers.gnss.pps:PpsDevice",
    "ntrip": "drivers.ntrip.device:NtripDevice",
    "rtcm": "drivers.rtcm.device:RtcmDevice",
    "n100": "drivers.imu.n100:N100Device",
    "witmotion": "drivers.imu.witmotion:WitMotionDevice",
    "bno08x": "drivers.imu.bno08x:Bno08xDevice",
    "xsens": "drivers.imu.xsens:XsensDevice",
    "vectornav": "drivers.imu.vectornav:VectorNavDevice",
    "mip": "drivers.imu.mip:MipDevice",
    "sbg": "drivers.sbg.device:SbgDevice",
    "natnet": "drivers.mocap.natnet_device:NatNetDevice",
    "vrpn": "drivers.mocap.vrpn:VrpnDevice",
    "vicon": "drivers.mocap.vicon:ViconDevice",
    "v2v": "drivers.v2v.device:V2vDevice",
    "rplidar": "drivers.lidar.rplidar:RplidarDevice",
    "ydlidar": "drivers.lidar.ydlidar:YdlidarDevice",
    "ldrobot": "drivers.lidar.ldrobot:LdrobotDevice",
    "hokuyo": "drivers.lidar.hokuyo:HokuyoDevice",
    "sick": "drivers.lidar.sick:SickDevice",
    "velodyne": "drivers.lidar.velodyne:VelodyneDevice",
    "ouster": "drivers.lidar.ouster:OusterDevice",
    "vesc_can": "drivers.vesc.device:VescCan",
    "vesc_uart": "drivers.vesc.device:VescUart",
    "vesc_forward": "drivers.vesc.forwarding:VescForward",
    "odrive_can": "drivers.motor.odrive:OdriveCan",
    "odrive_ascii": "drivers.motor.odrive:OdriveAscii",
    "roboclaw": "drivers.motor.roboclaw:RoboclawDevice",
    "sabertooth": "drivers.motor.sabertooth:SabertoothDevice",
    "maestro": "drivers.motor.maestro:MaestroDevice",
    "pca9685": "drivers.motor.pca9685:Pca9685Device",
    "pwm_board": "drivers.pwm_board.device:PwmBoard",
    "mavlink_autopilot": "drivers.autopilot.device:AutopilotDevice",
    "encoder": "drivers.encoder.device:EncoderDevice",
    "crsf": "drivers.rc.crsf:CrsfDevice",
    "sbus": "drivers.rc.sbus:SbusDevice",
    "ibus": "drivers.rc.ibus:IbusDevice",
}
BASE_STATIONS: dict[str, str] = {
    "ublox": "drivers.ublox.base_station:UbloxBase",
    "septentrio": "drivers.gnss.septentrio_base:SeptentrioBase",
    "unicore": "drivers.gnss.unicore_base:UnicoreBase",
}
"""GNSS receivers that ``vehicled base`` makes a base station."""
DECODERS: dict[str, str] = {
    "nmea": "drivers.ublox.codec:decode_nmea",
    "rtcm": "drivers.rtcm.codec:decode",
    "spartn": "drivers.rtcm.spartn:decode",
    "ublox": "drivers.ublox.codec:decode",
    "septentrio": "drivers.gnss.septentrio:decode",
    "unicore": "drivers.gnss.unicore:decode",
    "n100": "drivers.imu.n100:decode",
    "witmotion": "drivers.imu.witmotion:decode",
    "bno08x": "drivers.imu.bno08x:decode",
    "xsens": "drivers.imu.xsens:decode",
    "vectornav": "drivers.imu.vectornav:decode",
    "mip": "drivers.imu.mip:decode",
    "sbg": "drivers.sbg.codec:decode",
    "natnet": "drivers.mocap.natnet_device:decode",
    "vrpn": "drivers.mocap.vrpn:decode",
    "vicon": "drivers.mocap.vicon:decode",
    "rplidar": "drivers.lidar.rplidar:decode",
    "ydlidar": "drivers.lidar.ydlidar:decode",
    "ldrobot": "drivers.lidar.ldrobot:decode",
    "hokuyo": "drivers.lidar.hokuyo:decode",
    "sick": "drivers.lidar.sick:decode",
    "velodyne": "drivers.lidar.velodyne:decode",
    "ouster": "drivers.lidar.ouster:decode",
    "vesc": "drivers.vesc.uart:decode",
    "mavlink": "drivers.autopilot.codec:decode",
    "encoder": "drivers.encoder.codec:decode",
    "crsf": "drivers.rc.crsf:decode",
    "sbus": "drivers.rc.sbus:decode",
    "ibus": "drivers.rc.ibus:decode",
}
"""Recording formats. Each decoder takes the bytes of a recording and yields (message name, content)
in order."""
CAN_DECODERS: dict[str, str] = {
    "can": "vehicled.core.wire.can:decode",
    "vesc": "drivers.vesc.canbus:decode_frames",
    "odrive": "drivers.motor.odrive:decode_frames",
}
"""CAN recording formats. Each decoder takes the frames of a recording and yields (message name,
content) in order."""

LISTENERS: dict[str, tuple[str, dict[str, Any]]] = {
    "nmea": ("ublox", {"protocol": "nmea", "configure": False}),
    "ublox": ("ublox", {"configure": False}),
    "septentrio": ("septentrio", {"configure": False}),
    "unicore": ("unicore", {"configure": False}),
    "rtcm": ("rtcm", {}),
    "spartn": ("rtcm", {"protocol": "spartn"}),
    "n100": ("n100", {}),
    "witmotion": ("witmotion", {}),
    "bno08x": ("bno08x", {}),
    "xsens": ("xsens", {"configure": False}),
    "vectornav": ("vectornav", {"configure": False}),
    "mip": ("mip", {"configure": False}),
    "sbg": ("sbg", {"configure": False}),
    "natnet": ("natnet", {"configure": False}),
    "vrpn": ("vrpn", {}),
    "vicon": ("vicon", {}),
    "encoder": ("encoder", {"ticks_per_revolution": 1e6, "wheel_radius_m": 0.1}),
    "rplidar": ("rplidar", {"configure": False}),
    "ydlidar": ("ydlidar", {"configure": False}),
    "ldrobot": ("ldrobot", {"configure": False}),
    "hokuyo": ("hokuyo", {"configure": False}),
    "sick": ("sick", {"configure": False}),
    "velodyne": ("velodyne", {}),
    "ouster": ("ouster", {}),
    "vesc": ("vesc_uart", {}),
    "mavlink": ("mavlink_autopilot", {"configure": False}),
    "crsf": ("crsf", {"telemetry_hz": 0.0}),
    "sbus": ("sbus", {}),
    "ibus": ("ibus", {"telemetry": False}),
}
"""Driver of each recording format, with the parameters with which it only listens."""

QUESTIONS: dict[str, str] = {"vesc": "drivers.vesc.uart:QUESTIONS"}
"""Bytes that make a device which answers only commands say who it is, by recording format. They
move and change nothing."""
ANSWERS: dict[str, str] = {"vesc": "drivers.vesc.report:facts_of"}
"""Functions that make facts of a vehicle, and lines for its owner, of the answers to the
questions."""

_TABLES: dict[str, dict[str, str]] = {
    "estimator": ESTIMATORS,
    "identifier": IDENTIFIERS,
    "controller": CONTROLLERS,
    "driver": DRIVERS,
    "base station": BASE_STATIONS,
    "decoder": DECODERS,
    "CAN decoder": CAN_DECODERS,
}


def add_names(folder: Path) -> None:
    """Add the names in the files ``names.toml`` of the packages in a folder: tables of names by
    kind."""
    for file in sorted(folder.glob("*/names.toml")):
        for kind, found in tomllib.loads(file.read_text(encoding="utf-8")).items():
            _TABLES[kind].update(found)


add_names(Path(__file__).parents[1])


def questions() -> dict[str, bytes]:
    """Return the bytes that ask silent devices who they are, by recording format."""
    found = {}
    for name, target in QUESTIONS.items():
        module, _, attribute = target.partition(":")
        found[name] = getattr(import_module(module), attribute)
    return found


def facts_of_answers(
    name: str, answers: Mapping[str, object]
) -> tuple[dict[str, float], list[str]]:
    """Return the facts of a vehicle by the answers of a device that was asked, and lines for its
    owner."""
    module, _, attribute = ANSWERS[name].partition(":")
    found: tuple[dict[str, float], list[str]] = getattr(import_module(module), attribute)(answers)
    return found


class UnknownNameError(UserError, LookupError):
    """Name without a registered implementation. ``suggestion`` is the nearest name, or None."""

    def __init__(self, kind: Kind, name: str) -> None:
        self.kind: Kind = kind
        self.name = name
        self.choices = names(kind)
        close = get_close_matches(name[:64], self.choices, n=1, cutoff=0.5)
        self.suggestion: str | None = close[0] if close else None
        hint = f'; did you mean "{self.suggestion}"?' if self.suggestion else ""
        super().__init__(
            f'unknown {kind} "{name[:64]}"{hint} (registered: {", ".join(self.choices)})'
        )


def names(kind: Kind) -> tuple[str, ...]:
    """Return the registered names of one kind, sorted."""
    return tuple(sorted(_TABLES[kind]))


def offered(kind: Kind) -> dict[str, str]:
    """Return the names that installed packages offer, with ``module:attribute`` of each. Registered
    names come first."""
    from importlib.metadata import entry_points

    group = f"vehicled.{kind.replace(' ', '_')}s"
    return {
        point.name: point.value
        for point in entry_points(group=group)
        if point.name not in _TABLES[kind]
    }


def reference(kind: Kind, name: str) -> str:
    """Return the plugin's reference behind a name; empty for a registered one. Raises
    :class:`UnknownNameError`."""
    if name in _TABLES[kind]:
        return ""
    found = name if ":" in name or name.endswith(".onnx") else offered(kind).get(name)
    if found is None:
        raise UnknownNameError(kind, name)
    return found


def resolve(kind: Kind, name: str, *, fresh: bool = False) -> Any:
    """Import and return the implementation ``name``; ``fresh`` reads a plugin's files anew.

    Raises UnknownNameError, and PluginError for a plugin; import errors of registered
    implementations pass through.
    """
    if plugin := reference(kind, name):
        from vehicled.profile import plugins

        return plugins.load(
            kind, plugin, plugins.CONTRACTS[kind], _TABLES[kind], fresh=fresh
        ).implementation
    module, _, attribute = _TABLES[kind][name].partition(":")
    return getattr(import_module(module), attribute)
