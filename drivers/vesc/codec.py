"""Codec of the VESC, both directions, pure: the one door to it. NOTES.md beside this file is the specification.

- :mod:`drivers.vesc.comm`: COMM_ packets, with :mod:`drivers.vesc.values` (telemetry) and :mod:`drivers.vesc.appconf`
- :mod:`drivers.vesc.uart`: their frames on a serial line; :mod:`drivers.vesc.canbus`: CAN frames, and long packets over CAN
- :mod:`drivers.vesc.faults`: fault codes by name
"""

from drivers.vesc.appconf import (
    SIGNATURES,
    UNREAD,
    AppConf,
    RawAppConf,
    Unreadable,
    encode_appconf,
    read_appconf,
    readable_firmwares,
)
from drivers.vesc.canbus import (
    EVERYONE,
    Can,
    CanMessage,
    CanSetpoint,
    Fill,
    Foreign,
    NotifyBoot,
    Ping,
    Pong,
    Process,
    Reassembler,
    SendMode,
    Short,
    Status,
    Status2,
    Status3,
    Status4,
    Status5,
    Status6,
    decode_can,
    encode_can,
    split_comm,
)
from drivers.vesc.comm import (
    MAX_PAYLOAD_BYTES,
    Comm,
    CommMessage,
    Forward,
    FwVersion,
    PingCanReply,
    Request,
    Selective,
    SelectiveRequest,
    Setpoint,
    Unknown,
    decode_comm,
    encode_comm,
)
from drivers.vesc.faults import describe, fault_name
from drivers.vesc.uart import UartDecoder, decode, frame_uart
from drivers.vesc.values import ALL_FIELDS, KILL_SWITCH, TIMED_OUT, Layout, Values, mask_of

__all__ = [
    "ALL_FIELDS", "EVERYONE", "KILL_SWITCH", "MAX_PAYLOAD_BYTES", "SIGNATURES", "TIMED_OUT", "UNREAD", "AppConf", "Can",
    "CanMessage", "CanSetpoint", "Comm", "CommMessage", "Fill", "Foreign", "Forward", "FwVersion", "Layout", "NotifyBoot",
    "Ping", "PingCanReply", "Pong", "Process", "RawAppConf", "Reassembler", "Request", "Selective", "SelectiveRequest",
    "SendMode", "Setpoint", "Short", "Status", "Status2", "Status3", "Status4", "Status5", "Status6", "UartDecoder",
    "Unknown", "Unreadable", "Values", "decode", "decode_can", "decode_comm", "describe", "encode_appconf", "encode_can",
    "encode_comm", "fault_name", "frame_uart", "mask_of", "read_appconf", "readable_firmwares", "split_comm",
]  # fmt: skip
