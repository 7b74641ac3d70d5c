"""Emulators of motion capture systems: a server of NatNet, a VRPN server, and Vicon's UDP object
stream.

Each turns the pose of the rear axle into that of the rigid body on the vehicle, in the axes of the
system. A second body stands in the room, which may be taken for the vehicle's.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import atan2, cos, pi, sin
from types import MappingProxyType
from typing import Any, NamedTuple

from drivers.mocap import natnet, vicon, vrpn
from drivers.mocap.base import MocapDevice, Quaternion, Vector, from_z_up
from sim_backend.emulators.outbox import ActiveFailures, EmulatorOutbox
from sim_backend.sensors.noise import stream
from vehicled.core.messages import MapPose, Message
from vehicled.core.wire.datagram import datagram_reader, pack
from vehicled.profile.registry import resolve
from vehicled.profile.schema import DeviceTable

FLIP, EXCHANGE, OCCLUDED, FROZEN, LOST = (
    "mocap_flip", "mocap_exchange", "mocap_occluded", "mocap_frozen", "mocap_loses_frames",
)  # fmt: skip
KINDS = MappingProxyType({FLIP: pi, EXCHANGE: 1.0, OCCLUDED: 1.0, FROZEN: 1.0, LOST: 0.3})
ANSWER_NS = 2_000_000
TICK_HZ = 10_000_000
"""Clock of the NatNet server, Hz."""
BOOT_NS = 86_400_000_000_000
"""Time for which the server has run."""
NETWORK_NS = 300_000
CLIENT_NS = 10_000_000_000
"""Time without a sign of life after which a unicast client is dropped."""
OTHER_PLACE_M = (1.0, 0.6, 0.1)
OTHER = "other"


class SimulatedBody(NamedTuple):
    """Pose of a rigid body in the axes of the system."""

    position_m: Vector
    attitude: Quaternion
    tracked: bool = True


def driver_of(device: DeviceTable) -> MocapDevice | None:
    """Return a driver as the profile sets it up; None if the device is no motion capture
    system."""
    kind: Any = resolve("driver", device.driver.name)
    made = isinstance(kind, type) and issubclass(kind, MocapDevice)
    return kind(device.driver.selected, [], 0) if made else None


class MocapServer(ActiveFailures, EmulatorOutbox, ABC):
    """Motion capture system as :class:`sim_backend.emulators.interface.Emulator`. Subclasses add
    the protocol."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__()
        self.params: Any = device.driver.selected
        self.number = 0
        """Number of the newest frame."""
        self._address = device.port
        self._arm: Vector = (*device.lever_arm_m,)  # type: ignore[assignment]
        self._start_ns = start_ns
        self._held: SimulatedBody | None = None
        self._chance = stream(seed, f"{port}/frames")

    # ---------------------------------------------------------------- for subclasses

    @abstractmethod
    def _frame(self, body: SimulatedBody, other: SimulatedBody, t_ns: int, ready_ns: int) -> bytes:
        """Return the bytes of a frame; none to send nothing."""

    # ---------------------------------------------------------------- Emulator interface

    def on_message(self, message: Message, ready_ns: int) -> None:
        """Send a frame with the body at its pose."""
        if not isinstance(message, MapPose):
            return
        self.number += 1
        body = self._body(message)
        if LOST in self._active and self._chance.random() < self._active[LOST]:
            return
        x, y, z = OTHER_PLACE_M
        other = SimulatedBody(from_z_up((x, y, z), self.params.up_axis), self._upright(0.3))
        if data := self._frame(body, other, message.t_ns, ready_ns):
            self._tx.append((ready_ns, data))

    @property
    def kinds(self) -> Mapping[str, float]:
        return KINDS

    # ---------------------------------------------------------------- poses

    def _upright(self, yaw_rad: float) -> Quaternion:
        x, y, z = from_z_up((0.0, 0.0, sin(0.5 * yaw_rad)), self.params.up_axis)
        return x, y, z, cos(0.5 * yaw_rad)

    def _body(self, pose: MapPose) -> SimulatedBody:
        p = self.params
        forward, left, up = self._arm
        c, s = cos(pose.yaw_rad), sin(pose.yaw_rad)
        east = pose.x_m + c * forward - s * left - p.x_m
        north = pose.y_m + s * forward + c * left - p.y_m
        cy, sy = cos(p.yaw_rad), sin(p.yaw_rad)
        place = (cy * east + sy * north, cy * north - sy * east, up)
        yaw_rad = pose.yaw_rad - p.yaw_rad + p.mounting_yaw_rad + self._active.get(FLIP, 0.0)
        if EXCHANGE in self._active:
            x, y, z = OTHER_PLACE_M
            place = (x + 1e-6 * place[0], y + 1e-6 * place[1], z)
        body = SimulatedBody(from_z_up(place, p.up_axis), self._upright(yaw_rad))
        if (OCCLUDED in self._active or FROZEN in self._active) and self._held is not None:
            return self._held._replace(tracked=OCCLUDED not in self._active)
        self._held = body
        return body


class NatNetServer(MocapServer):
    """Motive: NatNet of the version that the profile states, else 4.1."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(port, device, seed, start_ns)
        self._version = natnet.layout_of(self.params.version or (4, 1))
        self._multicast = "group=" in self._address
        given = self.params.body
        self._id = int(given) if given.isdecimal() else 1
        self._name = "vehicle" if given.isdecimal() or not given else given
        self._alone = not given
        self._reader = datagram_reader()
        self._client_ns = -CLIENT_NS

    def on_line(self, baud: int, t_ns: int) -> None:
        self._reader.clear()

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Answer requests, and note that a client lives."""
        for datagram in self._reader.feed(data):
            try:
                packet = natnet.split(datagram)
            except natnet.NatNetError:
                continue
            if packet.message == natnet.MessageId.CONNECT:
                self._client_ns = t_ns
                self._answer(natnet.write_server_info(self._info()), t_ns)
            elif packet.message == natnet.MessageId.REQUEST_DESCRIPTIONS:
                payload = natnet.write_descriptions(self._descriptions(), self._version)
                self._answer(natnet.packet(natnet.MessageId.DESCRIPTIONS, payload), t_ns)
            elif (
                packet.message == natnet.MessageId.KEEP_ALIVE and t_ns - self._client_ns < CLIENT_NS
            ):
                self._client_ns = t_ns
            elif packet.message == natnet.MessageId.DISCONNECT:
                self._client_ns = -CLIENT_NS

    def _answer(self, packet: bytes, t_ns: int) -> None:
        self._tx.append((t_ns + ANSWER_NS, pack(packet)))

    def _info(self) -> natnet.ServerInfo:
        version = (*self._version, 0, 0)
        hz = TICK_HZ if self._version >= (3, 0) else 0
        return natnet.ServerInfo(
            "Motive", (3, 1, 0, 0), version, hz, 1511, self._multicast, "239.255.42.99"
        )

    def _descriptions(self) -> list[natnet.BodyDescription]:
        found = [natnet.BodyDescription(self._name, self._id)]
        return found if self._alone else [natnet.BodyDescription(OTHER, self._id + 1), *found]

    def _frame(self, body: SimulatedBody, other: SimulatedBody, t_ns: int, ready_ns: int) -> bytes:
        if not self._multicast and ready_ns - self._client_ns > CLIENT_NS:
            return b""
        bodies = [natnet.TrackedBody(self._id, body.position_m, body.attitude, 4e-4, body.tracked)]
        if not self._alone:
            bodies.append(
                natnet.TrackedBody(self._id + 1, other.position_m, other.attitude, 4e-4, True)
            )
        since_ns = BOOT_NS - self._start_ns
        sent_ns = max(t_ns, ready_ns - NETWORK_NS)
        ticks = [(each + since_ns) * TICK_HZ // 1_000_000_000 for each in (t_ns, sent_ns, sent_ns)]
        stamp_s = (t_ns + since_ns) * 1e-9
        frame = natnet.Frame(
            self.number, tuple(bodies), stamp_s, (ticks[0], ticks[1], ticks[2]), stamp_s
        )
        return pack(natnet.write_frame(frame, self._version))


class ViconTracker(MocapServer):
    """Vicon Tracker with its UDP object stream."""

    def _frame(self, body: SimulatedBody, other: SimulatedBody, t_ns: int, ready_ns: int) -> bytes:
        found = []
        if body.tracked:
            found.append(_vicon_object(self.params.body or "vehicle", body))
        if self.params.body:
            found.append(_vicon_object(OTHER, other))
        return pack(vicon.write(vicon.ObjectBlock(self.number, tuple(found))))


def _vicon_object(name: str, body: SimulatedBody) -> vicon.ViconObject:
    """Return an object that is turned about one axis alone."""
    x, y, z, w = body.attitude
    return vicon.ViconObject(
        name, body.position_m, (2.0 * atan2(x, w), 2.0 * atan2(y, w), 2.0 * atan2(z, w))
    )


class VrpnServer(MocapServer):
    """VRPN server of two trackers, which sends nothing for one that it does not see."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(port, device, seed, start_ns)
        self._names = [self.params.body or "vehicle", OTHER]
        self._request = bytearray()
        self._connected = False

    def on_line(self, baud: int, t_ns: int) -> None:
        self._request.clear()
        self._connected = False

    def on_rx(self, data: bytes, t_ns: int) -> None:
        """Greet a client that has greeted, and describe the trackers."""
        if self._connected:
            return
        self._request += data[: vrpn.COOKIE_BYTES]
        if len(self._request) < vrpn.COOKIE_BYTES or not self._request.startswith(vrpn.MAGIC):
            return
        self._connected = True
        names = self._names if self.params.body else self._names[:1]
        described = [vrpn.described(vrpn.SENDER, i, name) for i, name in enumerate(names)]
        kind = vrpn.described(vrpn.TYPE, 0, vrpn.POSE_TYPE)
        self._tx.append((t_ns + ANSWER_NS, b"".join((vrpn.cookie(), *described, kind))))

    def _frame(self, body: SimulatedBody, other: SimulatedBody, t_ns: int, ready_ns: int) -> bytes:
        if not self._connected or not body.tracked:
            return b""
        time_us = (t_ns - self._start_ns + BOOT_NS) // 1000
        bodies = (body, other) if self.params.body else (body,)
        return b"".join(
            vrpn.encode(
                time_us,
                i,
                0,
                vrpn.encode_pose(
                    vrpn.TrackerPose(self.params.sensor, each.position_m, each.attitude)
                ),
            )
            for i, each in enumerate(bodies)
        )
