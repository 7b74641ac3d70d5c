"""Notifications reach a manager's socket; without one, or with a bad one, nothing happens."""

import os
import socket
from collections.abc import Iterator

import pytest

from vehicled.runtime.sd_notify import Notifier, watchdog_interval_ns


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path) -> Iterator[tuple[socket.socket, str]]:
    if request.param == "abstract" and not os.path.exists("/proc/self/fd"):
        pytest.skip("abstract names are of Linux")
    name = str(tmp_path / "notify") if request.param == "path" else f"@vehicled-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(name if name[0] == "/" else "\0" + name[1:])
        server.setblocking(False)
        yield server, name


def test_every_message_arrives_as_systemd_expects_it(manager):
    server, name = manager
    notifier = Notifier({"NOTIFY_SOCKET": name})
    assert notifier.reason == ""
    try:
        sent = [
            notifier.ready("armed"),
            notifier.ready(),
            notifier.status("AUTO 3.1 m/s"),
            notifier.watchdog(),
            notifier.extend(1.5),
            notifier.stopping("bye", 20.0),
        ]
        assert sent == [True] * 6
        assert notifier.reached
        received = [server.recv(4096) for _ in range(6)]
    finally:
        notifier.close()
    *earlier, extend, stopping = received
    assert earlier == [b"READY=1\nSTATUS=armed", b"READY=1", b"STATUS=AUTO 3.1 m/s", b"WATCHDOG=1"]
    assert extend == b"EXTEND_TIMEOUT_USEC=1500000"
    assert (
        stopping == b"STOPPING=1\nSTATUS=bye\nEXTEND_TIMEOUT_USEC=20000000\nWATCHDOG_USEC=20000000"
    )
    assert not notifier.watchdog()
    assert not notifier.reached


def test_a_status_cannot_inject_an_assignment(manager):
    server, name = manager
    notifier = Notifier({"NOTIFY_SOCKET": name})
    try:
        notifier.status("late\nMAINPID=1\r\nöäü \udcff")
        assert server.recv(4096).decode() == "STATUS=late MAINPID=1 öäü ?"
    finally:
        notifier.close()


def test_a_full_socket_does_not_block(manager):
    _, name = manager
    notifier = Notifier({"NOTIFY_SOCKET": name})
    try:
        results = {notifier.watchdog() for _ in range(5000)}
        assert results == {True, False}
    finally:
        notifier.close()


@pytest.mark.parametrize(
    "address",
    [
        "",
        "vsock:2:1",
        "relative",
        "/nowhere/at/all",
        "@nobody-listens",
        "/" + "x" * 200,
        "/nul\0byte",
    ],
)
def test_without_a_manager_nothing_happens(address):
    notifier = Notifier({"NOTIFY_SOCKET": address} if address else {})
    assert not notifier.ready("x")
    assert not notifier.watchdog()
    assert not notifier.stopping()
    assert bool(notifier.reason) == (address in ("", "vsock:2:1", "relative"))
    notifier.close()
    notifier.close()


@pytest.mark.parametrize(
    ("environ", "interval_ns"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "500000"}, 500_000_000),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 500_000_000),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "0"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "me"}, 0),
    ],
)
def test_watchdog_interval(environ, interval_ns):
    assert watchdog_interval_ns(environ) == interval_ns
