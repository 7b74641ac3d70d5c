"""The NTRIP client on a real connection: the same machine, with a kernel between it and the
caster."""

import select
import socket
import threading
import time
from collections.abc import Callable

import pytest

from drivers.ntrip.device import NtripDevice
from drivers.ntrip.params import NtripParams
from tests.busy_computer import DEADLINE_S
from tests.ntrip_caster import Caster, rtcm
from vehicled.core.messages import Corrections, Fault, FixType, GnssFix, Message, PortState
from vehicled.core.ports import Reopen, Send

FRAMES = [rtcm(1077, bytes([number]) * 700) for number in range(60)]


def serve(listener: socket.socket, casters: list[Caster]) -> None:
    """One connection after the other, each to a caster of its own, until it or the client hangs
    up."""
    for caster in casters:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(DEADLINE_S)
            while (
                not (caster.streaming and (caster.positions or not caster.needs_position))
                and not caster.closed
            ):
                data = connection.recv(100)
                if not data:
                    break
                caster.receive(data)
                connection.sendall(caster.take())
            for frame in FRAMES if caster.streaming else ():
                # Cut where no frame ends, so that the reads of the client do not either.
                caster.publish(frame[:333])
                connection.sendall(caster.take())
                caster.publish(frame[333:])
                connection.sendall(caster.take())


def drive(
    device: NtripDevice, address: tuple[str, int], until: Callable[[list[Message]], bool]
) -> list[Message]:
    """The least that a port does: connect, read, write, call when due, connect again."""
    messages: list[Message] = []
    end = time.monotonic() + DEADLINE_S
    while not until(messages):
        with socket.create_connection(address, timeout=DEADLINE_S) as connection:
            messages += device.on_port(
                PortState.OPENED, f"tcp://{address[0]}:{address[1]}", time.monotonic_ns()
            )
            reopen = False
            while not reopen and not until(messages):
                assert time.monotonic() < end, (
                    f"gave up with {len(messages)} messages, the last {messages[-1:]}"
                )
                for action in device.take_tx():
                    if isinstance(action, Send):
                        connection.sendall(action.data)
                    reopen |= isinstance(action, Reopen)
                if device.next_due_ns() <= time.monotonic_ns():
                    messages += device.on_time(time.monotonic_ns())
                elif not reopen and select.select([connection], [], [], 0.05)[0]:
                    data = connection.recv(4096)
                    if not data:
                        break
                    messages += device.on_rx(data, time.monotonic_ns())
        messages += device.on_port(PortState.LOST, "closed", time.monotonic_ns())
    return messages


@pytest.mark.parametrize("compress", ["", "members", "stream"])
def test_a_refusal_a_fall_back_and_a_stream_over_loopback(compress: str):
    users = {"rover": "secret"}
    casters = [
        Caster(users={"rover": "other"}),
        Caster(users=users, speaks="1", strict="status"),
        Caster(
            users=users,
            needs_position=True,
            compress=compress,  # type: ignore[arg-type]
            speaks="1" if not compress else "both",
        ),
    ]
    device = NtripDevice(
        NtripParams(mountpoint="BASE_NORTH", user="rover", password_file="f"), [Corrections], 1
    )
    device.set_secret("secret\n")
    device.on_command(GnssFix(1, 1, 0.9, 0.2, 100.0, fix_type=FixType.FIX_3D), time.monotonic_ns())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(DEADLINE_S)
        server = threading.Thread(target=serve, args=(listener, casters))
        server.start()
        try:
            messages = drive(
                device,
                listener.getsockname(),
                lambda got: sum(isinstance(m, Corrections) for m in got) == len(FRAMES),
            )
        finally:
            server.join(DEADLINE_S)
    assert [message.data for message in messages if isinstance(message, Corrections)] == FRAMES
    faults = [(fault.code, fault.active) for fault in messages if isinstance(fault, Fault)]
    assert faults == [("ntrip_credentials", True), ("ntrip_credentials", False)]
    assert len(casters[2].positions) == 1
