"""The contract of every device, whatever it drives. A new driver joins by one line in
``DEVICES``."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.autopilot import codec as mavlink
from drivers.autopilot.device import AutopilotDevice
from drivers.encoder.device import EncoderDevice, EncoderParams
from drivers.gnss import septentrio, unicore
from drivers.gnss.pps import PpsDevice, PpsParams
from drivers.imu import bno08x, mip, n100, vectornav, witmotion, xsens
from drivers.lidar import hokuyo, ldrobot, ouster, rplidar, sick, velodyne, ydlidar
from drivers.mocap import natnet, vicon, vrpn
from drivers.mocap.natnet_device import NatNetDevice, NatNetParams
from drivers.motor import maestro, odrive, pca9685, roboclaw, sabertooth
from drivers.msglink.codec import encode
from drivers.msglink.device import MsgLinkDevice, MsgLinkParams
from drivers.ntrip.device import NtripDevice
from drivers.ntrip.params import NtripParams
from drivers.pwm_board.device import PwmBoard, PwmParams
from drivers.rc import crsf, ibus, sbus
from drivers.rtcm import spartn
from drivers.rtcm.codec import encode as rtcm_frame
from drivers.rtcm.device import RtcmDevice, RtcmParams
from drivers.sbg import codec as sbg
from drivers.sbg.device import SbgDevice, SbgParams
from drivers.ublox.codec import encode as ublox_frame
from drivers.ublox.device import UbloxDevice
from drivers.ublox.layouts import NavEoe, NavPvt
from drivers.v2v import codec as v2v
from drivers.v2v.device import V2vDevice, V2vParams
from drivers.vesc.canbus import Status, encode_can, split_comm
from drivers.vesc.comm import encode_comm
from drivers.vesc.device import VescCan, VescUart
from drivers.vesc.forwarding import VescForward
from drivers.vesc.params import CanParams, ForwardingParams, UartParams
from drivers.vesc.uart import frame_uart
from drivers.vesc.values import Values
from vehicled.core.messages import (
    ALL,
    ActuatorCommand,
    Corrections,
    GnssFix,
    Heading,
    ImuSample,
    LaserScan,
    MapPose,
    Message,
    MotorStatus,
    NeighbourState,
    PortState,
    RcChannels,
    ReferenceState,
    TimePulse,
    WheelSpeed,
)
from vehicled.core.ports import NEVER_NS, Device, Reopen, Send, SetBaud
from vehicled.core.wire import pps
from vehicled.core.wire.can import pack
from vehicled.core.wire.datagram import pack as datagram

SAMPLES: list[Message] = [
    ImuSample(5, 0, (1.0, 2.0, 3.0), (0.1, 0.2, 0.3), 300.0),
    Heading(7, 0, 1.0, 0.1),
]
RTCM = rtcm_frame(bytes.fromhex("435019") + bytes(40)) * 3
PVT = NavPvt(
    0, 2025, 4, 11, 23, 14, 37, 0x37, 21, -5, 3, 0x83, 0xEA, 25, 76_590_724, 450_657_724, 303_638,
    256_403, 14, 10, 0, 0, 0, 0, 0, 0, 0, 0, 2,
)  # fmt: skip
EPOCHS = b"".join(
    ublox_frame(PVT._replace(itow_ms=t)) + ublox_frame(NavEoe(t)) for t in (1000, 1200)
)
N100 = [
    n100.ImuPacket((0.1, 0.2, 0.3), (0.0, 0.0, -9.8), (0.0,) * 3, 20.0, 0.0, 20.0, 10_000 * i)
    for i in range(9)
]
WITMOTION: tuple[Any, ...] = (
    witmotion.Acceleration((0.0, 0.0, 9.8)),
    witmotion.Gyro((0.1, 0.2, 0.3)),
    witmotion.Angle(0.0, 0.0, 1.0),
)
RVC = [bno08x.RvcPacket(i, 0.1, 0.0, 0.0, (0.0, 0.0, 9.8)) for i in range(9)]
VESC = encode_comm(
    Values(
        fet_temperature_c=30.0,
        motor_temperature_c=40.0,
        motor_current_a=1.0,
        input_current_a=0.5,
        duty=0.1,
        erpm=2000.0,
        input_voltage_v=16.2,
        fault_code=0,
    )
)
FORWARDED = [
    encode_comm(Values(motor_current_a=1.0, duty=0.1, erpm=2000.0, controller_id=number))
    for number in (1, 2)
]
VESC_FRAMES = [*split_comm(254, 1, VESC, 1), encode_can(Status(1, 2000.0, 1.0, 0.1))]


def xsens_frame(i: int) -> bytes:
    attitude: list[tuple[int, Any]] = [
        (0x1020, i),
        (0x1060, 100 * i),
        (0xE020, 7),
        (0x2010, (1.0, 0.0, 0.0, 0.1)),
    ]
    return xsens.encode_mtdata2(
        [*attitude, (0x4020, (0.1 * i, 0.0, 9.81)), (0x8020, (0.0, 0.0, 0.1))]
    )


def vectornav_frame(i: int) -> bytes:
    force, rate = (0.1 * i, 0.0, -9.81), (0.0, 0.0, 0.1)
    fields = {
        "time_startup": 10**7 * i,
        "ypr": (10.0, 0.0, 0.0),
        "acceleration": force,
        "angular_rate": rate,
    }
    return vectornav.encode(
        {"attitude.status": 0, **{f"common.{name}": value for name, value in fields.items()}}
    )


def mip_frame(i: int) -> bytes:
    force = mip.write(0x80, 0x04, (0.01 * i, 0.0, -1.0))
    rate = mip.write(0x80, 0x05, (0.0, 0.0, 0.1))
    return mip.encode(
        0x80, mip.write(0x80, 0xD5, 10**7 * i), force, rate, mip.write(0x80, 0x0C, (0.0, 0.0, 0.1))
    )


def sbg_frames(i: int) -> bytes:
    us, sound = 20_000 * i, 0xF0 | sbg.MODE_NAV_POSITION
    place = (43.07, -89.4, 260.0, -33.5)
    logs: list[sbg.Log] = [
        sbg.ImuShort(us, 0x3FF, 1000 * i, 0, -10_283_000, 0, 0, 6_710_886, 256 * 30),
        sbg.EkfEuler(us, 0.0, 0.0, 1.0, 0.01, 0.01, 0.01, sound),
        sbg.EkfNav(us, 1.0, 0.5, 0.0, 0.1, 0.1, 0.1, *place, 0.01, 0.01, 0.02, sound),
        sbg.GpsVelocity(us, 2 << 6, 200 * i, 1.0, 0.5, 0.0, 0.1, 0.1, 0.1, 26.6, 1.0),
        sbg.GpsPosition(us, 7 << 6, 200 * i, *place, 0.01, 0.01, 0.02, 20),
    ]
    return b"".join(map(sbg.encode_log, logs))


def septentrio_blocks(i: int) -> bytes:
    stamp = 200_000 + 200 * i, 2367
    place = 0.7517, -1.5604, 230.0, -34.0
    blocks: list[septentrio.Block] = [
        septentrio.ReceiverTime(*stamp, 25, 5, 21, 1, 2, 3, 18, 7),
        septentrio.PvtGeodetic(
            *stamp, 4, 0, *place, 1.0, 0.5, 0.0, 26.6, 0.1, 0.1, 0, 0, 24, 0, 7, 120, 0, 0
        ),
        septentrio.CovGeodetic(*stamp, 4, 0, 1e-4, 1e-4, 4e-4, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        septentrio.EndOfPvt(*stamp),
        septentrio.AttEuler(*stamp, 20, 0, 2, 0, 90.0, 0.0, 0.0),
        septentrio.AttCovEuler(*stamp, 0, 0, 0.04, 0.04, 0.0),
        septentrio.AuxAntPositions(*stamp, (septentrio.AuxAntenna(20, 0, 0, 1, 0.5, 0.0, 0.0),)),
        septentrio.EndOfAtt(*stamp),
    ]
    return b"".join(map(septentrio.encode, blocks)) + b"$R: setDataInOut\r\nCOM1>"


def unicore_logs(i: int) -> bytes:
    stamp = unicore.Stamp(2367, 200_000 + 200 * i)
    nav = unicore.BestNav(
        0, 50, 43.07, -89.41, 264.0, -34.0, 61, 0.01, 0.01, 0.02, b"0", 1.2, 0.0, 24, 24, 0, 0, 0,
        0, 0, 0, 0, 8, 0.0, 0.0, 1.0, 26.6, 0.0, 0.03, 0.03,
    )  # fmt: skip
    vector = unicore.UniHeading(
        0, 50, 0.5, 90.0, 0.0, 0.0, 0.5, 0.5, b"999", 20, 18, 18, 17, 0, 0, 0, 0
    )
    text = unicore.encode_text(stamp, nav) if i == 2 else unicore.encode(stamp, nav)
    return text + unicore.encode(stamp, vector, "UNIHEADING") + unicore.answer("UNLOG")


def rplidar_frames(i: int, kind: int = rplidar.EXPRESS) -> bytes:
    """A turn in four capsules."""
    ranges = [2.0] * rplidar.CAPSULE_SAMPLES[kind]
    return b"".join(
        rplidar.encode_capsule(kind, 90.0 * j + 1.0, ranges, first=not i and not j)
        for j in range(4)
    )


def rplidar_nodes(i: int) -> bytes:
    return b"".join(rplidar.encode_node(5.0 * j + 1.0, 2.0, begins=not j) for j in range(72))


def ydlidar_frames(i: int, size: int = 2) -> bytes:
    firsts, strengths = [90.0 * j + 1.0 for j in range(4)], (600,) * 30 if size == 3 else ()
    packets = [
        ydlidar.YdlidarPacket(first < 2.0, 7.0, first, first + 87.0, (8000,) * 30, strengths)
        for first in firsts
    ]
    return b"".join(map(ydlidar.encode_packet, packets))


def ldrobot_frames(i: int) -> bytes:
    firsts = [6_000 * j + 100 for j in range(6)]
    packets = [
        ldrobot.LdrobotPacket(
            3600, first, (2000,) * 12, (200,) * 12, (first + 5_500) % 36_000, 100 * i
        )
        for first in firsts
    ]
    return b"".join(map(ldrobot.encode_packet, packets))


def hokuyo_scan(i: int) -> bytes:
    return hokuyo.encode_ranges("MD0300039901000", "99", 100 * i, [1000 + i] * 100)


def sick_scan(i: int, *, binary: bool = True) -> bytes:
    times = 66_667 * i, 66_667 * i + 6_000
    scan = sick.ScanData(0, i, i, *times, 15.0, -45.0, 3.0, 1.0, tuple(range(1000 + i, 1091 + i)))
    return sick.encode_scan(scan, binary=binary)


def velodyne_packet(i: int) -> bytes:
    azimuth = (np.arange(12) * 500 + 6000 * i + 17_000) % 36_000
    ranges, stamp = np.full((12, 32), 1000 + i), 1_300 * i
    packet = velodyne.VelodyneData(azimuth, ranges, 10, stamp, velodyne.STRONGEST, 0x22)
    return datagram(velodyne.encode_data(packet))


def ouster_packet(i: int) -> bytes:
    found = np.zeros(1, ouster.packet_type("RNG15_RFL8_NIR8", 16, 16))
    found["type"] = ouster.LIDAR_PACKET
    columns = found["columns"][0]
    columns["id"] = (np.arange(16) * 4 + 64 * i + 500) % 512
    columns["stamp"], columns["status"] = 10**9 + 1_250_000 * i + 78_000 * np.arange(16), 1
    columns["pixels"]["range"] = 300 + i
    return datagram(found.tobytes())


def natnet_packets(i: int) -> bytes:
    spot = (0.01 * i, 0.2, -1.0)
    bodies = tuple(
        natnet.TrackedBody(number, spot, (0.0, 0.0, 0.0, 1.0), 1e-4, True) for number in (6, 7)
    )
    info = natnet.ServerInfo("Motive", (3, 1, 0, 0), (4, 1, 0, 0), 10**7, 1511, False)
    names = natnet.write_descriptions([natnet.BodyDescription("car", 7)], (4, 1))
    frame = natnet.Frame(i + 1, bodies, 1.0 + 0.01 * i, ticks=(10**9 + i, 10**9 + i, 10**9 + i))
    packets = [natnet.write_frame(frame, (4, 1))]
    if not i:
        packets.insert(0, natnet.packet(natnet.MessageId.DESCRIPTIONS, names))
        packets.insert(0, natnet.write_server_info(info))
    return b"".join(map(datagram, packets))


def vicon_block(i: int) -> bytes:
    each = vicon.ViconObject("car", (1.0 + 0.01 * i, 2.0, 0.1), (0.0, 0.0, 0.5))
    others = tuple([each._replace(name=name) for name in ("truck", "wall")])
    return datagram(vicon.write(vicon.ObjectBlock(i + 1, (each, *others))))


def vrpn_messages() -> bytes:
    pose = vrpn.encode_pose(vrpn.TrackerPose(0, (1.0, 2.0, 0.1), (0.0, 0.0, 0.0, 1.0)))
    return (
        vrpn.cookie()
        + vrpn.described(vrpn.SENDER, 1, "car")
        + vrpn.described(vrpn.TYPE, 2, vrpn.POSE_TYPE)
        + b"".join(vrpn.encode(10**6 + 10_000 * i, 1, 2, pose) for i in range(3))
    )


def mavlink_frames(i: int) -> bytes:
    us, writer = 20_000 * i, mavlink.MavlinkWriter(1, 1)
    place = 430_700_000, -894_000_000, 260_000, 80, 120, 150, 9_000
    contents: list[mavlink.Content] = [
        mavlink.MavHeartbeat(0, 10, 3, 0x81, 4),
        mavlink.RawImu(us, 10 * i, 0, -1000, 0, 0, 20, 0, 0, 0, 0, 3500),
        mavlink.GpsRawInt(us, *place, 6, 20, 230_000, 14, 20, 50, 50_000, 9_000),
        mavlink.SysStatus(0, 0, 0, 0, 16_200, 150, 0, 0, 0, 0, 0, 0, 80),
        mavlink.Statustext(4, b"PreArm: RC not found"),
        mavlink.WheelDistance(us, (0.1 * i, 0.1 * i, *(0.0,) * 14), 2),
    ]
    return b"".join(map(writer.frame, contents))


def v2v_broadcast(i: int) -> bytes:
    plan: Any = [tuple(0.5 * k for k in range(11))] * 5
    state = NeighbourState(
        90 + i, 0, "", 1.0, 2.0, 0.5, 0.9, 0.0, 0.02, 0.3, 0.0, 0.0, i + 1, float("nan"), *plan
    )
    return datagram(v2v.encode(v2v.Broadcast("", f"v{i}", 1, 91 + i, state)))


STICKS = [tuple(992.0 + i + 10 * k for k in range(16)) for i in range(4)]
LINK = crsf.LinkStatistics(-60, 99, 8)


IMU_OUTPUT: list[type[Message]] = [ImuSample, Heading]
MOTOR_OUTPUT: list[type[Message]] = [MotorStatus, WheelSpeed]
LIFETIME_NS = 50_000_000

ODRIVE = [
    odrive.OdriveFrame(0, odrive.CanSimple.HEARTBEAT, (0, 8, bytes(3))),
    odrive.OdriveFrame(0, odrive.CanSimple.BUS_VOLTAGE_CURRENT, (24.0, 1.0)),
    odrive.OdriveFrame(0, odrive.CanSimple.ENCODER_ESTIMATES, (1.0, 2.5)),
]


def asked(device: Device) -> Device:
    """A driver that has sent its first question: an answer means nothing without it."""
    device.on_port(PortState.OPENED, "", 0)
    device.on_command(ActuatorCommand(1, 1, 0.0, 1.0, 0.0, 0.0), 1)
    return device


def silent_maestro() -> Device:
    """A driver that was quiet for the time of its proof, and has asked for the errors."""
    device = maestro.MaestroDevice(maestro.MaestroParams(), [ActuatorCommand], LIFETIME_NS)
    device.on_port(PortState.OPENED, "", 0)
    device.on_time(400_000_000)
    return device


DEVICES: dict[str, tuple[Callable[[], Device], bytes]] = {
    "msglink": (
        lambda: MsgLinkDevice(MsgLinkParams(), [*IMU_OUTPUT, ActuatorCommand], LIFETIME_NS),
        b"".join(map(encode, SAMPLES)) * 3,
    ),
    "ublox": (lambda: UbloxDevice(UbloxDevice.Params(), [GnssFix, Heading], LIFETIME_NS), EPOCHS),
    "septentrio": (
        lambda: septentrio.SeptentrioDevice(
            septentrio.SeptentrioDevice.Params(), [GnssFix, Heading], LIFETIME_NS
        ),
        b"".join(map(septentrio_blocks, range(3))),
    ),
    "unicore": (
        lambda: unicore.UnicoreDevice(
            unicore.UnicoreDevice.Params(), [GnssFix, Heading], LIFETIME_NS
        ),
        b"".join(map(unicore_logs, range(3))),
    ),
    "ntrip": (
        lambda: NtripDevice(NtripParams(mountpoint="M"), [Corrections], LIFETIME_NS),
        b"ICY 200 OK\r\n\r\n" + RTCM,
    ),
    "rtcm": (lambda: RtcmDevice(RtcmParams(), [Corrections], LIFETIME_NS), RTCM),
    "rtcm_spartn": (
        lambda: RtcmDevice(RtcmParams(protocol="spartn"), [Corrections], LIFETIME_NS),
        b"".join(
            spartn.encode(kind, 1, bytes(range(200)), 7 * kind, encrypted=(1, kind))
            for kind in range(3)
        ),
    ),
    "n100": (
        lambda: n100.N100Device(n100.N100Params(), IMU_OUTPUT, LIFETIME_NS),
        b"".join(n100.encode_imu(packet, i) for i, packet in enumerate(N100)),
    ),
    "witmotion": (
        lambda: witmotion.WitMotionDevice(witmotion.WitMotionParams(), IMU_OUTPUT, LIFETIME_NS),
        b"".join(map(witmotion.encode, WITMOTION)) * 3,
    ),
    "bno08x": (
        lambda: bno08x.Bno08xDevice(bno08x.Bno08xParams(), IMU_OUTPUT, LIFETIME_NS),
        b"".join(map(bno08x.encode, RVC)),
    ),
    "xsens": (
        lambda: xsens.XsensDevice(xsens.XsensParams(), IMU_OUTPUT, LIFETIME_NS),
        b"".join(map(xsens_frame, range(3))),
    ),
    "vectornav": (
        lambda: vectornav.VectorNavDevice(vectornav.VectorNavParams(), IMU_OUTPUT, LIFETIME_NS),
        b"".join(map(vectornav_frame, range(3))),
    ),
    "mip": (
        lambda: mip.MipDevice(mip.MipDevice.Params(), IMU_OUTPUT, LIFETIME_NS),
        b"".join(map(mip_frame, range(3))),
    ),
    "sbg": (
        lambda: SbgDevice(SbgParams(), [*IMU_OUTPUT, GnssFix], LIFETIME_NS),
        b"".join(map(sbg_frames, range(3))),
    ),
    "sbg_reference": (
        lambda: SbgDevice(SbgParams(), [ReferenceState], LIFETIME_NS),
        b"".join(map(sbg_frames, range(3))),
    ),
    "rplidar": (
        lambda: rplidar.RplidarDevice(
            rplidar.RplidarParams(rays=36, rate_hz=30.0), [LaserScan], LIFETIME_NS
        ),
        rplidar.scan_descriptor(rplidar.EXPRESS) + b"".join(map(rplidar_frames, range(4))),
    ),
    "rplidar_dense": (
        lambda: rplidar.RplidarDevice(
            rplidar.RplidarParams(rays=36, rate_hz=30.0, model="c1", configure=False),
            [LaserScan],
            LIFETIME_NS,
        ),
        rplidar.scan_descriptor(rplidar.DENSE)
        + b"".join([rplidar_frames(i, rplidar.DENSE) for i in range(4)]),
    ),
    "rplidar_nodes": (
        lambda: rplidar.RplidarDevice(
            rplidar.RplidarParams(rays=36, rate_hz=30.0, configure=False), [LaserScan], LIFETIME_NS
        ),
        rplidar.scan_descriptor(rplidar.NODES) + b"".join(map(rplidar_nodes, range(4))),
    ),
    "ydlidar": (
        lambda: ydlidar.YdlidarDevice(
            ydlidar.YdlidarParams(rays=36, rate_hz=30.0), [LaserScan], LIFETIME_NS
        ),
        b"".join(map(ydlidar_frames, range(4))),
    ),
    "ydlidar_intensity": (
        lambda: ydlidar.YdlidarDevice(
            ydlidar.YdlidarParams(rays=36, rate_hz=30.0, model="g2"), [LaserScan], LIFETIME_NS
        ),
        b"".join([ydlidar_frames(i, 3) for i in range(4)]),
    ),
    "ldrobot": (
        lambda: ldrobot.LdrobotDevice(
            ldrobot.LdrobotParams(rays=36, rate_hz=30.0), [LaserScan], LIFETIME_NS
        ),
        b"".join(map(ldrobot_frames, range(4))),
    ),
    "hokuyo": (
        lambda: hokuyo.HokuyoDevice(hokuyo.HokuyoParams(model="urg04lx"), [LaserScan], LIFETIME_NS),
        b"".join(map(hokuyo_scan, range(3))),
    ),
    "sick": (
        lambda: sick.SickDevice(sick.SickParams(), [LaserScan], LIFETIME_NS),
        b"".join(map(sick_scan, range(3))),
    ),
    "sick_text": (
        lambda: sick.SickDevice(sick.SickParams(), [LaserScan], LIFETIME_NS),
        b"".join([sick_scan(i, binary=False) for i in range(3)]),
    ),
    "velodyne": (
        lambda: velodyne.VelodyneDevice(
            velodyne.VelodyneParams(rays=36, rate_hz=100.0, height_min_m=-9.0),
            [LaserScan],
            LIFETIME_NS,
        ),
        b"".join(map(velodyne_packet, range(10))),
    ),
    "ouster": (
        lambda: ouster.OusterDevice(
            ouster.OusterParams(
                rays=36,
                rate_hz=100.0,
                profile="RNG15_RFL8_NIR8",
                channels=16,
                columns=512,
                height_min_m=-9.0,
            ),
            [LaserScan],
            LIFETIME_NS,
        ),
        b"".join(map(ouster_packet, range(12))),
    ),
    "natnet": (
        lambda: NatNetDevice(NatNetParams(body="car"), [MapPose], LIFETIME_NS),
        b"".join(map(natnet_packets, range(3))),
    ),
    "vicon": (
        lambda: vicon.ViconDevice(vicon.ViconParams(body="car"), [MapPose], LIFETIME_NS),
        b"".join(map(vicon_block, range(3))),
    ),
    "vrpn": (
        lambda: vrpn.VrpnDevice(vrpn.VrpnParams(body="car"), [MapPose], LIFETIME_NS),
        vrpn_messages(),
    ),
    "vesc_can": (
        lambda: VescCan(CanParams(), MOTOR_OUTPUT, LIFETIME_NS),
        b"".join(map(pack, VESC_FRAMES)) * 3,
    ),
    "vesc_uart": (lambda: VescUart(UartParams(), MOTOR_OUTPUT, LIFETIME_NS), frame_uart(VESC) * 3),
    "vesc_forward": (
        lambda: VescForward(ForwardingParams(), MOTOR_OUTPUT, LIFETIME_NS),
        b"".join(map(frame_uart, FORWARDED)) * 3,
    ),
    "pps": (
        lambda: PpsDevice(PpsParams(), [TimePulse], LIFETIME_NS),
        b"".join(
            pps.encode(pps.PulseStamps(i, 10**9 * i, 0, 0, 10**9 * i + 1000)) for i in range(1, 9)
        ),
    ),
    "encoder": (
        lambda: EncoderDevice(
            EncoderParams(ticks_per_revolution=1000.0, wheel_radius_m=0.1, signs=(1, -1)),
            [WheelSpeed],
            LIFETIME_NS,
        ),
        b"0,100;0,100\r\n31,150;-30,150\r\n62,200;-60,200\r\n",
    ),
    "crsf": (
        lambda: crsf.CrsfDevice(crsf.CrsfParams(), [RcChannels], LIFETIME_NS),
        crsf.encode(LINK)
        + b"".join(crsf.encode(crsf.Channels(each)) for each in STICKS)
        + crsf.encode(crsf.Subset(2, STICKS[0][:5])),
    ),
    "sbus": (
        lambda: sbus.SbusDevice(sbus.SbusParams(), [RcChannels], LIFETIME_NS),
        b"".join(
            sbus.encode(sbus.SbusFrame(each, (True, False), i == 2, i == 3))
            for i, each in enumerate(STICKS)
        ),
    ),
    "ibus": (
        lambda: ibus.IbusDevice(ibus.IbusParams(), [RcChannels], LIFETIME_NS),
        b"".join(ibus.encode(ibus.IbusFrame(each[:14])) for each in STICKS),
    ),
    "odrive_can": (
        lambda: asked(odrive.OdriveCan(odrive.OdriveCanParams(), MOTOR_OUTPUT, LIFETIME_NS)),
        b"".join(map(pack, map(odrive.encode_can, ODRIVE))) * 3,
    ),
    "odrive_ascii": (
        lambda: asked(
            odrive.OdriveAscii(odrive.OdriveAsciiParams(axes=[0]), MOTOR_OUTPUT, LIFETIME_NS)
        ),
        odrive.encode_line("1.000000 2.500000"),
    ),
    "roboclaw": (
        lambda: asked(
            roboclaw.RoboclawDevice(roboclaw.RoboclawParams(), MOTOR_OUTPUT, LIFETIME_NS)
        ),
        roboclaw.ACK + roboclaw.encode_answer(0x80, roboclaw.GET_TIMEOUT, (2,)),
    ),
    "maestro": (silent_maestro, b"\x20\x00"),
    "pca9685": (
        lambda: asked(
            pca9685.Pca9685Device(
                pca9685.Pca9685Params(accept_no_timeout=True), [ActuatorCommand], LIFETIME_NS
            )
        ),
        b"\x20\x04",
    ),
    "mavlink_autopilot": (
        lambda: AutopilotDevice(
            AutopilotDevice.Params(), [*MOTOR_OUTPUT, *IMU_OUTPUT, GnssFix], LIFETIME_NS
        ),
        b"".join(map(mavlink_frames, range(3))),
    ),
    "v2v": (
        lambda: V2vDevice(V2vParams(name="own"), [NeighbourState], LIFETIME_NS),
        # States without receipts are refused; what cannot be read is said at once.
        b"".join(map(v2v_broadcast, range(3))) + datagram(v2v.HEAD),
    ),
    "sabertooth": (
        lambda: sabertooth.SabertoothDevice(
            sabertooth.SabertoothParams(), [ActuatorCommand], LIFETIME_NS
        ),
        b"",
    ),
    "pwm_board": (lambda: PwmBoard(PwmParams(), [ActuatorCommand], LIFETIME_NS), b""),
}
ANSWERING = {"odrive_ascii", "roboclaw"}
"""Devices whose answers are read only after a question, which leaves with a command."""
SILENT = {"pwm_board", "sabertooth"}
"""Devices that never say anything."""
each_device = pytest.mark.parametrize("name", DEVICES)


@each_device
def test_declares_what_it_produces_and_consumes(name: str) -> None:
    device = DEVICES[name][0]()
    assert set(device.produces) <= set(ALL)
    assert set(device.consumes) <= set(ALL)


@each_device
@given(data=st.data())
def test_any_chunking_gives_the_same_messages(name: str, data: st.DataObject) -> None:
    make, stream = DEVICES[name]
    whole = list(make().on_rx(stream, 100))
    assert bool(whole) != (name in SILENT)
    device = make()
    got: list[Message] = []
    # Long streams in few pieces: each is a choice of Hypothesis.
    least, most = (1, 200) if len(stream) < 10_000 else (128, 1500)
    while stream:
        # Large enough pieces for the longest stream, small enough to cut every frame.
        size = data.draw(st.integers(min(len(stream), least), min(len(stream), most)))
        got += device.on_rx(stream[:size], 100)
        stream = stream[size:]
    assert got == whole


@each_device
@given(chunks=st.lists(st.binary(max_size=300), max_size=30))
def test_hostile_bytes_never_raise(name: str, chunks: list[bytes]) -> None:
    device = DEVICES[name][0]()
    for i, chunk in enumerate(chunks):
        for message in device.on_rx(chunk, i):
            assert isinstance(message, device.produces)


@each_device
@given(cut=st.integers(1, 60))
def test_a_reopened_port_starts_clean(name: str, cut: int) -> None:
    make, stream = DEVICES[name]
    device = make()
    device.on_rx(stream[:cut], 1)
    device.on_port(PortState.LOST, "unplugged", 2)
    device.on_port(PortState.OPENED, "again", 3)
    device.on_time(400_000_000)
    if name in ANSWERING:
        device.on_command(ActuatorCommand(4, 4, 0.0, 1.0, 0.0, 0.0), 4)
    assert list(device.on_rx(stream, 100)) == list(make().on_rx(stream, 100))


@each_device
def test_actions_are_taken_once_and_due_times_are_in_range(name: str) -> None:
    device = DEVICES[name][0]()
    device.on_port(PortState.OPENED, "", 10)
    for action in device.take_tx():
        assert isinstance(action, Send | SetBaud | Reopen)
    assert not device.take_tx()
    assert 0 <= device.next_due_ns() <= NEVER_NS


def test_msglink_stamps_arrivals_and_lets_commands_expire() -> None:
    device = MsgLinkDevice(MsgLinkParams(), [ImuSample], 50)
    (sample,) = device.on_rx(encode(SAMPLES[0]), 99)
    assert isinstance(sample, ImuSample)
    assert (sample.t_ns, sample.t_rx_ns) == (5, 99)
    assert not any(
        isinstance(message, Heading) for message in device.on_rx(encode(SAMPLES[1]), 100)
    )
    device.on_command(SAMPLES[0], 1000)
    (action,) = device.take_tx()
    assert isinstance(action, Send)
    assert action.deadline_ns == 1050
