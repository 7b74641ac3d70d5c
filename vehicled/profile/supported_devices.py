"""Supported devices, and the evidence for each: ``vehicled devices list`` and docs/devices.md."""

from enum import Enum

from msgspec import Struct


class DriverEvidence(Enum):
    """Best evidence that a driver reads and writes what its devices do."""

    RECORDINGS = "recordings"
    VECTORS = "vectors"
    DOCUMENTS = "documents"


MEANING = {
    DriverEvidence.RECORDINGS: "bytes of real devices, recorded by others, are read in the tests",
    DriverEvidence.VECTORS: (
        "the tests compare it with bytes, tables or a decoder that the maker or another "
        "implementation has published"
    ),
    DriverEvidence.DOCUMENTS: "written from documents or sources alone, tried on our own emulator",
}
"""Meaning of each kind of evidence."""


class SupportedDevices(Struct, frozen=True):
    """Devices of one family of drivers."""

    drivers: tuple[str, ...]
    notes: str
    """Notes of the sources, relative to ``drivers``."""
    devices: str
    ports: str
    does: str
    """Output, and what it takes."""
    evidence: DriverEvidence
    seen: str
    """The evidence in a few words, and what it does not cover."""

    @property
    def names(self) -> str:
        """Names of the drivers, as text."""
        return ", ".join(self.drivers)

    @property
    def text(self) -> str:
        """Return all words that can be looked for."""
        return f"{self.names} {self.devices} {self.ports} {self.does}"


_R, _V, _D = DriverEvidence.RECORDINGS, DriverEvidence.VECTORS, DriverEvidence.DOCUMENTS

SUPPORTED: tuple[SupportedDevices, ...] = (
    SupportedDevices(
        ("ublox",), "ublox/NOTES.md",
        "u-blox generation 9 (ZED-F9P, ZED-F9R), M10, X20; NMEA receivers", "serial, USB",
        "fix with covariance and RTK state, heading of a moving base or of its inertial sensor, "
        "jamming, spoofing; takes corrections and wheel speed",
        _R, "generations 8 to 10 and X20, NMEA of other makers; no answer to most settings",
    ),
    SupportedDevices(
        ("septentrio",), "gnss/NOTES.md",
        "Septentrio mosaic, AsteRx, PolaRx (SBF)", "serial, USB, TCP",
        "fix with covariance and RTK state, heading of two antennas, interference, false signals; "
        "takes corrections",
        _R, "mosaic-X5 and -H, PolaRx2; no RTK solution",
    ),
    SupportedDevices(
        ("unicore",), "gnss/NOTES-unicore.md",
        "Unicore UM980, UM982 and others of their protocol (binary and text logs)", "serial, USB",
        "fix with RTK state, heading of two antennas; takes corrections",
        _R, "lines of text of a UM982; no binary log",
    ),
    SupportedDevices(
        ("pps",), "gnss/NOTES-pps.md",
        "PPS pin of a GNSS receiver, at a pin of the computer or a line DCD", "kernel",
        "second of each pulse, error of the computer's clock; exact times of GNSS epochs; samples "
        "for chrony and ntpd",
        _V, "the structures of chrony, gpsd and the kernel; no real pulse",
    ),
    SupportedDevices(
        ("ntrip",), "ntrip/NOTES.md",
        "NTRIP caster, versions 1 and 2", "TCP, TLS", "corrections for the receiver",
        _R, "streams and source tables of public casters; RTKLIB as the other side",
    ),
    SupportedDevices(
        ("rtcm",), "rtcm/NOTES.md",
        "plain RTCM 3 or SPARTN source", "serial, TCP", "corrections",
        _R, "RTCM 3 of bases and casters, SPARTN of a satellite receiver",
    ),
    SupportedDevices(
        ("n100",), "imu/NOTES.md", "Wheeltec N100", "serial", "IMU samples, heading",
        _R, "one pair of frames",
    ),
    SupportedDevices(
        ("witmotion", "bno08x"), "imu/NOTES.md",
        "WitMotion WT series; BNO08x in RVC mode (no gyro)", "serial", "IMU samples, heading",
        _V, "examples of the makers' documents",
    ),
    SupportedDevices(
        ("xsens", "vectornav", "mip"), "imu/NOTES-xsens-vectornav-mip.md",
        "Xsens MTi; VectorNav VN-100 to 300; MicroStrain GX5, CV5, CV7", "serial",
        "IMU samples, heading",
        _R, "an MTi-G-710, a VN-100, a MicroStrain; no dialogue of the set-up",
    ),
    SupportedDevices(
        ("sbg",), "sbg/NOTES.md",
        "SBG Systems Ellipse and units of its protocol (sbgECom)", "serial, TCP",
        "IMU samples, heading, fix, or the reference state that is the truth of the drive",
        _V, "structures of two other implementations",
    ),
    SupportedDevices(
        ("rplidar",), "lidar/NOTES-rplidar.md", "RPLIDAR A1 to A3, S1 to S3, C1", "serial", "scans",
        _V, "the maker's own decoder",
    ),
    SupportedDevices(
        ("ydlidar",), "lidar/NOTES-ydlidar.md",
        "YDLIDAR X2, X4, G2, G4, G6, TG15, TG30, T-mini", "serial", "scans",
        _R, "T-mini Pro; the others by the maker's examples",
    ),
    SupportedDevices(
        ("ldrobot",), "lidar/NOTES-ldrobot.md", "LDROBOT LD06, LD19, STL-27L", "serial", "scans",
        _V, "the maker's example",
    ),
    SupportedDevices(
        ("hokuyo",), "lidar/NOTES-hokuyo.md",
        "Hokuyo URG-04LX, UST-10LX, UST-20LX, UTM-30LX (SCIP 2.0)", "USB, TCP", "scans",
        _V, "answers of a URG-04LX about itself; no ranges",
    ),
    SupportedDevices(
        ("sick",), "lidar/NOTES-sick.md",
        "SICK TiM5xx, TiM7xx, LMS1xx, LMS5xx (CoLa A and B)", "TCP", "scans",
        _R, "a TiM in CoLa A and B; no LMS",
    ),
    SupportedDevices(
        ("velodyne",), "lidar/NOTES-velodyne.md",
        "Velodyne VLP-16, Puck Hi-Res, VLP-32C, HDL-32E", "UDP", "scans, height maps",
        _R, "VLP-16 and HDL-32E; the others by another decoder",
    ),
    SupportedDevices(
        ("ouster",), "lidar/NOTES-ouster.md",
        "Ouster OS-0, OS-1, OS-2 (legacy, RNG19 and RNG15 profiles)", "UDP", "scans, height maps",
        _R, "OS-0-128 and OS-1-32; RNG19 by the maker's own decoder",
    ),
    SupportedDevices(
        ("natnet", "vicon", "vrpn"), "mocap/NOTES.md",
        "OptiTrack Motive (NatNet 2.0 to 4.x), Vicon Tracker (UDP object stream), VRPN servers",
        "UDP, TCP",
        "pose on the map, or fix and heading, or the reference state that is the truth of the "
        "drive; see [motion capture](motion_capture.md)",
        _R, "NatNet 2.5, 2.7 and 3.0; Vicon and VRPN by documents",
    ),
    SupportedDevices(
        ("v2v",), "v2v/NOTES.md", "Other vehicles with this daemon, by UDP multicast (WLAN)", "UDP",
        "states and planned motion of others; see [fleets](fleets.md#radio-of-real-vehicles)",
        _D, "between sockets and daemons of one computer; no WLAN",
    ),
    SupportedDevices(
        ("vesc_can", "vesc_uart"), "vesc/NOTES.md", "VESC firmware 3 to 6", "CAN, serial",
        "motor status, wheel speed, named faults; takes commands",
        _R, "status messages of an idle controller on CAN; the serial line by pyvesc",
    ),
    SupportedDevices(
        ("vesc_forward",), "vesc/NOTES.md",
        "VESC on USB or a serial line, with up to three more behind it on its CAN bus",
        "serial, USB",
        "as `vesc_uart`, for up to four motors, each with its own time-out",
        _V, "the packets of the firmware's sources",
    ),
    SupportedDevices(
        ("odrive_can", "odrive_ascii"), "motor/NOTES.md",
        "ODrive v3 (firmware 0.5), Pro, S1, Micro (0.6)", "CAN, serial, USB",
        "motor status, wheel speed, named errors; takes commands for one axis or two",
        _V, "the maker's tables",
    ),
    SupportedDevices(
        ("roboclaw",), "motor/NOTES.md",
        "Basicmicro RoboClaw and MCP, packet serial", "serial, USB",
        "motor status and wheel speed of two encoders, named errors; takes commands for two motors",
        _V, "published packets",
    ),
    SupportedDevices(
        ("sabertooth",), "motor/NOTES.md",
        "Dimension Engineering Sabertooth, packet serial", "serial",
        "takes commands for two motors; answers nothing", _V, "the maker's examples",
    ),
    SupportedDevices(
        ("maestro",), "motor/NOTES.md", "Pololu Maestro, a servo and a speed controller",
        "USB, serial", "takes commands; its errors", _V, "the maker's examples",
    ),
    SupportedDevices(
        ("pca9685",), "motor/NOTES.md",
        "PCA9685 boards, as in a donkeycar: a servo and a speed controller", "I2C",
        "takes commands; its mode, so that a dip of its supply shows",
        _V, "the prescaler of the data sheet; no real bus",
    ),
    SupportedDevices(
        ("mavlink_autopilot",), "autopilot/NOTES.md",
        "autopilots with ArduPilot Rover 4 or PX4 1.14, such as a Pixhawk, over MAVLink",
        "USB, serial, TCP",
        "fix with RTK state, IMU samples, heading of two antennas, battery, wheel speed, its mode "
        "and texts; takes commands and corrections",
        _R, "telemetry of a copter in MAVLink 1, pymavlink; neither ArduPilot nor PX4 was driven",
    ),
    SupportedDevices(
        ("pwm_board",), "pwm_board/NOTES.md", "the ART vehicle's servo board", "serial",
        "takes commands; answers nothing", _D, "the published program of the board",
    ),
    SupportedDevices(
        ("encoder",), "encoder/NOTES.md",
        "wheel encoders on an Arduino or Teensy (donkeycar, ros_arduino_bridge)",
        "serial, USB", "wheel speed; names an encoder that stands, is missing or turned",
        _D, "the published programs of the boards",
    ),
    SupportedDevices(
        ("crsf",), "rc/NOTES.md", "RC receivers of ExpressLRS and TBS Crossfire", "serial",
        "channels of the [handset](rc.md), link quality; takes telemetry for it",
        _V, "published frames",
    ),
    SupportedDevices(
        ("sbus",), "rc/NOTES.md", "RC receivers of Futaba, FrSky and others",
        "serial, 8E2, inverted", "channels of the handset, lost frames, failsafe",
        _R, "a Futaba R7008SB",
    ),
    SupportedDevices(
        ("ibus",), "rc/NOTES.md", "RC receivers of FlySky", "serial",
        "channels of the handset; answers with the voltage", _V, "published frames",
    ),
    SupportedDevices(
        ("msglink",), "msglink/NOTES.md", "any simulated device", "simulator link",
        "the daemon's messages", _D, "our own protocol",
    ),
)  # fmt: skip
